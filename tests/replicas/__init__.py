"""Several servers on one database, behind a load balancer."""
