"""Test kits for parts of a runtime: the contract of engines, and a virtual clock."""
