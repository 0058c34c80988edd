"""The checks, one module for each page of a specification."""
