"""Passports: what a sealed interview earned one job, in one file that CI can ask before the job runs.

1. A passport is made from a sealed run alone, judged again when it is made. A bare file is somebody's word and makes none.
2. It is for the job that was interviewed. Where the policy has a decision table it says of what kind the job is, and the
   table has to allow that kind.
3. It holds until the end of its review day, in UTC, 30 days after the measurement. Nothing but a new interview renews it.
4. A failed verdict makes a passport too: one that says no. A refused one makes none.
5. A rehearsal, a compressed run, thresholds that nobody owns: such a passport is made and taken only where both say so.
6. Its digest shows what was edited by mistake. Who vouches for it a signature shows: of the Reader's SSH key, on FILE.sig.
"""

import hashlib
import re
import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec

import drillmaster
from drillmaster import signing, strict
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.deciding import BudgetNote, Decision, JobKind, decide, kind_text, review_day
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.change import LastChange, last_change
from drillmaster.intake.interviews import judge_interview_file, open_interview_file, read_thresholds, with_breaches
from drillmaster.intake.thresholds import apart
from drillmaster.intake.written import write_whole
from drillmaster.interviews import Interview, authors_called
from drillmaster.judge import judge
from drillmaster.load.reading import InterviewRun, open_interview_run
from drillmaster.reports import form, screened
from drillmaster.reports.interview import InterviewPage
from drillmaster.verdict import Check, Status, Verdict

__all__ = [
    "Judged",
    "Passport",
    "Standing",
    "check",
    "file_of",
    "issue",
    "judge_file",
    "judge_run",
    "read",
    "unjudged",
    "write",
]

FOLDER = Path("passports")
_CAP_BYTES = 4 << 20
_TRIAL = ("REHEARSAL", "COMPRESSED", "DEMO", "UNPINNED")
_NEVER = ("UNSEALED", "UNPROVEN", "UNDATED")


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """An interview with its verdict, what that earns, and what its page says."""

    interview: Interview
    verdict: Verdict
    decision: Decision
    page: InterviewPage
    decides_kinds: bool
    """Whether the policy has a decision table."""
    by_bound: bool = False
    """Whether the thresholds judge the 95 % upper bound; else what was seen."""
    block_s: float | None = None
    """Of the thresholds: how long a block of time is, of which calls count as one; None: they do not say."""
    thresholds: bool = True
    """Whether there were any; without them the verdict is refused."""
    run: InterviewRun | None = None
    """What the seal covers; None for a bare file."""
    changed: LastChange | None = None
    """Who git says changed the thresholds last; None: it does not say."""


class Passport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file in `passports/`."""

    kind: Literal["passport"] = "passport"
    version: Literal[1] = 1
    job: str
    """The job that was interviewed, by name."""
    job_kind: JobKind | None
    """What kind of job it is; null where the policy has no decision table."""
    url: str
    """The endpoint, without user info and query."""
    run: str
    """Id of the sealed run; `verdict.evidence_digest` is the head of its seal."""
    status: Status
    """The gate's verdict."""
    allowed: tuple[JobKind, ...]
    """Kinds of jobs that the decision table allows."""
    job_alone: bool
    """There is no table, and the gate passed: the interviewed job may run, and no other."""
    why: str
    """The row of the table that decided, or why none did."""
    measured_at: str
    """End of the interview, RFC 3339."""
    measured_from: str
    """Where the load came from; empty: nobody said."""
    n: int
    """Calls that were judged."""
    travels_not: tuple[str, ...]
    """What these numbers say nothing about."""
    budget: str
    """The operator's allowance, the day it was read, and where; else OPEN, and what is missing."""
    review_on: str
    """Its last day, in UTC."""
    thresholds: str
    """Name of the file that the limits are from; `verdict.policy_digest` is its content's."""
    seats: dict[str, str]
    """`driver`, `reader`, `recorder` by name."""
    authors: tuple[str, ...] | None = None
    """Who git says wrote the plan and its payloads; null: not known. None of them signs for the Reader."""
    verdict: dict[str, Any]
    """The whole verdict, as `verdict.json` has it."""
    digest: str
    """Of everything else in the file, as RFC 8785 writes it."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid passport says of a job today."""

    passport: Passport
    status: Literal["pass", "fail"]
    why: str
    days_left: int
    signed_by: str
    """Identity and fingerprint; empty: nobody asked."""


