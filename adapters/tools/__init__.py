"""Tools as their authors write them: signatures, results, and the context of a call."""
