"""Several servers on one database, behind whatever shares the requests out among them."""
