"""Everything with side effects: stores, sockets, processes, the command line."""