def judge_run(
    run_dir: Path,
    policy: Path,
    *,
    now_ns: int,
    measured_from: str = "",
    budget: BudgetNote | None = None,
    version: str = drillmaster.__version__,
    changed: LastChange | Literal["ask"] | None = "ask",
    lies_at: Path | None = None,
) -> Judged:
    """Judge a sealed run by its thresholds. Raises Problem; Refused where the run is not as it was sealed.

    `changed` is what git said of the thresholds' last change when they judged; "ask" asks it now. `lies_at` is where they lie
    in a repository, where `policy` is a copy.
    """
    read_run = open_interview_run(run_dir)
    thresholds = read_thresholds(policy)
    interview, manifest = read_run.interview, read_run.manifest
    if changed == "ask":
        changed = last_change(lies_at or policy, at=str((manifest.code or {}).get("commit") or "") or None)
    not_the_drivers, more_stamps = apart(
        changed,
        driver=manifest.seats.get("driver", ""),
        reader=manifest.seats.get("reader", ""),
        rehearsal="REHEARSAL" in manifest.stamps,
        name=policy.name,
    )
    now_ns -= now_ns % 1_000_000_000
    ended_ns = interview.ended_wall_ns
    interview = interview.as_of(now_ns)
    verdict = judge(
        thresholds.gate,
        interview,
        name="interview",
        subject=f"{manifest.job}, run {interview.name}: {interview.url}",
        stamps=(*manifest.stamps, *(("UNDATED",) if ended_ns is None else ()), *thresholds.stamps, *more_stamps),
        pin=thresholds.pin,
        policy_digest=thresholds.digest,
        evidence_digest=interview.digest,
        evidence_end_ns=now_ns if ended_ns is None else ended_ns,
        counts=dict(interview.examined),
        now_ns=now_ns,
        version=version,
        limits_from=thresholds.place,
        admitted=(not_the_drivers,),
    )
    verdict = screened(with_breaches(verdict, thresholds.gate, interview))
    measured_from = measured_from or _planned_from(read_run)
    decision = thresholds.gate.decide_jobs(interview, verdict.status, measured_from=measured_from, budget=budget)
    return Judged(
        interview=interview,
        verdict=verdict,
        decision=screened(decision),
        page=screened(_page(read_run, thresholds.place)),
        decides_kinds=thresholds.gate.decision is not msgspec.UNSET,
        by_bound=thresholds.gate.decide == "bound",
        block_s=None if thresholds.gate.block_s is msgspec.UNSET else thresholds.gate.block_s,
        run=read_run,
        changed=changed,
    )


def unjudged(run_dir: Path, *, now_ns: int, command: str, measured_from: str = "") -> Judged:
    """Read a sealed run that nobody has held against thresholds: refused, since nothing was. `command` would judge it."""
    read_run = open_interview_run(run_dir)
    interview, manifest = read_run.interview, read_run.manifest
    missing = Check(
        id="thresholds",
        role="admission",
        status="refused",
        title="thresholds that somebody signed",
        why="nobody has held these numbers against any",
        remedy=command,
    )
    verdict = Verdict(
        gate="interview",
        status="refused",
        checks=(missing,),
        stamps=(*manifest.stamps, "NOT JUDGED"),
        subject=f"{manifest.job}, run {interview.name}: {interview.url}",
        counts=dict(interview.examined),
        evidence_digest=interview.digest,
        now=rfc3339(now_ns, digits=0),
        version=drillmaster.__version__,
    )
    decision = decide(
        interview,
        None,
        {},
        status="refused",
        by_bound=False,
        measured_from=measured_from or _planned_from(read_run),
    )
    return Judged(
        interview=interview,
        verdict=screened(verdict),
        decision=screened(decision),
        page=screened(_page(read_run, "")),
        decides_kinds=False,
        thresholds=False,
        run=read_run,
    )


