"""The page `basic/utilities/tasks`."""
