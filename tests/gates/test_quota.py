"""The quota gate: what counts as a raise, what fits a window, and what its own cases show."""

from typing import Any

import msgspec
import pytest

from drillmaster.gates import cases
from drillmaster.gates._cases.quota import GOOD, LIMITS, bucket, but, file, limits, rule
from drillmaster.gates._quota_evidence import Retrying, loosened
from drillmaster.gates.quota import Layer, QuotaGate, Quotas, Rule
from drillmaster.verdict import Check, conclude


def checked(seen: Quotas, gate: QuotaGate = LIMITS) -> dict[str, Check]:
    found = list(gate.checks(seen))
    assert len({one.id for one in found}) == len(found)
    return {one.id: one for one in found}


def test_the_good_evidence_passes() -> None:
    assert conclude(tuple(checked(GOOD).values())) == "pass"


@pytest.mark.parametrize("case", list(cases("quota")), ids=lambda one: f"{one.check} {one.status}")
def test_each_case_has_its_status(case: Any) -> None:
    found = [
        one
        for one in case.gate.checks(case.evidence)
        if one.id == case.check or (case.check.endswith("*") and one.id.startswith(case.check[:-1]))
    ]
    assert case.status in [one.status for one in found]
    assert all(one.why for one in found if one.status != "pass")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (rule(cap=31), "maps, requests cap: 30 is now 31"),
        (rule(burst=6), "maps, requests burst: 5 is now 6"),
        (rule(window_ms=59_999), "maps, requests window: 60,000 ms is now 59,999 ms"),
        (rule(caller="billing"), "maps, requests caller: all is now billing"),
        (rule(route="search"), "maps, requests route: all is now search"),
        (rule(counts="tokens"), "maps, requests: counts requests is now counts tokens"),
        (rule(name="renamed"), "maps, requests: 30 in 60,000 ms, burst 5 is now gone"),
    ],
)
def test_what_lets_more_through_is_told_limit_by_limit(new: Rule, said: str) -> None:
    assert [one.text for one in loosened(file(bucket(rule())), file(bucket(new)))] == [said]


def test_what_lets_less_through_needs_nobody() -> None:
    lower = file(bucket(rule(cap=29, burst=4, window_ms=61_000), rule(name="day", window_ms=86_400_000, cap=999)))
    assert loosened(file(bucket(rule())), lower) == ()


def test_a_quota_that_went_away_or_another_identity_lets_more_through() -> None:
    gone = [one.text for one in loosened(file(bucket(), bucket(identity="b", name="b")), file(bucket()))]
    assert gone == ["maps-api as b: 30 in 60,000 ms, burst 5 is now without a quota"]
    moved = [one.what for one in loosened(file(bucket()), file(bucket(identity="second-key")))]
    assert moved == ["maps-api as prod-outbound-maps", "maps-api as second-key"]


def test_retries_that_were_denied_and_are_allowed_now_let_more_through() -> None:
    again = Rule(name="again", counts="retries", window_ms=60_000, cap=1, burst=1)
    (one,) = loosened(file(bucket(rule())), file(bucket(rule(), again)))
    assert one.text == "maps, retries: denied is now allowed within a limit"


@pytest.mark.parametrize("limit", [{"max_calls": 4}, {"budget_tokens": 11}, {"refund": 0.2}])
def test_a_retry_guard_that_allows_more_is_told(limit: dict[str, float]) -> None:
    before = file()
    more = Retrying(name="retry", limits={**before.retrying[0].limits, **limit})
    assert len(loosened(before, file(retrying=(more,)))) == 1


def test_a_raise_is_agreed_to_by_reviewers_whom_the_version_before_names() -> None:
    mine = ("ada@example.com", "edsger@example.com")
    raised = file(bucket(rule(cap=20)), reviewers=mine)
    lower = file(bucket(rule(cap=10)), reviewers=("ada@example.com", "grace@example.com"))
    seen = but(file=raised, before=lower, signers=mine)
    assert checked(seen)["raised"].status == "fail"  # it names its own reviewer
    assert (
        checked(msgspec.structs.replace(seen, signers=("ada@example.com", "grace@example.com")))["raised"].status
        == "pass"
    )


def test_the_article_multiplies_two_tools_with_two_retries() -> None:
    two_tools = (Layer(name="loop", kind="again", times=3), Layer(name="tools", kind="beside", times=2))
    gate = limits(turns={"maps": two_tools}, tokens_per_call={})
    assert checked(but(file=file(bucket(rule()))), gate)["worst-cap.maps"].status == "pass"  # 6 of 30
    tight = checked(but(file=file(bucket(rule(cap=4, burst=4)))), gate)
    assert tight["worst-cap.maps"].why == "6 requests over 4 of requests"
    # Its sketch lets six pass a burst of five, since it never asks.
    at_once = (Layer(name="tools", kind="beside", times=6),)
    assert (
        checked(but(file=file(bucket(rule()))), limits(turns={"maps": at_once}, tokens_per_call={}))[
            "worst-burst.maps"
        ].status
        == "fail"
    )


def test_nested_retries_and_turns_are_in_the_product() -> None:
    nested = (*LIMITS.turns["maps"][1:], Layer(name="SDK", kind="again", times=3))
    found = checked(but(file=file(bucket(rule()))), limits(turns={"maps": nested}))
    assert (
        found["worst-cap.maps"].status == "fail"
        and "loop 3 x tools 2 x turns 2 x SDK 3 is 36" in found["worst-cap.maps"].title
    )


def test_a_limit_of_one_caller_holds_nothing_for_the_others() -> None:
    narrow = Rule(name="of-billing", counts="requests", window_ms=60_000, cap=2, burst=2, caller="billing")
    found = checked(but(file=file(bucket(rule(cap=31), narrow))))
    assert found["contract.maps"].status == "fail"


@pytest.mark.parametrize(
    "wrong",
    [
        {"documents": []}, {"min_reviewers": 4}, {"raise_reviewers": 4}, {"raise_reviewers": 0}, {"turns": {}},
        {"turns": {"maps": []}},
        {"turns": {"maps": [{"name": "SDK", "kind": "again", "times": 0}]}}, {"ceilings": []}, {"code_owners": []},
        {"documents": [{"source": "a", "file": "b", "sha256": "c"}]}, {"tokens_per_call": {"maps": 0}},
    ],
)  # fmt: skip  # one case a piece
def test_limits_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**msgspec.to_builtins(LIMITS), **wrong}, QuotaGate)
