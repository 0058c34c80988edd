"""The page `basic/transports`."""
