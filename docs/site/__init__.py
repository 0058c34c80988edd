"""What the site is made with; not part of it."""
