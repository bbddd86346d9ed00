"""The flag server as a process of its own: `python -m drillmaster.flags JSON`, the JSON being one `Settings`.

No secret is in it: tokens come from files. Exit codes: 0 ended in order, 2 it could not start or evidence was lost.
"""

import sys

import msgspec

from drillmaster.errors import Exit, Problem
from drillmaster.flags.server import run
from drillmaster.flags.settings import Settings


def main(argv: list[str]) -> int:
    """Run; the exit code."""
    if len(argv) != 2:
        print("usage: python -m drillmaster.flags JSON   (people use: drillmaster flags serve --help)", file=sys.stderr)
        return Exit.REFUSED
    try:
        return run(msgspec.json.decode(argv[1].encode(), type=Settings))
    except msgspec.DecodeError as error:
        print(f"drillmaster.flags: settings: {error}", file=sys.stderr)
    except Problem as problem:
        print(f"drillmaster.flags: {problem}", file=sys.stderr)
    return Exit.REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
