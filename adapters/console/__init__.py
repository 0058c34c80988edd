"""The console: tasks in a browser, updated live; see docs/howto/watch.md.

The server renders whole pages; a little JavaScript replaces the parts that change.  The contents
of tasks are untrusted: pages show them as text only, and may load only the console's own files.
"""

from taskmachine.adapters.console.application import Console
from taskmachine.adapters.console.login import LinkLogin, Login, TokenLogin

__all__ = ["Console", "LinkLogin", "Login", "TokenLogin"]
