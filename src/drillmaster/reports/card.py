"""Card: the one page that is read aloud before a drill and pasted into a wiki after it, filled from the run.

1. At most 45 lines, always. Plain Markdown, no HTML.
2. The fields are Budget, Roles, Rules, Pre-flight (3), Run (4), Verdict (3) and the gate's output. A box is ticked by
   what the run recorded; a human line only where a person attested it by name and time. Under Run stands, without a box,
   what the wire showed of retries, where there were some.
3. The gate's output is its `PASS `, `FAIL ` and `REFUSED ` lines as printed, the verdict last. Where all of it does not
   fit, the admissions that passed give way to one line that counts them; then all PASS lines; then the follow-up lines.
   Only then are FAIL and REFUSED lines cut, and the card says how many and where they are. A line over 160 characters
   is cut with an ellipsis.
4. Each FAIL line of a run that was not refused has one follow-up issue, owned by whom the plan names for its check
   (`owners`, then its `default`). Without an owner it is OPEN. The box is ticked where all are owned and `--issues` has
   written them.
"""

import re
import textwrap
from typing import Final

from drillmaster.reports import clip, code_span, markdown_line, number
from drillmaster.reports._retries import card_text
from drillmaster.reports._view import RunView
from drillmaster.reports.text import check_line, last_line
from drillmaster.verdict import Check, Role, Verdict

__all__ = ["MAX_LINES", "owner", "render"]

MAX_LINES: Final = 45
_WIDTH: Final = 110  # what can be followed with a finger while it is read out
_OUTPUT_WIDTH: Final = 160
_NAME: Final = 60
_FAULT: Final = 200
_STAMPS: Final = 8

_VERDICT_LINES: Final = 4

_HUMAN: Final = (
    ("quiet_window_agreed", "quiet window agreed"),
    ("on_call_told", "on-call told"),
    ("status_note_drafted", "status note drafted"),
)


def owner(check_id: str, owners: dict[str, str]) -> str | None:
    """Name who owns the follow-up of a check; None where the plan names nobody."""
    return owners.get(check_id) or owners.get("default") or None


def render(verdict: Verdict, view: RunView) -> str:
    """Write the card; ends with a newline."""
    head = [*_head(verdict, view), "", *_preflight(view), "", *_run(view), ""]
    follow_up = _follow_up(verdict, view)
    lines = [(check.role, clip(check_line(check), _OUTPUT_WIDTH)) for check in verdict.checks]
    room = MAX_LINES - len(head) - _VERDICT_LINES - 4  # a blank line, "Gate output:" and the two fences
    output = _fit(lines, room - len(follow_up) - 1)
    if output is None and len(follow_up) > 1:
        nobody = sum(line.endswith(" OPEN") for line in follow_up)
        follow_up = [
            f"  - {len(follow_up)} issues, {nobody} of them OPEN: drillmaster card RUN --issues DIR writes them"
        ]
        output = _fit(lines, room - 2)
    if output is None:
        output = _cut(lines, room - len(follow_up) - 1)
    whole = not lines or output == [line for _, line in lines]
    output.append(clip(last_line(verdict), _OUTPUT_WIDTH))
    head += _verdict(verdict, view, whole=whole)
    fence = "`" * max(3, 1 + max(len(run) for line in output for run in ["", *re.findall("`+", line)]))
    return "\n".join([*head, *follow_up, "", "Gate output:", fence, *output, fence]) + "\n"


def _name(text: str) -> str:
    return markdown_line(clip(text, _NAME)) or "nobody"


def _wrapped(line: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=3,
        placeholder=" …",
    )


def _box(done: bool, text: str) -> list[str]:
    return _wrapped(f"- [{'x' if done else ' '}] {text}", "      ")


def _command(text: str, otherwise: str = "") -> str:
    """Put a command on one line, however long: one that is folded cannot be pasted. Unticked where there is none."""
    return f"- [x] {code_span(clip(text, 160))}" if text else f"- [ ] {otherwise}"


def _duration(seconds: float) -> str:
    return f"{number(seconds / 60)} min" if seconds >= 60 else f"{number(round(seconds, 1))} s"


def _head(verdict: Verdict, view: RunView) -> list[str]:
    stamps = f" [{', '.join(markdown_line(clip(stamp, 30)) for stamp in (view.stamps or verdict.stamps)[:_STAMPS])}]"
    seats = "  ".join(f"{seat.title()}={_name(view.seats.get(seat, ''))}" for seat in ("lead", "scribe", "verifier"))
    title = f"# {_name(view.drill.replace('_', ' ').title())} Drill - {_name(view.service)} - {_name(view.date)}"
    # Two blanks at the end of a line are Markdown's line break: the three fields stay three lines in a wiki.
    budget = _wrapped(f"Budget: {markdown_line(view.budget)}")
    budget[-1] += "  "
    return [
        title + (stamps if view.stamps or verdict.stamps else ""),
        *budget,
        f"Roles: {seats}  ",
        "Rules: Lead injects, Scribe timestamps, Verifier judges. No code edits mid-drill.",
    ]


