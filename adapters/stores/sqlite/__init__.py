"""The SQLite store: one file, one or several processes of one machine."""
