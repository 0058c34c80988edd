"""The pages below `basic/transports`."""
