"""Planted bugs, one module for each page of a specification."""
