"""The built-in tools: `--tools demo` and `--tools conformance`."""
