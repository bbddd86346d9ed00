"""Notices: what a drill came to, told where people look. Slack's Block Kit, and a signed webhook for everything else.

1. A notice is made of a verdict of any gate, or of the lack of one, which is told as what it is. It never changes the verdict: it
   is sent behind it, and how it went has an exit code of its own.
2. An address comes from a variable of the environment, and stands in no file, message or error. It is https, or loopback; no
   redirect is followed and no proxy asked.
3. What came out of evidence is plain text: nobody is mentioned, nothing is a link but the two that the command line gives, and what
   looks like a secret is screened. Lengths are the receiver's (`slack`), or 20 kB as the Standard Webhooks specification advises.
4. A notice that was not taken is sent again by the law of the retry guard (`guards.retry`): four times at most, within a minute. A
   webhook carries the same `webhook-id` each time, by which its receiver knows it again. Slack knows none: there only what it
   turned away without working on it (429) is sent again.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from drillmaster.reports import clip, limit, measure, one_line, screened
from drillmaster.verdict import Verdict

__all__ = ["MOST_ROWS", "Missed", "Notice", "notice_of", "without_verdict"]

Word = Literal["pass", "fail", "refused", "aborted"]
MOST_ROWS = 40
TEXT_CHARS = 300


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A check that did not pass."""

    id: str
    title: str
    status: Literal["fail", "refused"]
    observed: str
    limit: str
    why: str


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to tell."""

    status: Word
    gate: str
    subject: str
    """What was judged: service and run."""
    run: str
    missed: tuple[Missed, ...] = ()
    passed: int = 0
    """How many checks passed."""
    stamps: tuple[str, ...] = ()
    why: str = ""
    """Why there is no verdict."""
    at: str
    """When it was judged, or told; RFC 3339."""
    link: str = ""
    """To the run, for people."""
    ndjson: str = ""
    """To its rows for other programs."""
    evidence_digest: str = ""
    policy_digest: str = ""
    version: str = ""

    @property
    def id(self) -> str:
        """The same for the same verdict on the same evidence, or the same lack of one, whoever sends it and how often."""
        judged_at = self.at if self.evidence_digest else ""
        said = "\0".join((self.run, self.gate, self.status, self.evidence_digest, self.policy_digest, judged_at))
        return f"msg_{hashlib.sha256(said.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"

    @property
    def heading(self) -> str:
        """One line: status first."""
        stamps = f" [{', '.join(self.stamps)}]" if self.stamps else ""
        return one_line(f"{self.status.upper()}: {self.gate}, {self.subject or self.run}{stamps}")


def notice_of(verdict: Verdict, *, run: str, link: str = "", ndjson: str = "") -> Notice:
    """Make the notice of a verdict. Checks that failed come before those that were refused."""
    missed = sorted((one for one in verdict.checks if one.status != "pass"), key=lambda one: one.status != "fail")
    return _with(
        link,
        ndjson,
        Notice(
            status=verdict.status,
            gate=verdict.gate,
            subject=verdict.subject,
            run=run,
            missed=tuple(
                Missed(
                    id=one.id,
                    title=clip(one_line(one.title), TEXT_CHARS),
                    status="fail" if one.status == "fail" else "refused",
                    observed=clip(measure(one.observed, one.unit), TEXT_CHARS),
                    limit=clip(limit(one.limit, one.unit), TEXT_CHARS),
                    why=clip(one_line(one.why), TEXT_CHARS),
                )
                for one in missed
            ),
            passed=sum(one.status == "pass" for one in verdict.checks),
            stamps=verdict.stamps,
            at=verdict.now,
            evidence_digest=verdict.evidence_digest,
            policy_digest=verdict.policy_digest,
            version=verdict.version,
        ),
    )


def without_verdict(
    *, status: Literal["refused", "aborted"], why: str, gate: str, run: str, at: str, link: str = "", ndjson: str = ""
) -> Notice:
    """Make the notice of a drill that nobody has judged, which is no pass."""
    why = clip(one_line(why), TEXT_CHARS)
    return _with(link, ndjson, Notice(status=status, gate=gate, subject="", run=run, why=why, at=at))


def _with(link: str, ndjson: str, notice: Notice) -> Notice:
    """Screen all that came from files. Links are whoever sends it, and are of no use with a piece taken out."""
    return msgspec.structs.replace(screened(notice), link=link, ndjson=ndjson)


def row_text(one: Missed) -> str:
    """Say a check that did not pass in one line."""
    parts = [f"observed {one.observed}" if one.observed else "", f"limit {one.limit}" if one.limit else "", one.why]
    said = "; ".join(part for part in parts if part)
    return f"{one.status.upper()} {one.title}" + (f": {said}" if said else "")


def rest_text(missed: Sequence[Missed], shown: int) -> str:
    """Say how many were left out; empty: none."""
    left = len(missed) - shown
    return f"and {left} more, which the run's report has" if left > 0 else ""
