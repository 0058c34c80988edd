"""The durable runtime: tasks of all callers in one store, and the tools that run for them."""
