"""The tasks extension: the pages `ext-tasks` and `sep-2663`."""
