"""The cutover gate: what the article's script lets through, what it stops without a reason, and who stands behind a plan."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.changes import Person
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.gates import cases
from drillmaster.gates._asks import asks, shared
from drillmaster.gates._cases.cutover import ALONE, BY_ADA, DIGEST, GOOD, INSIDE, LIMITS, OVER_NS, PLAN, TIED, but, plan
from drillmaster.gates._cutover_plan import MESSAGES
from drillmaster.gates._selftest import selftest
from drillmaster.gates.cutover import Cutover, CutoverArticle, Evidence, Set
from drillmaster.rules.cutover_plan import TIMED, read_plan
from drillmaster.rules.free_lane import human, pinned_spec, shaky_runtime
from drillmaster.strict import as_type
from drillmaster.verdict import Check, Status, Verdict, conclude

SAMPLE: dict[str, Any] = {
    "plan_id": "cutover-ledger-2026-09-19",
    "service": "ledger-writer",
    "authors": {
        "draft": "free-lane-model",
        "timed_fields": "human:sre-oncall",
        "rollback_owner": "human:payments-tl",
    },
    "traffic": {"initial_percent": 1, "step_percent": 4, "max_percent_before_freeze": 20, "error_budget_ppm": 50},
    "window": {
        "freeze_start_utc": "2026-09-20T02:00:00Z",
        "freeze_end_utc": "2026-09-20T06:00:00Z",
        "dual_write_required": True,
        "old_writer_delete_same_window": False,
    },
    "halt": {"on_checksum_mismatch": "halt", "on_retry_storm": "halt", "on_free_lane_author_for_timed_fields": "halt"},
    "idempotency": {"key_format": "human-pinned:ledger-v1", "author": "human:payments-tl"},
    "controller": {"runtime": "pinned-paid-path", "free_server_forbidden": True},
}
ABSENT = object()


def at(text: str) -> int:
    ns = parse_rfc3339(text)
    assert ns is not None
    return ns


NOW_NS = at("2026-09-19T10:00:00Z")


def alone(pointer: str = "", value: object = None, *, now_ns: int = NOW_NS) -> tuple[Status, list[str]]:
    """Judge the article's sample, with one value changed, by the article's numbers."""
    loaded = copy.deepcopy(SAMPLE)
    if pointer:
        *groups, field = pointer.strip("/").split("/")
        part = loaded
        for group in groups:
            part = part[group]
        if value is ABSENT:
            del part[field]
        else:
            part[field] = value
    evidence = Evidence(plan=read_plan(loaded), digest=DIGEST, now_ns=now_ns)
    checks = tuple(CutoverArticle().checks(evidence))
    return conclude(checks), [check.id for check in checks if check.status != "pass"]


def missed(evidence: Evidence, gate: Cutover = LIMITS) -> list[str]:
    return [check.id for check in gate.checks(evidence) if check.status != "pass"]


def test_the_articles_sample_is_accepted() -> None:
    assert alone() == ("pass", [])


REJECTED: list[tuple[str, object, str]] = [
    # who
    ("/authors/timed_fields", "human:", "timed-fields-human"),
    ("/authors/timed_fields", "human: ", "timed-fields-human"),
    ("/authors/timed_fields", "", "timed-fields-human"),
    ("/authors/timed_fields", "human:gpt-4o", "timed-fields-human"),
    ("/authors/timed_fields", "human:claude-sonnet", "timed-fields-human"),
    ("/authors/timed_fields", "human:free lane bot", "timed-fields-free-lane"),
    ("/authors/timed_fields", "human:freelane", "timed-fields-free-lane"),
    ("/authors/timed_fields", "human:FREE-LANE", "timed-fields-free-lane"),
    ("/authors/timed_fields", "human:frее-lane", "timed-fields-free-lane"),
    ("/authors/timed_fields", "free-model-bot", "timed-fields-free-lane"),
    ("/authors/timed_fields", "HUMAN:ada", "timed-fields-human"),
    ("/authors/timed_fields", "human:ada\u200b", "plan-shape"),
    ("/authors/timed_fields", ["human:a"], "plan-shape"),
    ("/authors/timed_fields", {"human": "a"}, "plan-shape"),
    ("/authors/timed_fields", ABSENT, "plan-shape"),
    ("/authors/rollback_owner", "human:", "rollback-owner"),
    ("/authors/rollback_owner", "human:gemini", "rollback-owner"),
    ("/authors/rollback_owner", "human:chat-draft", "rollback-owner"),
    ("/authors/rollback_owner", "payments-tl", "rollback-owner"),
    ("/authors/rollback_owner", ["human:a"], "plan-shape"),
    ("/authors/rollback_owner", None, "plan-shape"),
    ("/authors/draft", ABSENT, "plan-shape"),
    ("/authors/draft", "", "named"),
    # how much
    ("/traffic/initial_percent", "5", "plan-shape"),
    ("/traffic/initial_percent", True, "plan-shape"),
    ("/traffic/initial_percent", [3], "plan-shape"),
    ("/traffic/initial_percent", 1.5, "plan-shape"),
    ("/traffic/initial_percent", 1.0, "plan-shape"),
    ("/traffic/initial_percent", 0, "initial-percent"),
    ("/traffic/initial_percent", 6, "initial-percent"),
    ("/traffic/initial_percent", -1, "initial-percent"),
    ("/traffic/max_percent_before_freeze", 100, "percent-ladder"),
    ("/traffic/max_percent_before_freeze", 1000, "percent-ladder"),
    ("/traffic/max_percent_before_freeze", 99, "percent-ladder"),
    ("/traffic/max_percent_before_freeze", 0, "percent-ladder"),
    ("/traffic/max_percent_before_freeze", -20, "percent-ladder"),
    ("/traffic/max_percent_before_freeze", ABSENT, "plan-shape"),
    ("/traffic/step_percent", 99, "percent-ladder"),
    ("/traffic/step_percent", 20, "percent-ladder"),
    ("/traffic/step_percent", 0, "percent-ladder"),
    ("/traffic/step_percent", -4, "percent-ladder"),
    ("/traffic/step_percent", ABSENT, "plan-shape"),
    ("/traffic/error_budget_ppm", -5, "error-budget"),
    ("/traffic/error_budget_ppm", 101, "error-budget"),
    ("/traffic/error_budget_ppm", 10**15, "error-budget"),
    ("/traffic/error_budget_ppm", "lots", "plan-shape"),
    ("/traffic/error_budget_ppm", {}, "plan-shape"),
    ("/traffic/error_budget_ppm", False, "plan-shape"),
    ("/traffic/error_budget_ppm", None, "plan-shape"),
    ("/traffic/error_budget_ppm", ABSENT, "plan-shape"),
    # when
    ("/window/freeze_start_utc", "2026-09-20T07:00:00Z", "freeze-window"),
    ("/window/freeze_start_utc", "2026-09-20T06:00:00Z", "freeze-window"),
    ("/window/freeze_start_utc", "2026-09-20T05:59:59Z", "freeze-window"),
    ("/window/freeze_start_utc", "2026-09-20T04:00:00+02:00", "freeze-window"),
    ("/window/freeze_start_utc", "2026-09-20T02:00:00", "freeze-window"),
    ("/window/freeze_start_utc", "2026-09-20", "freeze-window"),
    ("/window/freeze_start_utc", "Sunday night", "freeze-window"),
    ("/window/freeze_start_utc", "", "freeze-window"),
    ("/window/freeze_start_utc", 1789862400, "plan-shape"),
    ("/window/freeze_end_utc", "2026-12-20T06:00:00Z", "freeze-window"),
    ("/window/freeze_end_utc", "2026-09-20T25:00:00Z", "freeze-window"),
    ("/window/freeze_end_utc", ABSENT, "plan-shape"),
    ("/window", {}, "plan-shape"),
    ("/window/dual_write_required", False, "dual-write"),
    ("/window/dual_write_required", "true", "plan-shape"),
    ("/window/dual_write_required", 1, "plan-shape"),
    ("/window/old_writer_delete_same_window", True, "old-writer"),
    ("/window/old_writer_delete_same_window", 0, "plan-shape"),
    ("/window/old_writer_delete_same_window", None, "plan-shape"),
    # halts
    ("/halt/on_checksum_mismatch", "retry", "checksum-halt"),
    ("/halt/on_checksum_mismatch", "HALT", "checksum-halt"),
    ("/halt/on_checksum_mismatch", "halt ", "checksum-halt"),
    ("/halt/on_checksum_mismatch", "halt after 3 retries", "checksum-halt"),
    ("/halt/on_checksum_mismatch", ["halt"], "plan-shape"),
    ("/halt/on_retry_storm", "retry", "retry-storm-halt"),
    ("/halt/on_retry_storm", ABSENT, "plan-shape"),
    ("/halt/on_free_lane_author_for_timed_fields", "continue", "free-lane-halt"),
    ("/halt/on_free_lane_author_for_timed_fields", ABSENT, "plan-shape"),
    # keys
    ("/idempotency/author", ABSENT, "plan-shape"),
    ("/idempotency/author", "gpt-4o", "key-author"),
    ("/idempotency/author", "human:gpt-4o", "key-author"),
    ("/idempotency/author", "free-lane-model", "key-author"),
    ("/idempotency/key_format", "human-pinned:", "key-format"),
    ("/idempotency/key_format", "human-pinned: ", "key-format"),
    ("/idempotency/key_format", "human-pinned:chat-draft", "key-format"),
    ("/idempotency/key_format", "ledger-v1", "key-format"),
    # where
    ("/controller/runtime", ABSENT, "plan-shape"),
    ("/controller/runtime", "", "controller-runtime"),
    ("/controller/runtime", "FREE-server", "controller-runtime"),
    ("/controller/runtime", "free-tier", "controller-runtime"),
    ("/controller/runtime", "scratch-box", "controller-runtime"),
    ("/controller/free_server_forbidden", False, "free-server-forbidden"),
    ("/controller/free_server_forbidden", "true", "plan-shape"),
    # what no plan has
    ("/feature_flag_default", "on", "plan-shape"),
    ("/ledger", {"store": "chat"}, "plan-shape"),
    ("/notes", "looks good to me", "plan-shape"),
    ("/controller/hostname", "free.example.com", "plan-shape"),
    ("/plan_id", ABSENT, "plan-shape"),
    ("/plan_id", "", "named"),
    ("/service", ABSENT, "plan-shape"),
    ("/service", " ", "named"),
]


@pytest.mark.parametrize(("pointer", "value", "check"), REJECTED)
def test_what_the_script_lets_through_is_not_accepted(pointer: str, value: object, check: str) -> None:
    status, ids = alone(pointer, value)
    assert status == ("refused" if "plan-shape" in ids else "fail")
    assert check in ids


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/authors/draft", "gpt-4o"),
        ("/authors/draft", "human:ada"),
        ("/authors/timed_fields", "human:jeffree-lane"),
        ("/authors/timed_fields", "human:claude.dupont"),
        ("/authors/rollback_owner", "human:王秀英"),
        ("/traffic/initial_percent", 5),
        ("/traffic/step_percent", 1),
        ("/traffic/step_percent", 19),
        ("/traffic/max_percent_before_freeze", 50),
        ("/traffic/max_percent_before_freeze", 5),
        ("/traffic/error_budget_ppm", 0),
        ("/traffic/error_budget_ppm", 100),
        ("/window/freeze_start_utc", "2026-09-20T02:00:00+00:00"),
        ("/window/freeze_end_utc", "2026-09-20T02:01:00Z"),
        ("/controller/runtime", "freebsd-pinned-paid"),
        ("/controller/runtime", "FreeBSD-pinned"),
        ("/idempotency/key_format", "human-pinned:docs/agent-ledger-keys.md"),
    ],
)
def test_what_is_in_order_is_accepted(pointer: str, value: object) -> None:
    assert alone(pointer, value) == ("pass", [])


@pytest.mark.parametrize(("step", "status"), [(5, "pass"), (6, "fail")])
def test_a_ladder_of_one_rung_takes_no_step_that_it_could_not_begin_with(step: int, status: Status) -> None:
    loaded = copy.deepcopy(SAMPLE)
    loaded["traffic"] |= {"initial_percent": 5, "step_percent": step, "max_percent_before_freeze": 5}
    evidence = Evidence(plan=read_plan(loaded), digest=DIGEST, now_ns=NOW_NS)
    assert conclude(tuple(CutoverArticle().checks(evidence))) == status


@pytest.mark.parametrize("now", ["2019-01-01T00:00:00Z", "2099-01-01T00:00:00Z"])
def test_a_window_a_year_away_is_a_slip_of_the_pen(now: str) -> None:
    assert alone(now_ns=at(now)) == ("fail", ["freeze-window"])


@pytest.mark.parametrize(
    "now", ["2026-09-20T01:59:59Z", "2026-09-20T02:00:00Z", "2026-09-20T06:00:00Z", "2026-11-30T00:00:00Z"]
)
def test_the_plan_alone_is_judged_whenever_it_is(now: str) -> None:
    assert alone(now_ns=at(now)) == ("pass", [])


def verdict_of(checks: tuple[Check, ...]) -> Verdict:
    return Verdict(gate="cutover", status=conclude(checks), checks=checks)


def test_each_rule_of_the_article_is_told_in_its_words() -> None:
    loaded = copy.deepcopy(SAMPLE)
    loaded["authors"] |= {"timed_fields": "free-model-bot", "rollback_owner": "free-lane"}
    loaded["traffic"] |= {"initial_percent": 50, "error_budget_ppm": 5000}
    loaded["window"] |= {"dual_write_required": False, "old_writer_delete_same_window": True}
    loaded["halt"] |= {"on_checksum_mismatch": "retry"}
    loaded["idempotency"] = {"key_format": "x", "author": "free-lane"}
    loaded["controller"] = {"runtime": "free-server", "free_server_forbidden": False}
    evidence = Evidence(plan=read_plan(loaded), digest=DIGEST, now_ns=NOW_NS)
    verdict = verdict_of(tuple(CutoverArticle().checks(evidence)))
    lines = CutoverArticle().closing(evidence, verdict)
    assert lines[0] == "cutover plan rejected:"
    assert [line for line in lines[1:] if line[2:] in MESSAGES.values()] == [
        f"- {line}"
        for line in (
            "timed_fields must not come from a free lane",
            "timed_fields need a pinned human owner",
            "rollback_owner must be a named human",
            "initial_percent must sit between 1 and 5",
            "error_budget_ppm must be pinned at or below 100",
            "old writer must survive the first window",
            "dual_write_required must stay true during cutover",
            "checksum mismatch must halt, not retry",
            "idempotency rules must be human-pinned",
            "controller must forbid a free server runtime",
            "controller runtime must not be a free server",
        )
    ]


def test_an_accepted_plan_is_told_in_the_articles_words_with_its_digest() -> None:
    lines = LIMITS.closing(GOOD, verdict_of(tuple(LIMITS.checks(GOOD))))
    assert lines[0] == "cutover plan accepted: timed fields are pinned"
    assert DIGEST in lines[1]


def test_the_exit_codes_are_the_articles() -> None:
    assert LIMITS.article_exit(verdict_of(tuple(LIMITS.checks(GOOD)))) == 0
    assert LIMITS.article_exit(verdict_of(tuple(LIMITS.checks(plan(initial_percent=6))))) == 1
    assert LIMITS.article_exit(verdict_of(tuple(LIMITS.checks(but(tied=None))))) == 1


def test_every_check_goes_red_and_green() -> None:
    assert [row for row in selftest("cutover") if not row.holds] == []


def test_every_case_has_its_status_and_every_check_its_entry() -> None:
    known = {entry.id for entry in asks("cutover").check}
    for case in cases("cutover"):
        checks = list(case.gate.checks(case.evidence))
        assert {check.id for check in checks} <= known
        assert [check.status for check in checks if check.id == case.check] == [case.status], case.check


def test_every_line_is_answered_and_two_thirds_by_checks() -> None:
    entries = asks("cutover")
    known = {entry.id for entry in (*entries.check, *shared().check)}
    assert all(set(line.checks) <= known for line in entries.line)
    assert sum(bool(line.checks) for line in entries.line) * 3 >= len(entries.line) * 2


def test_good_evidence_passes_ahead_and_inside() -> None:
    assert missed(GOOD) == []
    assert missed(INSIDE) == []


@pytest.mark.parametrize("evidence", [GOOD, INSIDE])
def test_every_check_is_told_every_time_once(evidence: Evidence) -> None:
    told = [check.id for check in LIMITS.checks(evidence)]
    assert len(told) == len(set(told))
    assert told == [check.id for check in LIMITS.checks(but(plan=read_plan([]), digest="", now_ns=0))]


def test_a_plan_without_anything_beside_it_is_refused() -> None:
    assert conclude(tuple(LIMITS.checks(ALONE))) == "refused"
    assert {"roster", "committed", "reviewers", "budget-measured", "halt-drill", "halted-by"} <= set(missed(ALONE))


def test_a_window_that_is_over_permits_nothing() -> None:
    assert "window-open" in missed(but(now_ns=OVER_NS))
    assert missed(but(INSIDE, now_ns=at("2026-09-20T06:00:00Z"))) == ["freeze-took"]


def test_the_owner_of_a_rollback_stays_until_the_window_is_over() -> None:
    for until, left in (("2026-09-19", True), ("2026-09-20", False), ("2027-01-01", False)):
        people = (
            msgspec.structs.replace(GOOD.tied.roster.people[1], until=until),  # type: ignore[union-attr]  # it is there
            *(person for i, person in enumerate(GOOD.tied.roster.people) if i != 1),  # type: ignore[union-attr]  # too
        )
        roster = msgspec.structs.replace(GOOD.tied.roster, people=people)  # type: ignore[type-var]  # likewise
        found = missed(but(tied=msgspec.structs.replace(TIED, roster=roster)))
        assert ("rollback-owner-on-roster" in found) is left, until


def test_a_plan_may_name_a_person_by_account() -> None:
    roster = msgspec.structs.replace(
        TIED.roster,  # type: ignore[type-var]  # it is there
        people=(
            Person(
                identity="ada@example.com", emails=("ada@example.com",), logins=("sre-oncall",), teams=("payments",)
            ),
            *TIED.roster.people[1:],  # type: ignore[union-attr]  # likewise
        ),
    )
    tied = msgspec.structs.replace(TIED, roster=roster)
    assert missed(but(tied=tied, plan=msgspec.structs.replace(PLAN, timed_fields="human:sre-oncall"))) == []


@pytest.mark.parametrize("name", ["human:ada", "human:ADA@EXAMPLE.COM.", "human:ada@example.org", "human:payments"])
def test_a_name_that_is_almost_on_the_roster_is_not(name: str) -> None:
    assert "timed-author-on-roster" in missed(plan(timed_fields=name))


@pytest.mark.parametrize("pointer", TIMED)
def test_each_timed_field_counts(pointer: str) -> None:
    other = msgspec.structs.replace(BY_ADA, sha="2" * 40, author="Cleo <cleo@example.com>", signer="cleo@example.com")
    settings = tuple(Set(pointer=one, commit=other if one == pointer else BY_ADA) for one in TIMED)
    evidence = but(
        tied=msgspec.structs.replace(TIED, settings=settings, reviewers=("bea@example.com", "dora@example.com"))
    )
    check = next(check for check in LIMITS.checks(evidence) if check.id == "timed-fields-commit")
    assert check.status == "fail"
    assert pointer.rpartition("/")[2] in check.why


def test_the_author_line_counts_only_where_the_base_knows_no_signers() -> None:
    unsigned = msgspec.structs.replace(BY_ADA, signer=None)
    settings = tuple(Set(pointer=pointer, commit=unsigned) for pointer in TIMED)
    for signed, found in ((True, ["timed-fields-commit"]), (False, [])):
        tied = msgspec.structs.replace(TIED, signed=signed, settings=settings)
        assert missed(but(tied=tied)) == found


def test_a_budget_of_nothing_is_a_census() -> None:
    zero = msgspec.structs.replace(PLAN, error_budget_ppm=0)
    budget = GOOD.budget
    assert budget is not None
    assert "budget-left" in missed(but(plan=zero))  # 1,200 errors
    assert missed(but(plan=zero, budget=msgspec.structs.replace(budget, errors=0))) == []
    few = msgspec.structs.replace(budget, errors=0, requests=9_999)
    assert "budget-left" in missed(but(plan=zero, budget=few))


@pytest.mark.parametrize(
    "change",
    [
        {"min_window_s": 7200, "max_window_s": 3600},
        {"max_initial_percent": 0},
        {"max_percent_before_freeze": 100},
        {"max_error_budget_ppm": 0},
        {"max_drill_age_s": 0},
        {"max_drill_age_s": "90d"},
        {"runtimes": []},
        {"rollback_team": ""},
        {"reviewers": 1},
        {"max_rung_s": None},
    ],
)
def test_limits_that_limit_nothing_are_refused(change: dict[str, object]) -> None:
    entry = {"gate": "cutover", **msgspec.to_builtins(LIMITS), **change}
    with pytest.raises(Problem):
        as_type(entry, Cutover, place="policy.yaml")


@pytest.mark.parametrize("field", list(LIMITS.__struct_fields__))
def test_no_limit_has_a_default(field: str) -> None:
    entry = {"gate": "cutover", **msgspec.to_builtins(LIMITS)}
    del entry[field]
    with pytest.raises(Problem, match=field):
        as_type(entry, Cutover, place="policy.yaml")


POINTERS = [
    *(f"/{group}/{field}" for group, part in SAMPLE.items() if isinstance(part, dict) for field in part),
    *(f"/{group}" for group in SAMPLE),
    "/other",
    "/traffic/other",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(POINTERS), VALUES)
def test_whatever_stands_there_there_is_an_answer_and_it_is_told(pointer: str, value: object) -> None:
    loaded = copy.deepcopy(SAMPLE)
    *groups, field = pointer.strip("/").split("/")
    part = loaded
    for group in groups:
        part = part[group]
    was = part.get(field, ABSENT)
    part[field] = value
    evidence = Evidence(plan=read_plan(loaded), digest=DIGEST, now_ns=NOW_NS)
    for gate in (CutoverArticle(), LIMITS):
        verdict = verdict_of(tuple(gate.checks(evidence)))
        assert gate.closing(evidence, verdict)
        if type(value) is not type(was):
            assert verdict.status == "refused"


@given(VALUES)
def test_whatever_is_read_for_a_plan_there_is_an_answer(value: object) -> None:
    evidence = Evidence(plan=read_plan(value), digest=DIGEST, now_ns=NOW_NS)
    assert conclude(tuple(CutoverArticle().checks(evidence))) == "refused"


@given(st.text())
def test_whoever_is_named_there_is_an_answer(name: str) -> None:
    for given_name in (name, f"human:{name}", f"human-pinned:{name}"):
        for judged in (human(given_name), pinned_spec(given_name)):
            assert bool(judged[0]) != bool(judged[1])
        assert isinstance(shaky_runtime(given_name), str)
