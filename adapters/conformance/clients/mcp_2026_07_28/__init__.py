"""The scripted server of 2026-07-28, and its scenarios."""
