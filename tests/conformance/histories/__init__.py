"""Builders of handwritten histories."""
