"""Client transports for Streamable HTTP."""