def _planned_from(run: InterviewRun) -> str:
    """Where the plan says that the load comes from; empty where it does not."""
    return str(run.manifest.plan.get("measured_from") or "")


def _page(run: InterviewRun, thresholds: str) -> InterviewPage:
    interview, manifest = run.interview, run.manifest
    code = manifest.code or {}
    commit = str(code.get("commit") or "")
    return InterviewPage(
        job=manifest.job,
        url=interview.url,
        evidence=interview.name,
        file="interview.json",
        commit=commit + (" (and edits that are not committed)" if commit and code.get("dirt_sha256") else ""),
        driver=manifest.seats.get("driver", ""),
        reader=manifest.seats.get("reader", ""),
        recorder=manifest.seats.get("recorder", ""),
        payload=manifest.payload,
        payload_sha256=manifest.payload_sha256,
        thresholds=thresholds,
        idle_s=interview.idle_s,
        time_limit_s=interview.time_limit_s,
    )


def judge_file(
    path: Path, policy: Path, *, job: str, now_ns: int, measured_from: str = "", budget: BudgetNote | None = None
) -> Judged:
    """Judge a bare file, for its page. No passport comes of it. Raises Problem."""
    interview, thresholds = open_interview_file(path), read_thresholds(policy)
    verdict = judge_interview_file(interview, thresholds, now_ns=now_ns)
    decision = thresholds.gate.decide_jobs(interview, verdict.status, measured_from=measured_from, budget=budget)
    page = InterviewPage(
        job=job,
        url=interview.url,
        evidence=interview.name,
        thresholds=thresholds.place,
        idle_s=interview.idle_s,
        time_limit_s=interview.time_limit_s,
    )
    return Judged(
        interview=interview,
        verdict=verdict,
        decision=screened(decision),
        page=screened(page),
        decides_kinds=thresholds.gate.decision is not msgspec.UNSET,
    )


def file_of(job: str, folder: Path = FOLDER) -> Path:
    """Name the file of a job's passport. Raises Problem for a name that is none."""
    if not job.strip() or len(job) > 200 or one_line(job) != job:
        raise Problem(
            "--job", found=repr(job[:60]), wanted="a job's name on one line", remedy='write --job "nightly lint"'
        )
    slug = re.sub(r"[^a-z0-9]+", "-", job.lower()).strip("-")
    if not slug or len(slug) > 60 or not job.isascii():  # the name is not told by what is left of it
        slug = f"{slug[:60]}-{hashlib.sha256(job.encode()).hexdigest()[:8]}".strip("-")
    return folder / f"{slug}.json"


