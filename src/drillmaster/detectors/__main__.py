"""The listener as a process of its own: `python -m drillmaster.detectors JSON`, the JSON being one `Settings`.

No secret is in it: they come from the environment. Exit codes: 0 ended in order, 2 it could not start or evidence was lost.
"""

import os
import sys

from drillmaster.child import main
from drillmaster.detectors.listener import run
from drillmaster.detectors.settings import Settings

if __name__ == "__main__":
    sys.exit(
        main("drillmaster.detectors", Settings, lambda told: run(told, os.environ), sys.argv, verb="detector listen")
    )
