"""Checks of servers of 2025-11-25."""