def issue(judged: Judged, *, job: str, kind: JobKind | None, trial: bool = False) -> Passport:
    """Make the passport of a judged run. `trial`: a rehearsal's, which is taken by none but a rehearsal. Raises Refused."""
    verdict, decision, interview = judged.verdict, judged.decision, judged.interview
    run = shlex.quote(interview.name)
    never = [stamp for stamp in verdict.stamps if stamp in _NEVER]
    if interview.bare or never:
        raise Refused(
            interview.name,
            found=f"evidence that is {', '.join(never) or 'UNSEALED'}",
            wanted="a sealed run: a passport rests on no file that anybody can have written",
            remedy=f"drillmaster interview {shlex.quote(interview.url)} --job {shlex.quote(job)}",
        )
    if job != judged.page.job:
        raise Refused(
            "--job",
            found=f"{job!r}, but run {interview.name} was made for {judged.page.job!r}",
            wanted="the job that was interviewed: no number travels to another",
            remedy=f"--job {shlex.quote(judged.page.job)}, or interview the endpoint for it: drillmaster interview "
            f"{shlex.quote(interview.url)} --job {shlex.quote(job)}",
        )
    if verdict.status == "refused":
        first = next(check for check in verdict.checks if check.status == "refused")
        raise Refused(
            f"run {interview.name}: {first.id}",
            found=first.why or first.title,
            wanted="a verdict, pass or fail",
            remedy=first.remedy or f"drillmaster passport page {run} --policy FILE shows all of it",
        )
    stamps = [stamp for stamp in verdict.stamps if stamp.split()[0] in _TRIAL]
    if stamps and not trial:
        raise Refused(
            f"run {interview.name}",
            found=f"stamped {', '.join(stamps)}",
            wanted="a run in full with three people in three seats, by thresholds that somebody owns",
            remedy=_unstamped(stamps, judged.page.thresholds, "passport write"),
        )
    if judged.decides_kinds and kind is None:
        raise Refused(
            "--kind",
            found="nothing, and the policy has a decision table",
            wanted="what kind of job it is",
            remedy=f"add --kind and one of {', '.join((*decision.allowed, *decision.elsewhere))}",
        )
    if not judged.decides_kinds and kind is not None:
        raise Refused(
            "--kind",
            found=f"{kind}, and {judged.page.thresholds} has no decision part",
            wanted="no kind: a pass is for the interviewed job alone",
            remedy="drop --kind, or use a policy with a decision part",
        )
    assert interview.ended_wall_ns is not None
    made = Passport(
        job=job,
        job_kind=kind,
        url=interview.url,
        run=interview.name,
        status=verdict.status,
        allowed=decision.allowed,
        job_alone=decision.job_alone,
        why=decision.why,
        measured_at=rfc3339(interview.ended_wall_ns, digits=0),
        measured_from=decision.measured_from,
        n=decision.n,
        travels_not=decision.travels_not,
        budget=decision.budget,
        review_on=decision.review_on,
        thresholds=judged.page.thresholds,
        seats={"driver": judged.page.driver, "reader": judged.page.reader, "recorder": judged.page.recorder},
        authors=interview.authors,
        verdict=form("json").document(verdict),
        digest="",
    )
    return msgspec.structs.replace(made, digest=_digest(made))


def write(passport: Passport, folder: Path, *, key: Path | None = None) -> tuple[Path, Path | None]:
    """Write a passport in place of an older one; its path, and its signature's where there is a key. Raises Problem.

    Refused where a later interview's passport lies there: of two the later one counts, whichever passed.
    """
    path = file_of(passport.job, folder)
    if is_there(path):
        there = read(path)
        if there.job != passport.job:
            raise Refused(
                str(path),
                found=f"the passport of another job there, {there.job!r}",
                wanted=f"a free file for {passport.job!r}, or its own older passport",
                remedy="give one of the two jobs another name, or keep their passports apart: --dir DIR",
            )
        if (parse_rfc3339(there.measured_at) or 0) > (parse_rfc3339(passport.measured_at) or 0):
            raise Refused(
                str(path),
                found=f"the passport of a later run there, {there.run} of {there.measured_at}",
                wanted="a run that was measured after it: an older one never takes the place of a newer",
                remedy="keep the newer passport, or write this one elsewhere: --dir DIR",
            )
    write_whole(path, msgspec.json.format(msgspec.json.encode(passport), indent=2).decode() + "\n")
    signature = signing.signature_of(path)
    if key is not None:
        return path, signing.sign(path, key)
    if signature.is_file():
        signature.unlink()  # of the passport before: it would be taken for a forgery
    return path, None


