"""Checks of clients: what both revisions share, and a folder for each revision."""
