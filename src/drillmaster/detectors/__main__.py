"""The listener as a process of its own: `python -m drillmaster.detectors JSON`, the JSON being one `Settings`.

No secret is in it: they come from the environment. Exit codes: 0 ended in order, 2 it could not start or evidence was lost.
"""

import os
import sys

import msgspec

from drillmaster.detectors.listener import run
from drillmaster.detectors.settings import Settings
from drillmaster.errors import Exit, Problem


def main(argv: list[str]) -> int:
    """Run; the exit code."""
    if len(argv) != 2:
        print(
            "usage: python -m drillmaster.detectors JSON   (people use: drillmaster detector listen)", file=sys.stderr
        )
        return Exit.REFUSED
    try:
        return run(msgspec.json.decode(argv[1].encode(), type=Settings), os.environ)
    except msgspec.DecodeError as error:
        print(f"drillmaster.detectors: settings: {error}", file=sys.stderr)
    except Problem as problem:
        print(f"drillmaster.detectors: {problem}", file=sys.stderr)
    return Exit.REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
