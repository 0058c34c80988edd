"""Probes: conversations with a target that give the checks something to judge."""
