"""Checks of clients of 2025-11-25."""
