"""Interview: the one page of a load interview for a wiki, filled from verdict, evidence and decision.

1. Plain Markdown, no HTML. Every field stands there every time; one that nobody filled says OPEN.
2. The gate's output is verbatim: its lines as printed, with what the sample supports, and the verdict last.
3. A decision is the table's, never the reader's: which kinds of jobs, which not, and the row that said so.
4. Where it was measured, on what day, by how many calls, and what does not travel, is on the page.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from drillmaster.deciding import Decision, kind_text
from drillmaster.interviews import MADE_AGAIN, WAITED_MS, WAITS
from drillmaster.reports import clip, code_span, markdown_line, number, one_line
from drillmaster.reports._levels import LevelView
from drillmaster.reports.text import check_line, last_line
from drillmaster.spans import span_text
from drillmaster.verdict import Verdict

__all__ = ["InterviewPage", "InterviewView", "LevelView", "render"]

_NAME = 80
_WORDS = {"pass": "PASS", "fail": "BREACH", "refused": "REFUSED"}


class InterviewPage(msgspec.Struct, frozen=True, kw_only=True):
    """What the page says besides verdict and decision. All text is untrusted; empty: nobody said, or it is not known."""

    job: str
    url: str
    evidence: str
    """Run id, or the name of the file."""
    file: str = ""
    """Of a run: the name of its rows' file."""
    commit: str = ""
    """Of the folder that holds plan or harness; with its dirt."""
    driver: str = ""
    reader: str = ""
    recorder: str = ""
    payload: str = ""
    """The frozen request body, screened; the first where several were sent in turn."""
    payload_sha256: str = ""
    thresholds: str
    """Name of the thresholds' file."""
    idle_s: float | None = None
    time_limit_s: float | None = None


class InterviewView(msgspec.Struct, frozen=True, kw_only=True):
    """What the other forms say of an interview besides its verdict. All text in it is untrusted."""

    page: InterviewPage
    decision: Decision
    decided: int | None
    """Which row of the decision table decided; None: the verdict did, or there is no table."""
    by_bound: bool
    """Whether the thresholds judge the upper bound; else what was seen."""
    block_s: float | None = None
    """Of the thresholds: how long a block of time is, of which calls count as one; None: they do not say."""
    judged: bool
    """Whether thresholds were given at all."""
    levels: tuple[LevelView, ...]
    """Those that were judged, in order; the warm-ups are not among them."""
    not_run: tuple[str, ...] = ()
    """Labels of levels that were to be run and were not begun."""
    warmup_calls: int = 0
    started_at: str
    """RFC 3339."""
    ended_at: str
    ended: str
    """`completed`, `aborted`, `refused`; empty: whoever ran it was killed."""
    why: str = ""
    """Why it ended so, where it was not completed."""
    idle_proven: bool | None = None
    """Whether nobody else was connected in the idle time; None: nobody can tell from here."""
    idle_why: str = ""
    dialect: str = "plain"
    stream: bool = False
    torn_bytes: int = 0
    """Of records that a killed or stopped writer left half."""
    knee: str = ""
    """In words: where more callers bring more waiting instead of more answers, or why nobody can tell."""
    knee_callers: tuple[int | None, int | None, int | None] | None = None
    """The knee, and between what it lies; a None is beyond the ladder. None of all: it cannot be told."""
    gate_command: str
    manifest: dict[str, Any] = {}


def render(verdict: Verdict, page: InterviewPage, decision: Decision) -> str:
    """Write the page; ends with a newline."""
    stamps = f" [{', '.join(markdown_line(clip(stamp, 40)) for stamp in verdict.stamps)}]" if verdict.stamps else ""
    output = [*verdict.headline, *(check_line(check) for check in verdict.checks), last_line(verdict)]
    return (
        "\n".join(
            [
                f"# Free-Server Load Interview - {_said(page.job)}{stamps}",
                "",
                f"Date: {decision.measured_on or 'OPEN'}  ",
                f"Harness commit: {_said(page.commit)}  ",
                f"Interview JSON: {_file(page)}, evidence {code_span(verdict.evidence_digest or 'none')}  ",
                f"Driver: {_said(page.driver)}  ",
                f"Reader: {_said(page.reader)}  ",
                f"Recorder: {_said(page.recorder)}",
                "",
                f"Endpoint: {_code(page.url)}  ",
                f"Payload (frozen): {_payload(page)}  ",
                f"Thresholds: {_code(page.thresholds)} @ {code_span(verdict.policy_digest or 'none')}",
                "",
                "Gate output:",
                "",
                *_fenced(output),
                "",
                *_decision(verdict, decision),
                "",
                f"Budget note: {markdown_line(clip(decision.budget, 400))}  ",
                f"Review date: {_review(decision)}",
                "",
                *_limits(page, decision, verdict.counts),
            ]
        )
        + "\n"
    )


def _decision(verdict: Verdict, decision: Decision) -> list[str]:
    if decision.job_alone:
        allowed = "the job that was interviewed, and no other"
    else:
        allowed = "; ".join(kind_text(kind) for kind in decision.allowed) or "nothing"
    elsewhere = "; ".join(kind_text(kind) for kind in decision.elsewhere)
    return [
        f"Decision: {_WORDS[verdict.status]}  ",
        f"Allowed on this path until the review: {allowed}  ",
        f"Stays elsewhere: {'every other job' if decision.job_alone else elsewhere}  ",
        f"Why: {markdown_line(clip(decision.why, 600))}",
    ]


def _review(decision: Decision) -> str:
    return decision.review_on or "OPEN: the file does not say when it was measured"


def _limits(page: InterviewPage, decision: Decision, counts: Mapping[str, int]) -> list[str]:
    idle = f"after {number(page.idle_s)} s of silence" if page.idle_s is not None else "after a silence nobody recorded"
    cut = f"cut at {number(page.time_limit_s)} s" if page.time_limit_s is not None else "cut at a time nobody recorded"
    made_again, waits, sessions = (counts.get(name, 0) for name in (MADE_AGAIN, WAITS, "sessions"))
    again = f", {made_again} of them made again on a kept connection that had been closed" if made_again else ""
    if waits:
        waited = span_text(counts.get(WAITED_MS, 0) / 1e3)
        again += f", {waits} of them waited {waited} in all because Retry-After asked for it"
    if sessions:
        again += f", turns of {sessions} sessions"
    return [
        f"Measured from: {_said(decision.measured_from)}  ",
        f"Sample: {decision.n} calls{again}, {cut}; the cold one {idle}  ",
        f"Does not transfer to: {'; '.join(decision.travels_not)}",
    ]


def _file(page: InterviewPage) -> str:
    return f"{_code(page.file)} of run {_code(page.evidence)}" if page.file else _code(page.evidence)


def _payload(page: InterviewPage) -> str:
    if not page.payload and not page.payload_sha256:
        return "OPEN"
    digest = f" ({code_span(page.payload_sha256)})" if page.payload_sha256 else ""
    return f"{_code(page.payload)}{digest}"


def _said(text: str) -> str:
    return markdown_line(clip(text, _NAME)) or "OPEN"


def _code(text: str) -> str:
    return code_span(clip(text, 600)) if text else "OPEN"


def _fenced(lines: list[str]) -> list[str]:
    clean = [one_line(line) for line in lines]
    fence = "`" * max(3, 1 + max(len(run) for line in clean for run in ["", *re.findall("`+", line)]))
    return [fence, *clean, fence]
