"""JSON-RPC messages on standard input and output."""