def read(path: Path) -> Passport:
    """Read a passport that is as it was written. Raises Problem; Refused where it was edited."""
    raw = read_bytes(path, _CAP_BYTES)
    passport = strict.load_as(raw, Passport, place=str(path), fmt="json")
    if passport.digest != _digest(passport):
        raise Refused(
            f"{path}: /digest",
            found="a digest that does not fit the file: it was changed after it was written",
            wanted="the passport as `passport write` wrote it",
            remedy=f"restore it from git, or write it again: {_again(passport)}",
        )
    verdict: Verdict = form("json").parse(msgspec.json.encode(passport.verdict), place=f"{path}: /verdict")
    ended_ns = parse_rfc3339(passport.measured_at)
    said = (passport.status, passport.review_on)
    wanted = (verdict.status, review_day(ended_ns))
    foreign = verdict.gate != "interview"
    more_than_it = verdict.status != "pass" and (passport.allowed or passport.job_alone)
    if ended_ns is None or said != wanted or more_than_it or foreign:
        found, meant = f"status {said[0]} until {said[1]}", f"status {wanted[0]} until {wanted[1] or 'some day'}"
        if foreign:
            found, meant = f"the verdict of gate {verdict.gate} in it", "the verdict of gate interview"
        elif more_than_it and said == wanted:
            found, meant = f"jobs that are allowed by a verdict of {verdict.status}", "none"
        raise Refused(
            str(path),
            found=found,
            wanted=f"{meant}: a passport says no more than the verdict in it",
            remedy=f"write it again: {_again(passport)}",
        )
    return passport


def check(
    job: str, folder: Path, *, now_ns: int, trial: bool = False, signer: Path | None = None, identity: str | None = None
) -> Standing:
    """Say whether a job may run on its endpoint today. Raises Problem, Refused where nothing valid says so."""
    path = file_of(job, folder)
    if not is_there(path):
        meant = strict.near(path.stem, [file.stem for file in sorted(folder.glob("*.json"))[:1_000]])
        there = "" if folder == FOLDER else f" --dir {shlex.quote(str(folder))}"
        raise Refused(
            str(path),
            found="no such file: this job has no passport",
            wanted=f"a passport for {job!r}",
            remedy=(f"did you mean the job of {meant}.json? Else write one: " if meant else "")
            + _renew("RUN", job)
            + there,
        )
    passport = read(path)
    if passport.job != job:
        raise Refused(
            str(path),
            found=f"a passport for another job, {passport.job!r}",
            wanted=f"one for {job!r}: a passport is good for its own job alone",
            remedy=f"drillmaster passport check {shlex.quote(passport.job)}, if that job is meant; else write one: "
            f"{_renew('RUN', job)}",
        )
    _admitted(passport, path, trial=trial)
    _in_time(passport, path, now_ns)
    signed_by = _signed(path, passport, signer, identity)
    days = (_last_ns(passport) - now_ns) // (86_400 * 10**9)
    status, why = _said(passport)
    return Standing(passport=passport, status=status, why=why, days_left=days, signed_by=signed_by)


def _admitted(passport: Passport, path: Path, *, trial: bool) -> None:
    stamps = [str(stamp) for stamp in passport.verdict["stamps"]]
    never = [stamp for stamp in stamps if stamp in _NEVER]
    rehearsed = [stamp for stamp in stamps if stamp.split()[:1] and stamp.split()[0] in _TRIAL]
    if never or (rehearsed and not trial):
        raise Refused(
            str(path),
            found=f"a passport that is stamped {', '.join(never or rehearsed)}",
            wanted="one from a sealed interview in full, with three people in three seats and an owner of the thresholds",
            remedy=_renew("RUN", passport.job)
            if never
            else f"{_unstamped(rehearsed, passport.thresholds, 'passport check')}; then {_renew('RUN', passport.job)}",
        )
    if passport.status == "refused":
        raise Refused(
            str(path),
            found="a refused verdict in it, which allows and forbids nothing",
            wanted="a verdict, pass or fail",
            remedy=_renew("RUN", passport.job),
        )


