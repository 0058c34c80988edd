"""The real runtime in a world where chance is a seed: virtual time, faults, every order."""
