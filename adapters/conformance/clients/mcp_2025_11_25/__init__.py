"""The scripted server of 2025-11-25, and its scenarios."""
