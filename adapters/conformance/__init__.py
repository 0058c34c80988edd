"""Conformance tester: drive a server or a client, record every message, and judge the record.

`checking.check` is the entry point. The tester imports none of the code that it judges.
"""
