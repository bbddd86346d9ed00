"""Whether a gate can say no: each of its checks is shown evidence on which it goes red, and some on which it is green.

1. A check that stays green on its red case, or has no red case, makes the gate refuse to go green.
2. A check that nothing makes green would refuse everything, and is as useless.
3. What a case's gate yields beside the check it is about does not matter.
"""

from collections import defaultdict

from drillmaster.gates import Shown, cases
from drillmaster.gates._asks import asks
from drillmaster.verdict import Status

__all__ = ["selftest"]


def selftest(name: str) -> list[Shown]:
    """Play all cases of one gate; one row a check, in the order of its asks. Raises Problem for an unknown gate."""
    known = asks(name)
    seen: dict[str, dict[Status, int]] = defaultdict(lambda: {"pass": 0, "fail": 0, "refused": 0})
    wrong: dict[str, list[str]] = defaultdict(list)
    for case in cases(name):
        entry = known.of(case.check)
        if entry is None:
            wrong[case.check].append("it has no entry in the gate's asks")
            continue
        try:
            said = [check.status for check in case.gate.checks(case.evidence) if entry.fits(check.id)]
        except Exception as error:  # noqa: BLE001 - a gate that crashes on its own case cannot be believed on any other
            wrong[entry.id].append(f"it ends in {type(error).__name__}: {error}")
            continue
        if (case.status == "pass" and entry.silent and not said) or (
            case.status in said and (case.status != "pass" or set(said) == {"pass"})
        ):
            seen[entry.id][case.status] += 1
        else:
            wrong[entry.id].append(f"wanted {case.status}, got {', '.join(said) or 'no such check'}")
    rows = []
    for entry in known.check:
        red, green = seen[entry.id]["fail"] + seen[entry.id]["refused"], seen[entry.id]["pass"]
        missing = [what for what, n in (("nothing makes it red", red), ("nothing makes it green", green)) if not n]
        rows.append(
            Shown(gate=name, check=entry.id, red=red, green=green, problems=(*wrong.pop(entry.id, ()), *missing))
        )
    rows += [Shown(gate=name, check=check, red=0, green=0, problems=tuple(said)) for check, said in wrong.items()]
    return rows