def _preflight(view: RunView) -> list[str]:
    lines = {line.check.replace("-", "_"): line for line in view.preflight}
    said = []
    for check, title in _HUMAN:
        line = lines.get(check)
        attested = line is not None and line.status == "attested" and line.by and line.at
        said.append(
            f"{title} ({_name(line.by)}, {_moment(line.at, view.date)})"
            if line and attested
            else f"{title} (not attested)"
        )
    baseline = next((phase for phase in view.phases if phase.name == "baseline"), None)
    answered = sum(baseline.counts.values()) if baseline else 0
    real = view.upstream is not None and answered > 0
    recorded = (
        f"{_duration(baseline.end_s - baseline.start_s)}, no fault, {answered} requests"
        if baseline and real
        else "none"
    )
    log = lines.get("timeline_writable")
    return [
        "Pre-flight",
        *_box(not any("(not attested)" in part for part in said), ", ".join(said)),
        *_box(real, f"baseline recorded with the real endpoint ({recorded})"),
        *_box(
            log is not None and log.status == "pass",
            f"DRILL_LOG agreed and writable by the worker: {code_span(clip(view.drill_log, 80))}",
        ),
    ]


def _moment(at: str, date: str = "") -> str:
    """Cut an RFC 3339 time for reading out: to the second, or to the minute where it is on the whole minute; no day if `date`."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d)?(?:\.\d+)?([Zz]|[+-]\d\d:\d\d)", at)
    if match is None:
        return _name(at)
    seconds = match[3] if match[3] != ":00" else ""
    return f"{'' if match[1] == date else match[1] + ' '}{match[2]}{seconds or ''}{match[4]}"


def _run(view: RunView) -> list[str]:
    window = view.windows[0] if view.windows else None
    noted = next((note for note in view.notes if note.kind == "injection_seen"), None)
    if window is None:
        fault, lifted = "no fault was injected", False
    else:
        lifted = window.lifted_s is not None and window.gone is not False
        length = "never lifted" if window.lifted_s is None else _duration(window.lifted_s - window.injected_s)
        after = {True: ", then lifted and gone", False: ", and it was not gone after the lift", None: ", then lifted"}
        end = "" if window.lifted_s is None else after[window.gone]
        fault = f"{length} of {markdown_line(clip(window.words, _FAULT))}, acted on {window.met} attempts{end}"
        if len(view.windows) > 1:
            fault += f"; {len(view.windows) - 1} more injections"
    said = f"noted by the Scribe {_moment(noted.at, view.date)}" if noted else "not noted by the Scribe"
    injected = f"; injected {_moment(window.injected_at, view.date)}, {said}" if window else ""
    return [
        "Run",
        _command(view.proxy_command, otherwise="the plan does not say where the proxy listens"),
        _command(
            f"export MODEL_BASE_URL={view.model_base_url}" if view.model_base_url else "",
            otherwise="MODEL_BASE_URL is not known",
        ),
        *_box(
            noted is not None and bool(view.requests),
            f"traffic on: {len(view.requests)} requests, one every {number(view.every_s)} s{injected}",
        ),
        *_box(lifted, fault),
        *(_wrapped(f"- {said}", "      ") if view.retries is not None and (said := card_text(view.retries)) else ()),
    ]


def _verdict(verdict: Verdict, view: RunView, *, whole: bool) -> list[str]:
    failed = _failed(verdict)
    owned = all(owner(check.id, view.owners) for check in failed)
    if verdict.status == "refused":
        follow = ": none, a refused run judges nothing"
    elif not failed:
        follow = ", each with an owner: no FAIL line"
    elif not view.issues:
        follow = ", each with an owner: not written yet (drillmaster card RUN --issues DIR)"
    else:
        follow = f"{', each with an owner' if owned else '; an OPEN one has no owner'}: in {code_span(clip(view.issues, 40))}"
    return [
        "Verdict",
        _command(view.gate_command),
        "- [x] gate output below, "
        + ("verbatim" if whole else "its lines verbatim, with others counted to fit this page"),
        f"- [{'x' if not failed or (owned and view.issues) else ' '}] one follow-up issue per FAIL line{follow}",
    ]


def _failed(verdict: Verdict) -> list[Check]:
    """List what asks for a follow-up issue: nothing where the run was refused."""
    return [] if verdict.status == "refused" else [check for check in verdict.checks if check.status == "fail"]


def _follow_up(verdict: Verdict, view: RunView) -> list[str]:
    failed = _failed(verdict)
    named = [(check.id, owner(check.id, view.owners)) for check in failed]
    return [f"  - {markdown_line(clip(check_id, _NAME))}: {_name(who) if who else 'OPEN'}" for check_id, who in named]


def _fit(lines: list[tuple[Role, str]], room: int) -> list[str] | None:
    """Give the lines as they are, else with passed admissions counted on one, else all that passed; None: no room even so."""
    if not lines:
        return ["REFUSED nothing was looked at"]
    whole = [line for _, line in lines]
    judged = [line for role, line in lines if role == "judgement" or not line.startswith("PASS ")]
    missed = [line for line in judged if not line.startswith("PASS ")]
    for kept, what in ((whole, ""), (judged, "admissions"), (missed, "checks")):
        passed = len(lines) - len(kept)
        short = [f"PASS {passed} {what} more, each in verdict.json", *kept] if passed else kept
        if len(short) <= room:
            return short
    return None


def _cut(lines: list[tuple[Role, str]], room: int) -> list[str]:
    """Keep as many lines that did not pass as there is room for, failures first, and say how many are not here."""
    whole = [line for _, line in lines]
    missed = sorted(
        (line for line in whole if not line.startswith("PASS ")), key=lambda line: line.startswith("REFUSED ")
    )
    shown, rest = missed[: room - 1], missed[room - 1 :]
    failed = sum(line.startswith("FAIL ") for line in rest)
    passed = len(whole) - len(missed)
    return [*shown, f"... {failed} FAIL, {len(rest) - failed} REFUSED and {passed} PASS lines more, in verdict.json"]
