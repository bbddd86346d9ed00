"""What was decided about failed calls, from logs of decisions or from a sealed run, for the retries gate.

1. A decision is a line `guard_decision` with `guard`, `allowed` (a bool), `reason`, and where they are told `attempt` (calls made
   so far, from 1) and `route`. Those of guards other than `retry` are counted and not looked at.
2. A reason that is not of the guard's closed set is counted as none. Its text is never kept: it may be a model's.
3. A decision that says `sampled`, a denied one too, was written by somebody who left allowed ones out: how many nobody wrote.
4. Requests are told by `user_request` lines, one an id, however many lines it has.
5. A line that cannot be taken at its word, and may be one of these two, is told with its number. So is a decision whose fields
   have other types: nobody guesses what `"allowed": "no"` means.
6. Of a run only its sealed prefix is read, and what the proxy saw is taken from there. A bare log has no wire behind it.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict, timeline
from drillmaster.errors import Problem, one_line
from drillmaster.evidence import Defect, Row, rows, seal_head
from drillmaster.gates import Gate
from drillmaster.gates._retries_evidence import GOES, KNOWN, Decided, Retried, Wire
from drillmaster.gates.retries import RetriesArticle, reasons_wrong
from drillmaster.intake import is_there
from drillmaster.intake.authority import Authority
from drillmaster.intake.judging import Asked, Gathered, PolicyRead
from drillmaster.intake.run import open_run
from drillmaster.intake.runs import find_run
from drillmaster.outcomes import Run
from drillmaster.retries import account
from drillmaster.strict import shown
from drillmaster.timeline.opening import chunks
from drillmaster.verdict import Absent, AtLeast, Cite, Exact

__all__ = ["Decisions", "article_limits", "open_logs", "open_run_decisions", "sealed_decisions"]

_GUARD = "retry"
_OURS = frozenset({"", "guard_decision", "user_request"})
_CITES = 3
_MOST_ATTEMPT = 1_000_000
_LONGEST_ROUTE = 200


class Decisions:
    """What `intake.judging` asks for: what gathers the evidence."""

    def __init__(self, named: Sequence[str]) -> None:
        self._named = tuple(named)

    def gather(self, gate: Gate[Any], asked: Asked, authority: Authority | None) -> Gathered:
        """Read the evidence for a gate. Raises Problem."""
        first = Path(self._named[0])
        is_run = first.is_dir() if is_there(first) else len(self._named) == 1 and not first.suffix
        if is_run:
            if len(self._named) > 1:
                raise Problem(
                    "gate retries",
                    found=f"{first}, a run, and {len(self._named) - 1} more",
                    wanted="one run, or logs of decisions",
                    remedy=f"drillmaster gate retries {first}",
                )
            seen, subject, digest = open_run_decisions(find_run(first), now_ns=asked.now_ns)
        else:
            seen, digest = open_logs([Path(one) for one in self._named], now_ns=asked.now_ns)
            subject = ", ".join(one_line(Path(one).name) for one in self._named[:3])
            subject += f" and {len(self._named) - 3} more" if len(self._named) > 3 else ""
        of_article = isinstance(gate, RetriesArticle)
        return Gathered(
            evidence=seen,
            subject=subject,
            digest=digest,
            counts={
                "requests": seen.requests or 0,
                "decisions": seen.decided.total,
                "retries": seen.decided.goes if seen.wire is None else seen.wire.retries,
                "decisions of other guards": seen.decided.others,
            },
            end_ns=seen.ended_ns or None,
            stamps=(
                *(() if seen.source == "run" else ("UNSEALED",)),
                *(("AGE NOT JUDGED", "WORST CASE NOT JUDGED") if of_article else ()),
            ),
        )


def article_limits(max_retry_ratio: float | None, forbid_reasons: tuple[str, ...], command: str) -> PolicyRead:
    """Make limits of the article's two flags. Raises Problem where one is missing, or no reason of the closed set."""
    missing = "--max-retry-ratio" if max_retry_ratio is None else "--forbid-reason" if not forbid_reasons else ""
    if max_retry_ratio is None or missing:
        raise Problem(
            "gate retries",
            found=f"no {missing}",
            wanted="both of the article's limits, or a policy",
            remedy=f"{command} --max-retry-ratio 0.05 --forbid-reason unpinned-source",
        )
    wrong = reasons_wrong(forbid_reasons)
    if wrong or not 0 <= max_retry_ratio <= 100:
        raise Problem(
            "--forbid-reason" if wrong else "--max-retry-ratio",
            found=wrong.partition(", wanted ")[0].removeprefix("found ") or f"{max_retry_ratio:g}",
            wanted=wrong.partition(", wanted ")[2] or "a number from 0 to 100",
            remedy=f"{command} --max-retry-ratio 0.05 --forbid-reason unpinned-source",
        )
    limits = RetriesArticle(max_retry_ratio=max_retry_ratio, forbid_reasons=forbid_reasons)
    return PolicyRead(limits, None, strict.digest(msgspec.to_builtins(limits)), "the command line")


