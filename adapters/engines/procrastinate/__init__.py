"""An engine for many machines: procrastinate, on the PostgreSQL database of the store."""
