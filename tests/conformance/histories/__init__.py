"""Histories written by hand, and what the checks say of them."""
