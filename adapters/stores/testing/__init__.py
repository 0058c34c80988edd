"""The contract test kit for stores."""
