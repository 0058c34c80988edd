"""Tasks and the transition table as text, JSON and pictures."""
