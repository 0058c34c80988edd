"""The private dialect of erlmcp."""
