"""The probes: what is said to a target, so that the checks have something to judge."""
