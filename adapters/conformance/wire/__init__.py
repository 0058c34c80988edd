"""The wire between the tester and a target: connections, messages, headers, events."""
