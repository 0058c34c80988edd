"""Tools that come with the command: `--tools demo` and `--tools conformance`."""
