"""The reference server: transports with the console and telemetry."""
