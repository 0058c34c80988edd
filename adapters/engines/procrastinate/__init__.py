"""An engine for many machines: procrastinate, on the PostgreSQL of the store."""
