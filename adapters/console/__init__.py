"""The console: tasks in a browser, live.  What it is for its readers: docs/howto/watch.md.

Pages are made here, whole; the little JavaScript there is puts newer pieces of them in place.
What is in a task was written by others: it reaches a page as text only, and no page may run or
load anything but the files beside this one.
"""

from taskmachine.adapters.console.application import Console
from taskmachine.adapters.console.login import Door, LinkDoor, TokenDoor

__all__ = ["Console", "Door", "LinkDoor", "TokenDoor"]
