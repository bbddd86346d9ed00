"""Evidence on which each check of the cutover gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.changes import Commit, Person, Roster
from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates._cutover_evidence import ErrorBudget, Evidence, FreezeProof, HaltDrill, Set, Tied
from drillmaster.gates.cutover import Cutover, CutoverArticle
from drillmaster.rules.cutover_plan import TIMED, Fault, Plan
from drillmaster.verdict import Status

__all__ = ["cases"]

AHEAD_NS = parse_rfc3339("2026-09-19T10:00:00Z") or 0
INSIDE_NS = parse_rfc3339("2026-09-20T03:00:00Z") or 0
OVER_NS = parse_rfc3339("2026-09-20T07:00:00Z") or 0
DIGEST = "sha256:" + "a1" * 32
OTHER = "sha256:" + "b2" * 32

LIMITS = Cutover(
    service="ledger-writer",
    max_initial_percent=5,
    max_step_percent=5,
    max_percent_before_freeze=20,
    max_error_budget_ppm=100,
    min_window_s=3600,
    max_window_s=6 * 3600,
    max_budget_age_s=7 * 86_400,
    max_rung_s=3600,
    max_drill_age_s=90 * 86_400,
    max_detection_s=60,
    max_recovery_s=300,
    max_freeze_proof_age_s=600,
    rollback_team="payments",
    runtimes=("pinned-paid-path",),
)
PLAN = Plan(
    plan_id="cutover-ledger-2026-09-19",
    service="ledger-writer",
    draft="free-lane-model",
    timed_fields="human:ada@example.com",
    rollback_owner="human:bea@example.com",
    initial_percent=1,
    step_percent=4,
    max_percent_before_freeze=20,
    error_budget_ppm=50,
    freeze_start_utc="2026-09-20T02:00:00Z",
    freeze_end_utc="2026-09-20T06:00:00Z",
    dual_write_required=True,
    old_writer_delete_same_window=False,
    on_checksum_mismatch="halt",
    on_retry_storm="halt",
    on_free_lane_author_for_timed_fields="halt",
    key_format="human-pinned:ledger-v1",
    author="human:bea@example.com",
    runtime="pinned-paid-path",
    free_server_forbidden=True,
)
ROSTER = Roster(
    kind="roster",
    version=1,
    people=(
        Person(identity="ada@example.com", emails=("ada@example.com",), teams=("payments",)),
        Person(identity="bea@example.com", emails=("bea@example.com",), teams=("payments",)),
        Person(identity="cleo@example.com", emails=("cleo@example.com",)),
        Person(identity="release-bot", emails=("bot@example.com",), kind="bot", teams=("payments",)),
        Person(identity="dora@example.com", teams=("payments",), until="2026-09-19"),
    ),
)
BY_ADA = Commit(
    sha="1" * 40, author="Ada <ada@example.com>", committer="Ada <ada@example.com>", signer="ada@example.com"
)
TIED = Tied(
    base="0" * 40,
    roster=ROSTER,
    signed=True,
    committed=True,
    settings=tuple(Set(pointer=pointer, commit=BY_ADA) for pointer in TIMED),
    reviewers=("bea@example.com", "cleo@example.com"),
)
DRILL = HaltDrill(
    kind="halt-drill",
    version=1,
    service="ledger-writer",
    plan_digest=DIGEST,
    halted_by="bea@example.com",
    asked="terminal",
    drift="synthetic",
    rows=2000,
    drifted_rows=7,
    found_rows=7,
    injected_at="2026-09-10T10:00:00Z",
    restored_at="2026-09-10T10:02:00Z",
    detection_s=0.4,
    halt_s=12.0,
    recovery_s=31.0,
    equal_after=True,
    produced_by="drillmaster",
    produced_at="2026-09-10T10:02:00Z",
    digest=OTHER,
)
BUDGET = ErrorBudget(
    kind="error-budget",
    version=1,
    service="ledger-writer",
    source="prometheus: sum(increase(http_requests_total[1d]))",
    window_start="2026-09-18T00:00:00Z",
    window_end="2026-09-19T00:00:00Z",
    requests=86_400_000,
    errors=1200,
    produced_by="exporter",
    produced_at="2026-09-19T00:05:00Z",
)
PROOF = FreezeProof(
    kind="freeze-proof",
    version=1,
    service="ledger-writer",
    plan_digest=DIGEST,
    flag="ledger-cutover",
    frozen=True,
    percent=20,
    flag_default_on=False,
    dual_write=True,
    old_writer=True,
    read_at="2026-09-20T02:58:00Z",
    read_by="controller",
)
GOOD = Evidence(plan=PLAN, digest=DIGEST, tied=TIED, drill=DRILL, budget=BUDGET, now_ns=AHEAD_NS)
INSIDE = msgspec.structs.replace(GOOD, accepted=DIGEST, freeze=PROOF, now_ns=INSIDE_NS)
ALONE = Evidence(plan=PLAN, digest=DIGEST, now_ns=AHEAD_NS)


def but(evidence: Evidence = GOOD, **more: Any) -> Evidence:
    """The good evidence with other fields."""
    return msgspec.structs.replace(evidence, **more)


def plan(**more: Any) -> Evidence:
    """The good evidence with another plan."""
    return but(plan=msgspec.structs.replace(PLAN, **more))


def _plans() -> Iterator[tuple[str, Status, Evidence]]:
    yield "plan-shape", "refused", plan(faults=(Fault("/ledger", "the unknown field", "none", "delete it"),))
    yield "named", "fail", plan(service="-")
    yield "named", "refused", plan(plan_id=None)
    yield "timed-fields-free-lane", "fail", plan(timed_fields="human:free lane bot")
    yield "timed-fields-human", "fail", plan(timed_fields="human:")
    yield "timed-fields-human", "fail", plan(timed_fields="human:gpt-4o")
    yield "rollback-owner", "fail", plan(rollback_owner="human:claude-sonnet")
    yield "rollback-owner", "refused", plan(rollback_owner=None)
    yield "initial-percent", "fail", plan(initial_percent=6)
    yield "initial-percent", "refused", plan(initial_percent=None)
    yield "percent-ladder", "fail", plan(max_percent_before_freeze=100)
    yield "percent-ladder", "fail", plan(max_percent_before_freeze=0)
    yield "percent-ladder", "fail", plan(step_percent=99)
    yield "percent-ladder", "fail", plan(step_percent=-4)
    yield "percent-ladder", "fail", plan(initial_percent=5, max_percent_before_freeze=4)
    yield "error-budget", "fail", plan(error_budget_ppm=101)
    yield "error-budget", "fail", plan(error_budget_ppm=-5)
    yield "old-writer", "fail", plan(old_writer_delete_same_window=True)
    yield "dual-write", "fail", plan(dual_write_required=False)
    yield "checksum-halt", "fail", plan(on_checksum_mismatch="retry")
    yield "retry-storm-halt", "fail", plan(on_retry_storm="retry")
    yield "free-lane-halt", "fail", plan(on_free_lane_author_for_timed_fields="continue")
    yield "key-format", "fail", plan(key_format="human-pinned:")
    yield "key-author", "fail", plan(author="gpt-4o")
    yield "free-server-forbidden", "fail", plan(free_server_forbidden=False)
    yield "controller-runtime", "fail", plan(runtime="FREE-server")
    yield "controller-runtime", "fail", plan(runtime="scratch-box")
    yield "freeze-window", "fail", plan(freeze_end_utc="2026-09-20T01:00:00Z")
    yield "freeze-window", "fail", plan(freeze_end_utc="2026-09-20T02:20:00Z")
    yield "freeze-window", "fail", plan(freeze_start_utc="Sunday night")
    yield "service", "refused", plan(service="ledger-reader")
    yield "runtime-listed", "fail", plan(runtime="another-paid-path")
    yield "window-open", "fail", but(now_ns=OVER_NS)
    yield "plan-digest", "fail", but(INSIDE, accepted=OTHER)
    yield "plan-digest", "refused", but(INSIDE, accepted=None)


def _people() -> Iterator[tuple[str, Status, Evidence]]:
    def tied(**more: Any) -> Evidence:
        return but(tied=msgspec.structs.replace(TIED, **more))

    def by(**more: Any) -> Evidence:
        commit = msgspec.structs.replace(BY_ADA, **more)
        return tied(settings=(*TIED.settings[1:], Set(pointer=TIMED[0], commit=commit)))

    yield "roster", "refused", but(tied=None)
    yield "roster", "refused", tied(roster=None)
    yield "timed-author-on-roster", "fail", plan(timed_fields="human:nobody@example.com")
    yield "timed-author-on-roster", "refused", tied(roster=None)
    yield "rollback-owner-on-roster", "fail", plan(rollback_owner="human:nobody@example.com")
    yield "rollback-owner-on-roster", "fail", plan(rollback_owner="human:dora@example.com")
    yield "rollback-owner-on-roster", "fail", plan(rollback_owner="human:cleo@example.com")
    yield "rollback-owner-on-roster", "fail", plan(rollback_owner="human:payments")
    yield "key-author-on-roster", "fail", plan(author="human:nobody@example.com")
    yield "committed", "fail", tied(committed=False)
    yield "committed", "refused", but(tied=None)
    yield "timed-fields-commit", "fail", by(signer="cleo@example.com")
    yield "timed-fields-commit", "fail", by(signer=None)
    yield "timed-fields-commit", "fail", by(signer="release-bot")
    yield "timed-fields-commit", "fail", by(author="renovate[bot] <r@example.com>")
    yield "timed-fields-commit", "fail", by(co_authors=("A model <model@example.com>",))
    yield "timed-fields-commit", "fail", tied(settings=TIED.settings[1:])
    yield "timed-fields-commit", "refused", tied(history="a shallow clone")
    yield "reviewers", "fail", tied(reviewers=("bea@example.com",))
    yield "reviewers", "fail", tied(reviewers=("bea@example.com", "bea@example.com"))
    yield "reviewers", "fail", tied(reviewers=("ada@example.com", "bea@example.com"))
    yield "reviewers", "fail", tied(review="one of them is of other bytes")
    # Who changed a timed field has written it, whoever the plan names.
    yield "reviewers", "fail", by(signer="cleo@example.com")
    yield "reviewers", "fail", by(author="Cleo <cleo@example.com>")


def _files() -> Iterator[tuple[str, Status, Evidence]]:
    def budget(**more: Any) -> Evidence:
        return but(budget=msgspec.structs.replace(BUDGET, **more))

    def drill(**more: Any) -> Evidence:
        return but(drill=msgspec.structs.replace(DRILL, **more))

    def proof(**more: Any) -> Evidence:
        return but(INSIDE, freeze=msgspec.structs.replace(PROOF, **more))

    yield "budget-measured", "refused", but(budget=None)
    yield "budget-measured", "refused", budget(window_end="2026-09-01T00:00:00Z", window_start="2026-08-31T00:00:00Z")
    yield "budget-measured", "refused", budget(produced_at="2026-09-25T00:00:00Z")
    yield "budget-measured", "refused", budget(service="search")
    yield "budget-measured", "refused", budget(errors=86_400_001)
    yield "budget-measured", "refused", budget(produced_at="2026-09-18T23:59:59Z")
    yield "budget-left", "fail", budget(errors=4_321)
    yield "budget-left", "pass", budget(errors=4_320)
    yield "budget-left", "refused", budget(requests=100, errors=0)
    yield "budget-left", "refused", budget(requests=0, errors=0)
    yield "rung-time", "fail", budget(requests=86_400)
    yield "rung-time", "refused", budget(requests=0, errors=0)
    yield "halt-drill", "refused", but(drill=None)
    yield "halt-drill", "refused", drill(restored_at="2026-01-01T00:00:00Z")
    yield "halt-drill", "refused", drill(produced_at="soon")
    yield "halt-drill", "refused", drill(plan_digest=OTHER)
    yield "halt-drill", "pass", drill(plan_digest="")
    yield "halt-drill", "refused", drill(injected_at="yesterday")
    yield "halt-drill", "refused", drill(injected_at="2026-09-10T10:03:00Z")
    yield "halt-drill", "refused", drill(recovery_s=400.0)
    yield "halt-drill", "refused", drill(rows=3)
    yield "halt-drill", "fail", drill(drift="customers")
    yield "halt-drill", "fail", drill(service="search")
    yield "halt-drill", "fail", drill(drifted_rows=0, found_rows=0)
    yield "halted-by", "fail", drill(halted_by="gpt-4o")
    yield "halted-by", "fail", drill(halted_by="release-bot")
    yield "halted-by", "fail", drill(halted_by="nobody@example.com")
    yield "halt-detection", "fail", drill(detection_s=61.0)
    yield "halt-detection", "fail", drill(found_rows=6)
    yield "halt-recovery", "fail", drill(recovery_s=301.0)
    yield "halt-recovery", "fail", drill(equal_after=False)
    yield "freeze-took", "refused", but(INSIDE, freeze=None)
    yield "freeze-took", "refused", proof(read_at="2026-09-20T02:40:00Z")
    early = proof(read_at="2026-09-20T01:59:00Z")
    yield "freeze-took", "refused", but(early, now_ns=INSIDE_NS - 55 * 60 * 10**9)
    yield "freeze-took", "fail", proof(frozen=False)
    yield "freeze-took", "fail", proof(percent=24)
    yield "freeze-took", "fail", proof(plan_digest=OTHER)
    yield "freeze-took", "fail", proof(dual_write=False)
    yield "freeze-took", "fail", proof(old_writer=False)
    yield "flag-default", "fail", proof(flag_default_on=True)
    yield "flag-default", "refused", but(INSIDE, freeze=None)


def cases() -> Iterator[Case]:
    """Yield evidence with the status that one check has on it."""
    for check, status, evidence in (*_plans(), *_people(), *_files()):
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)
        yield Case(check=check, status="pass", gate=LIMITS, evidence=INSIDE)
    # The plan alone, by the article's numbers; FreeBSD is no free server.
    for runtime in ("pinned-paid-path", "freebsd-pinned-paid"):
        alone = but(ALONE, plan=msgspec.structs.replace(PLAN, runtime=runtime))
        yield Case(check="controller-runtime", status="pass", gate=CutoverArticle(), evidence=alone)
    yield Case(
        check="initial-percent",
        status="fail",
        gate=CutoverArticle(),
        evidence=but(ALONE, plan=plan(initial_percent=6).plan),
    )
    by_line = msgspec.structs.replace(TIED, signed=False, reviewers=())
    yield Case(check="reviewers", status="pass", gate=LIMITS, evidence=but(tied=by_line))
    yield Case(check="timed-fields-commit", status="pass", gate=LIMITS, evidence=but(tied=by_line))
