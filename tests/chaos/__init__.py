"""A fleet on PostgreSQL under constant faults: killed processes, restarts, cut connections."""
