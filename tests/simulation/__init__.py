"""The real runtime in simulation: virtual time, seeded faults, all interleavings."""
