"""The driver of missions as a process of its own: `python -m drillmaster.missions JSON`, the JSON being one `Settings`.

No secret is in it: keys come from the environment. Exit codes: 0 ended in order; 2 it could not start, evidence was lost, or
nothing was sent.
"""

import os
import sys

from drillmaster.child import main
from drillmaster.missions.driver import run
from drillmaster.missions.settings import Settings

if __name__ == "__main__":
    sys.exit(
        main("drillmaster.missions", Settings, lambda told: run(told, os.environ), sys.argv, verb="missions --help")
    )
