"""GitHub: a verdict as workflow commands, which stand beside the lines of a pull request.

1. The host shows ten errors a step and drops the rest: the verdict comes first, then each check that did not pass, in their order,
   then further places of theirs, ten in all. Where checks are left out, the last line says how many.
2. Text from evidence cannot give a command of its own: percent, line ends, colons and commas are escaped as the runner
   asks, no line begins with what came from outside, and the older form of a command is broken up.
3. Pass, fail and refused are told as notice and error. There is no `neutral` and no `skipped`, which count as success.
"""

from drillmaster.reports import clip, limit, measure, one_line
from drillmaster.reports.text import last_line
from drillmaster.verdict import Check, Cite, Verdict

__all__ = ["render"]

_CITES = 5
_MOST = 10
_TEXT_CHARS = 1_000


def render(verdict: Verdict) -> str:
    """Write one command a line; ends with a newline."""
    level = "notice" if verdict.status == "pass" else "error"
    title = _property(f"drillmaster {verdict.gate}: {verdict.status}")
    out = [f"::{level} title={title}::{_message(last_line(verdict))}"]
    missed = [check for check in verdict.checks if check.status != "pass"]
    room = _MOST - len(out)
    if len(missed) > room:
        out += [_command(check, next(iter(check.cites), None), verdict.gate) for check in missed[: room - 1]]
        out.append(f"::error title={_property(verdict.gate)}::{len(missed) - room + 1} more checks did not pass")
    else:
        places = sorted(
            ((at, check, cite) for check in missed for at, cite in enumerate(check.cites[:_CITES] or (None,))),
            key=lambda one: one[0],
        )
        out += [_command(check, cite, verdict.gate) for _, check, cite in places[:room]]
    return "\n".join(out) + "\n"


def _command(check: Check, cite: Cite | None, gate: str) -> str:
    place = ""
    if cite is not None and cite.file:
        place = f"file={_property(cite.file)}," + (f"line={cite.line}," if cite.line > 0 else "")
    observed, allowed = measure(check.observed, check.unit), limit(check.limit, check.unit)
    parts = (
        check.title,
        check.why,
        f"observed {observed}" if observed else "",
        f"limit {allowed}" if allowed else "",
        f"To mend it: {check.remedy}" if check.remedy else "",
    )
    text = clip(". ".join(part.rstrip(".") for part in parts if part), _TEXT_CHARS)
    return f"::error {place}title={_property(f'{gate} {check.id} {check.status}')}::{_message(text)}"


def _message(text: str) -> str:
    text = one_line(text).replace("##[", "##\u200b[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
