"""The conformance tester: drives somebody else's server or client, and judges what it heard."""
