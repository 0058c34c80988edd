"""How the checks read a history, and rules that both revisions share; no check registers here."""
