"""What failed in a run of the tests: `python -m tools.failed RUN.xml` prints the ids, one a line, for another run of them alone.

`python -m tools.failed --count RUN.xml [...] --again AGAIN.xml [...]` prints the closing line of all of them. A test that failed
beside others and passed alone counts as passed, and is named: it wants a look, and is no reason to throw a change away.
"""

import sys
import xml.etree.ElementTree as tree
from pathlib import Path

__all__ = ["cases", "main"]


def cases(path: Path) -> dict[str, str]:
    """Read a JUnit file of pytest's: id -> passed, failed or skipped. A file that is not there holds nothing."""
    if not path.exists():
        return {}
    found = {}
    for case in tree.parse(path).iter("testcase"):
        # A module that could not be imported is a case without a class, named after the module.
        where, what = case.get("classname", ""), case.get("name", "")
        name = f"{where.replace('.', '/')}.py::{what}" if where else f"{what.replace('.', '/')}.py"
        kinds = {child.tag for child in case}
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def main(arguments: list[str]) -> int:
    """Print ids or the closing line; 1 where something failed, was skipped, or nothing ran."""
    if arguments[0] != "--count":
        print("\n".join(name for name, how in cases(Path(arguments[0])).items() if how == "failed"))
        return 0
    split = arguments.index("--again")
    again = {name: how for path in arguments[split + 1 :] for name, how in cases(Path(path)).items()}
    ran = [cases(Path(name)) for name in arguments[1:split]]
    ends = {name: again.get(name, how) if how == "failed" else how for one in ran for name, how in one.items()}
    for name in (n for one in ran for n, how in one.items() if how == "failed" and again.get(n) == "passed"):
        print(f"failed beside others, passed alone: {name}")
    count = {how: sum(end == how for end in ends.values()) for how in ("passed", "failed", "skipped")}
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return int(bool(count["failed"] or count["skipped"] or not all(ran)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
