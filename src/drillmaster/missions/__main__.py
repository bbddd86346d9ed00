"""The driver of missions as a process of its own: `python -m drillmaster.missions JSON`, the JSON being one `Settings`.

No secret is in it: keys come from the environment. Exit codes: 0 ended in order; 2 it could not start, evidence was lost, or
nothing was sent.
"""

import os
import sys

import msgspec

from drillmaster.errors import Exit, Problem
from drillmaster.missions.driver import run
from drillmaster.missions.settings import Settings


def main(argv: list[str]) -> int:
    """Run; the exit code."""
    if len(argv) != 2:
        print("usage: python -m drillmaster.missions JSON   (people use: drillmaster missions --help)", file=sys.stderr)
        return Exit.REFUSED
    try:
        return run(msgspec.json.decode(argv[1].encode(), type=Settings), os.environ)
    except msgspec.DecodeError as error:
        print(f"drillmaster.missions: settings: {error}", file=sys.stderr)
    except Problem as problem:
        print(f"drillmaster.missions: {problem}", file=sys.stderr)
    return Exit.REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
