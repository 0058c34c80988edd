"""Plain HTTP endpoints for browsers and scripts."""
