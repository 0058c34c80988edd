"""The proxy that plants a bug between a correct server and the tester."""
