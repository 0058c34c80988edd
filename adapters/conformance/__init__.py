"""The conformance tester: it drives a server or a client, and judges everything that was said.

`checking.check` is the entry point.  The tester imports nothing of the code that it judges.
"""
