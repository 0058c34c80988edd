"""`python -m taskmachine`: the command."""

import sys

from taskmachine.adapters.cli.main import main

sys.exit(main())
