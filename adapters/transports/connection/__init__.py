"""One peer and the runtime, on any transport."""
