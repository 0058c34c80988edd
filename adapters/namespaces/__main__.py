"""Run the command: `python -m taskmachine`."""

import sys

from taskmachine.adapters.cli.main import main

sys.exit(main())
