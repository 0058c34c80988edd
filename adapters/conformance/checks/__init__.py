"""The checks of servers and of clients, by revision and by page of its specification."""
