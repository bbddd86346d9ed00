"""The proxy as a process of its own: `python -m drillmaster.proxy JSON`, the JSON being one `Settings`.

No secret is in it: tokens come from files. Exit codes: 0 ended in order, 2 it could not start or evidence was lost.
"""

import sys

import msgspec

from drillmaster.errors import Exit, Problem
from drillmaster.proxy.server import run
from drillmaster.proxy.settings import Settings


def main(argv: list[str]) -> int:
    """Run; the exit code."""
    if len(argv) != 2:
        print("usage: python -m drillmaster.proxy JSON   (people use: drillmaster proxy --help)", file=sys.stderr)
        return Exit.REFUSED
    try:
        return run(msgspec.json.decode(argv[1].encode(), type=Settings))
    except msgspec.DecodeError as error:
        print(f"drillmaster.proxy: settings: {error}", file=sys.stderr)
    except Problem as problem:
        print(f"drillmaster.proxy: {problem}", file=sys.stderr)
    return Exit.REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
