"""Machinery of the wire machine in `test_wire.py`: servers, clients, tools, record and judge."""
