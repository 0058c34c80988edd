"""Test kits for what a runtime is made of: the contract of engines, and a virtual clock."""
