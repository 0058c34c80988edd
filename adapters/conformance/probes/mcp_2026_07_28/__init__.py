"""Probes of 2026-07-28."""
