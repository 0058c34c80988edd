"""The reference server: transports with the console and telemetry mounted, until it is stopped."""