def open_logs(paths: Sequence[Path], *, now_ns: int) -> tuple[Retried, str]:
    """Read logs of decisions as one; with their digest. Raises Problem."""
    tally, digests, seen = _Tally(), [], set()
    for path in paths:
        place = path.resolve() if is_there(path) else path
        if place in seen:
            raise _twice(path)
        seen.add(place)
        sha256, before = hashlib.sha256(), tally.lines
        tally.take(rows(_hashed(chunks(path), sha256), file=one_line(path.name)))
        if sha256.hexdigest() in digests and tally.lines > before:  # a copy, or another name of the same file
            raise _twice(path)
        digests.append(sha256.hexdigest())
    if not tally.lines:
        raise Problem(
            str(paths[0]),
            found="no line",
            wanted="decisions and requests, one JSON object a line",
            remedy="name the log that the workers wrote: DRILL_LOG of their environment",
        )
    return tally.evidence("log", now_ns=now_ns), strict.digest(digests)


def open_run_decisions(path: Path, *, now_ns: int) -> tuple[Retried, str, str]:
    """Read the sealed part of a run; with the run's name and digest. Raises Problem."""
    run = open_run(path)
    tally, problems = _Tally(), list(run.seal_problems)
    if not problems:
        tally, problems = sealed_decisions(path, run.digest)
    # Who the users' requests are the join says: probes and lines of another writer are none of theirs.
    requests = len(run.requests) or len(run.worker_requests) or None
    seen = tally.evidence(
        "run",
        now_ns=now_ns,
        requests=requests,
        wire=_wire(run),
        ended_ns=run.started_wall_ns + run.end_ns,
        problems=tuple(problems),
        late=run.late,
    )
    return seen, run.name, run.digest or strict.digest(problems)


def sealed_decisions(path: Path, head: str) -> tuple["_Tally", list[str]]:
    """Read the decisions of the run that was sealed with this head, a second time after `open_run`; with what is not as it was."""
    tally: _Tally = _Tally()
    seal = timeline.read_seal(path)
    if seal_head(seal) != head:
        return tally, ["seal.json changed while it was read"]
    problems = []
    for name, sealed in seal.files.items():
        if not name.endswith(".jsonl"):
            continue
        sha256 = hashlib.sha256()
        if is_there(path / name):
            tally.take(rows(_hashed(chunks(path / name, limit_bytes=sealed.bytes), sha256), file=one_line(name)))
        if sha256.hexdigest() != sealed.sha256:
            problems.append(f"{name} changed while it was read")
    return tally, problems


def _twice(path: Path) -> Problem:
    return Problem(
        "gate retries",
        found=f"{path} twice, or a copy of another log",
        wanted="each log once",
        remedy="name it once: its lines count twice",
    )


def _wire(run: Run) -> Wire | None:
    """What became of failed calls on the wire; None where there is none behind the evidence."""
    told = account(run)
    if told is None:
        return None
    layers = [phase.layers for phase in told.phases]
    most, cites = 0, ()
    for phase in told.phases:
        value = 0 if isinstance(phase.most, Absent) else int(phase.most.value)
        if isinstance(phase.most, Exact | AtLeast) and value > most:
            most, cites = value, phase.most_cites  # type: ignore[assignment]  # both are tuples of cites
    waits = [phase.waits for phase in told.phases]
    return Wire(
        attempts=len(run.attempts),
        retries=sum(one.retries for one in layers),
        unknown=sum(one.unread for one in layers) + sum(phase.unattributed for phase in told.phases),
        most=most,
        most_cites=cites,
        asked=sum(one.asked for one in waits),
        early=sum(one.early for one in waits),
        early_cites=tuple(cite for one in waits for cite in one.early_cites)[:_CITES],
    )


