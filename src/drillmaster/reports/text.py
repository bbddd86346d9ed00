"""Text: what `gate` prints. One line a check, then what to do, then what was counted; the last line is the verdict.

Lines begin with `PASS `, `FAIL ` or `REFUSED ` and the check's title, and scripts may grep them. Around them:

    eviction: payments-agent 20261129T153000Z-1a2b [REHEARSAL]     what was judged, with its stamps
    budget: ...                                                    headlines, such as the budget sentence
    PASS sealed
    FAIL fallback within 60 s (observed at least 900 s)
    see fallback: events/traffic.jsonl:120, :121 and 40 more       where a check that did not pass can be looked up
    mend fallback: drillmaster ...                                 the command or edit that makes a refusal go away
    finding no-fallback: CAUSE
      next: ACTION
    counted: attempts 412, requests 360
    evidence sha256:... policy sha256:...
    judged at 2026-11-29T16:02:00Z by drillmaster 0.1.0
    FAIL eviction: 1 failed, 0 refused, 16 passed
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from drillmaster.reports import one_line
from drillmaster.verdict import Check, Cite, Status, Verdict

__all__ = ["check_line", "colour_wanted", "last_line", "render", "where"]

_WORD: dict[Status, str] = {"pass": "PASS", "fail": "FAIL", "refused": "REFUSED"}
_PAINT: dict[Status, str] = {"pass": "32", "fail": "31", "refused": "33"}


def colour_wanted(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Decide about colour: NO_COLOR wins, then FORCE_COLOR (but "0"), then TERM=dumb, then whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal and environ.get("TERM") != "dumb"


def check_line(check: Check) -> str:
    """Write the one line of a check, without colour. The reason stands on it once, and only where the check did not pass."""
    why = f": {check.why}" if check.why and check.status != "pass" and not check.title.endswith(check.why) else ""
    return one_line(f"{_WORD[check.status]} {check.title}{why}")


def last_line(verdict: Verdict) -> str:
    """Write the verdict in one line, with how many checks went each way."""
    tally = {status: sum(c.status == status for c in verdict.checks) for status in _WORD}
    stamps = f" [{', '.join(verdict.stamps)}]" if verdict.stamps else ""
    counts = f"{tally['fail']} failed, {tally['refused']} refused, {tally['pass']} passed"
    return one_line(f"{_WORD[verdict.status]} {verdict.gate}: {counts}{stamps}")


def where(cites: Sequence[Cite], *, most: int = 3) -> str:
    """Name lines of evidence, at most `most` of them and then how many more: `events/proxy.jsonl:4, :9 and 12 more`."""
    named = []
    for file, group in groupby(cites[:most], key=lambda cite: cite.file):
        lines = [cite.line for cite in group]
        named.append(file if lines[0] == 0 else ", ".join([f"{file}:{lines[0]}", *(f":{n}" for n in lines[1:])]))
    more = f" and {len(cites) - most} more" if len(cites) > most else ""
    return one_line(", ".join(named) + more)


def _paint(line: str, status: Status, colour: bool) -> str:
    if not colour:
        return line
    word, _, rest = line.partition(" ")
    return f"\x1b[1;{_PAINT[status]}m{word}\x1b[0m {rest}"


def render(verdict: Verdict, *, colour: bool, quiet: bool = False) -> str:
    """Write a verdict for a terminal or a log; ends with a newline. Colour is on the status words only.

    `quiet` leaves out what asks nothing of its reader: of a pass all but the last line, else what passed, headlines and counts.
    """
    if quiet and verdict.status == "pass":
        return _paint(last_line(verdict), verdict.status, colour) + "\n"
    stamps = f" [{', '.join(verdict.stamps)}]" if verdict.stamps else ""
    out = [one_line(f"{verdict.gate}: {verdict.subject}{stamps}" if verdict.subject else f"{verdict.gate}{stamps}")]
    out += [] if quiet else [one_line(line) for line in verdict.headline]
    told = [check for check in verdict.checks if not quiet or check.status != "pass"]
    out += [_paint(check_line(check), check.status, colour) for check in told]
    if not verdict.checks:
        out.append(_paint("REFUSED nothing was looked at", "refused", colour))
    missed = [check for check in verdict.checks if check.status != "pass"]
    out += [one_line(f"see {check.id}: ") + where(check.cites) for check in missed if check.cites]
    out += [one_line(f"mend {check.id}: {check.remedy}") for check in missed if check.remedy]
    for finding in verdict.findings:
        out.append(one_line(f"finding {finding.id}: {finding.cause}"))
        out.append(one_line(f"  next: {finding.next}"))
    if verdict.counts and not quiet:
        out.append(one_line("counted: " + ", ".join(f"{name} {n}" for name, n in sorted(verdict.counts.items()))))
    digests = {"evidence": verdict.evidence_digest, "policy": verdict.policy_digest}
    if any(digests.values()):
        out.append(one_line(" ".join(f"{name} {digest}" for name, digest in digests.items() if digest)))
    if verdict.now or verdict.version:
        at = f" at {verdict.now}" if verdict.now else ""
        by = f" by drillmaster {verdict.version}" if verdict.version else ""
        out.append(one_line(f"judged{at}{by}"))
    out.append(_paint(last_line(verdict), verdict.status, colour))
    return "\n".join(out) + "\n"
