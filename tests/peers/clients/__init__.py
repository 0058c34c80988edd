"""Scripts for the environments of the peers: nothing here is imported by us."""