class _Tally:
    """Decisions and requests, line by line."""

    def __init__(self) -> None:
        self.lines = 0
        self.allowed: Counter[str] = Counter()
        self.denied: Counter[str] = Counter()
        self.unnamed = self.contradicted = self.most_attempt = self.unrouted = self.uncounted = self.sampled = (
            self.others
        ) = 0
        self.routes: dict[str, int] = {}
        self.cites: defaultdict[str, list[Cite]] = defaultdict(list)
        self.requests: set[str] = set()
        self.unusable = 0
        self.why = ""
        self.unusable_cites: list[Cite] = []
        self.ended_ns = self.began_ns = 0

    def take(self, found: Iterable[Row | Defect]) -> None:
        for one in found:
            self.lines += 1
            if isinstance(one, Defect):
                if not _OURS.isdisjoint(one.may_be):
                    self._cannot(Cite(one.file, one.line), f"{one.kind}: {one.found}")
                continue
            if one.event in ("guard_decision", "user_request"):
                self.ended_ns = max(self.ended_ns, one.wall_ns)
                self.began_ns = min(self.began_ns or one.wall_ns, one.wall_ns)
                wrong = self._decision(one) if one.event == "guard_decision" else self._request(one)
                if wrong:
                    self._cannot(Cite(one.file, one.line), wrong)

    def _cannot(self, cite: Cite, why: str) -> None:
        self.unusable += 1
        self.why = self.why or f"{cite.file}:{cite.line} {why}"
        if len(self.unusable_cites) < _CITES:
            self.unusable_cites.append(cite)

    def _request(self, row: Row) -> str:
        id_ = row.fields.get("id")
        if not isinstance(id_, str | int) or isinstance(id_, bool) or id_ == "":
            return "a request without an id"
        self.requests.add(str(id_))
        return ""

    def _decision(self, row: Row) -> str:
        guard, allowed = row.fields.get("guard"), row.fields.get("allowed")
        if not isinstance(guard, str) or not guard:
            return "a decision of no guard"
        if guard != _GUARD:
            if not guard.isascii() or re.sub(r"[^a-z]", "", guard.lower()) == _GUARD:
                return f"a decision of the guard {shown(guard)}, wanted {_GUARD}, or another one's name"
            self.others += 1
            return ""
        if not isinstance(allowed, bool):
            return f"allowed is {shown(allowed)}, wanted true or false"
        attempt, route = row.fields.get("attempt"), row.fields.get("route")
        # What the guard itself denies as a fact that none can be it writes down as it was.
        counts = row.fields.get("reason") != "facts-unusable" or allowed
        if counts and attempt is not None and (type(attempt) is not int or not 1 <= attempt <= _MOST_ATTEMPT):
            return f"attempt is {shown(attempt)}, wanted how many calls were made, from 1"
        if route is not None and (not isinstance(route, str) or not 1 <= len(route) <= _LONGEST_ROUTE):
            return "a route that is no name"
        self._count(row, allowed)
        share = row.fields.get("sampled", 1)
        self.sampled += isinstance(share, bool) or share != 1
        if allowed:
            self.most_attempt = max(self.most_attempt, attempt or 0)
            self.uncounted += attempt is None
            if route is None:
                self.unrouted += 1
            else:
                self.routes[route] = max(self.routes.get(route, 0), attempt or 0)
        return ""

    def _count(self, row: Row, allowed: bool) -> None:
        reason = row.fields.get("reason")
        if not isinstance(reason, str) or reason not in KNOWN:
            self.unnamed += 1
            self._cite("", row)
            if allowed:  # it was sent again all the same
                self.allowed[""] += 1
            return
        (self.allowed if allowed else self.denied)[reason] += 1
        self._cite(reason, row)
        if allowed != (reason in GOES):
            self.contradicted += 1
            self._cite("!", row)

    def _cite(self, what: str, row: Row) -> None:
        if len(self.cites[what]) < _CITES:
            self.cites[what].append(Cite(row.file, row.line))

    def evidence(
        self,
        source: Any,
        *,
        now_ns: int,
        requests: int | None = None,
        wire: Wire | None = None,
        ended_ns: int | None = None,
        problems: tuple[str, ...] = (),
        late: int = 0,
    ) -> Retried:
        sent_unnamed = self.allowed.pop("", 0)
        return Retried(
            source=source,
            decided=Decided(
                allowed=dict(self.allowed),
                denied=dict(self.denied),
                unnamed=self.unnamed - sent_unnamed,
                sent_unnamed=sent_unnamed,
                contradicted=self.contradicted,
                most_attempt=self.most_attempt,
                routes=self.routes,
                unrouted=self.unrouted,
                uncounted=self.uncounted,
                sampled=self.sampled,
                others=self.others,
                cites={what: tuple(cites) for what, cites in self.cites.items()},
            ),
            requests=requests if source == "run" else len(self.requests) or None,
            wire=wire,
            ended_ns=self.ended_ns if ended_ns is None else ended_ns,
            began_ns=self.began_ns if source == "log" else 0,
            now_ns=now_ns,
            seal_problems=problems,
            unusable=self.unusable,
            unusable_why=self.why,
            unusable_cites=tuple(self.unusable_cites),
            late=late,
        )


def _hashed(pieces: Iterable[bytes], sha256: "hashlib._Hash") -> Iterator[bytes]:
    for piece in pieces:
        sha256.update(piece)
        yield piece
