"""Functions that read a recorded history, and rules that both revisions share."""
