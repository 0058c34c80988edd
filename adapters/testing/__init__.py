"""Tests of tools: a server and a client in one process, virtual time, scripted answers, crashes."""
