"""Whether thresholds are somebody else's than the run's that they judge: what git says of their last change.

1. Thresholds that the run's Driver changed last are refused: whoever runs an interview does not say what is good enough.
2. So are thresholds that changed in the very commit that the run was made from, together with plan, payloads or code, unless
   their author is the Reader: nobody can have read them before.
3. Thresholds as nobody committed them, and ones that changed after the run was made, are taken, and the verdict is stamped. To
   change a threshold on purpose is the Reader's right; it is to be seen.
4. Where git does not say, that is told and not held against anybody. In a rehearsal one person may be all of them.
5. What git said when the gate judged lies in the run's folder beside the copy of the thresholds: judged again, it is that.
"""

from pathlib import Path

import msgspec

from drillmaster.errors import one_line
from drillmaster.intake import read_strict
from drillmaster.intake.change import LastChange
from drillmaster.interviews import authors_called
from drillmaster.verdict import Check

__all__ = ["AFTER", "SUFFIX", "UNCOMMITTED", "apart", "kept", "kept_text"]

SUFFIX = ".git.json"
UNCOMMITTED = "UNCOMMITTED THRESHOLDS"
AFTER = "THRESHOLDS CHANGED AFTER THE RUN"


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    last_change: LastChange | None


def apart(
    change: LastChange | None, *, driver: str, reader: str, rehearsal: bool, name: str
) -> tuple[Check, tuple[str, ...]]:
    """Give the check that thresholds `name` are not the Driver's, and stamps. `change` None: git does not say (rule 4)."""
    title = "the thresholds were changed last by somebody else than the Driver"
    why = remedy = ""
    stamps: tuple[str, ...] = ()
    if change is None:
        title = "git does not say who changed the thresholds: that the Driver did not is their word"
    elif change.commit is None:
        title = "the thresholds are not committed as they are: that the Driver did not change them is their word"
        stamps = (UNCOMMITTED,)
    else:
        who, commit = one_line(", ".join(change.authors)), change.commit[:12]
        if change.when == "after":
            stamps = (AFTER,)
        same = authors_called(change.authors, driver)
        if same and not rehearsal:
            why = f"{one_line(driver)}, the Driver, changed them last ({same[0]}, commit {commit})"
            remedy = f"have the Reader read {name}, and commit it with what they sign for; then type this again"
        elif (
            change.when == "same" and not change.alone and not rehearsal and not authors_called(change.authors, reader)
        ):
            why = f"they changed in the commit that was run, together with other files of it ({who}, {commit})"
            remedy = (
                f"have the Reader read {name}, set its review_by anew and commit it alone: "
                f"git commit -m thresholds -- {name}; then drillmaster interview PLAN again"
            )
        elif same:
            title = "the thresholds were changed last by the Driver, as a rehearsal may have it"
        else:
            title += f": {who}, commit {commit}" + (", after the run was made" if stamps else "")
    check = Check(
        id="thresholds-apart",
        role="admission",
        status="refused" if why else "pass",
        title=title,
        why=why,
        remedy=remedy,
    )
    return check, stamps


def kept_text(change: LastChange | None) -> bytes:
    """What is left beside the copy of thresholds, in `NAME.git.json`."""
    return msgspec.json.format(msgspec.json.encode(_Kept(last_change=change)), indent=2) + b"\n"


def kept(path: Path) -> LastChange | None:
    """Read it. Raises Problem."""
    return read_strict(path, _Kept).last_change
