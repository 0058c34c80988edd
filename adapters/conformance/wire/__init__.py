"""The wire between tester and target: connections, messages, headers, events."""
