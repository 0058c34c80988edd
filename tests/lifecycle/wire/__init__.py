"""The running server, driven over real sockets and pipes in both generations at once."""
