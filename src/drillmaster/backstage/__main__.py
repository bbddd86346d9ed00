"""`python -m drillmaster.backstage JSON`, the JSON being one `Plot`: what the pytest plugin starts, once a worker."""

import sys

from drillmaster.backstage.stage import play

if __name__ == "__main__":
    sys.exit(play(sys.argv))
