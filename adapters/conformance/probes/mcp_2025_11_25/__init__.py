"""Probes of 2025-11-25."""
