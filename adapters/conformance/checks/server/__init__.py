"""Checks of servers: the pages that both revisions have, and a folder for each revision."""
