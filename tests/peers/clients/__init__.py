"""Scripts for the environments of the peers; not imported here."""