def _in_time(passport: Passport, path: Path, now_ns: int) -> None:
    again = f"drillmaster interview {shlex.quote(passport.url)} --job {shlex.quote(passport.job)}"
    measured_ns = parse_rfc3339(passport.measured_at) or 0
    if measured_ns > now_ns + 60 * 10**9:
        raise Refused(
            f"{path}: /measured_at",
            found=f"a measurement of {passport.measured_at}, and now is {rfc3339(now_ns, digits=0)}",
            wanted="a measurement of the past",
            remedy="set this machine's clock, or leave out --now",
        )
    if now_ns > _last_ns(passport):
        raise Refused(
            f"{path}: /review_on",
            found=f"a passport that expired at the end of {passport.review_on} (UTC); today is {rfc3339(now_ns)[:10]}",
            wanted="one from an interview of the last 30 days",
            remedy=f"{again}, then judge that run and write its passport",
        )


def _signed(path: Path, passport: Passport, signer: Path | None, identity: str | None) -> str:
    again = f"{_again(passport)} --sign KEY"
    if signer is not None:
        if not signing.signature_of(path).is_file():
            raise Refused(
                str(path),
                found="no signature",
                wanted=f"{path.name}.sig beside it, since --signer asks for one",
                remedy=f"have the Reader sign it: {again}",
            )
        try:
            who = signing.verify(path, signer, identity=identity)
        except Refused as refused:
            raise Refused(refused.place, found=refused.found, wanted=refused.wanted, remedy=again) from None
        same = authors_called(passport.authors or (), who.identity)
        if same:
            raise Refused(
                str(signing.signature_of(path)),
                found=f"a signature by {who.identity}, who wrote the plan or its payloads ({same[0]})",
                wanted="one by a Reader who wrote neither",
                remedy="have somebody else read the thresholds and sign",
            )
        return f"{who.identity} {who.fingerprint}".strip()
    if signing.fits(path, read_bytes(path, _CAP_BYTES)) == "stale":
        raise Refused(
            str(signing.signature_of(path)),
            found="a signature that does not fit: the passport was changed or replaced after it was signed",
            wanted="a signature of the file as it is now",
            remedy=f"have the Reader sign it: {again}",
        )
    return ""


def _said(passport: Passport) -> tuple[Literal["pass", "fail"], str]:
    if passport.status == "fail":
        return "fail", passport.why
    if passport.job_alone:
        return "pass", "its interview passed, and the thresholds have no table of other jobs"
    allowed = ", ".join(kind_text(kind) for kind in passport.allowed) or "nothing"
    if passport.job_kind is not None and passport.job_kind in passport.allowed:
        return "pass", f"it is of the kind {passport.job_kind}, and the numbers allow {allowed} ({passport.why})"
    return "fail", f"it is of the kind {passport.job_kind or 'none'}, and the numbers allow {allowed} ({passport.why})"


def _last_ns(passport: Passport) -> int:
    return parse_rfc3339(f"{passport.review_on}T23:59:59.999999999Z") or 0


def _digest(passport: Passport) -> str:
    fields = {name: value for name, value in msgspec.to_builtins(passport).items() if name != "digest"}
    return strict.digest(fields)


def _again(passport: Passport) -> str:
    """The command that makes this passport again from its run."""
    kind = f" --kind {passport.job_kind}" if passport.job_kind else ""
    job, thresholds = shlex.quote(passport.job), shlex.quote(passport.thresholds)
    return f"drillmaster passport write {shlex.quote(passport.run)} --job {job} --policy {thresholds}{kind}"


def _renew(run: str, job: str) -> str:
    return f"drillmaster passport write {run} --job {shlex.quote(job)} --policy FILE"


def _unstamped(stamps: list[str], thresholds: str, verb: str) -> str:
    """How to come by a run without these stamps; `verb` takes one with them where that is said twice."""
    if stamps == ["UNPINNED"]:
        how = f"write {thresholds}.pin.yaml (source, owner, review_by, sha256)"
    else:
        how = "drillmaster interview PLAN, with the seats named in it and without --compress"
    return f"{how} (to try it out: {verb} --rehearsal)"
