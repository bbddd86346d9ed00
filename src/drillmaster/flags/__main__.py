"""The flag server as a process of its own: `python -m drillmaster.flags JSON`, the JSON being one `Settings`.

No secret is in it: tokens come from files. Exit codes: 0 ended in order, 2 it could not start or evidence was lost.
"""

import sys

from drillmaster.child import main
from drillmaster.flags.server import run
from drillmaster.flags.settings import Settings

if __name__ == "__main__":
    sys.exit(main("drillmaster.flags", Settings, run, sys.argv, verb="flags serve --help"))
