"""The retries gate: each limit at its edge, what may be a retry or not, and layers that asked nobody."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates._cases.retries import GOOD, LIMITS, LOG, NOW_NS, but, decided, limits, wire
from drillmaster.gates.retries import Decided, Layer, Retried, Retries, RetriesArticle, least_requests
from drillmaster.verdict import Check, conclude

ARTICLE = RetriesArticle(max_retry_ratio=0.05, forbid_reasons=("unpinned-source",))


def told(seen: Retried, gate: Retries | RetriesArticle = LIMITS) -> dict[str, Check]:
    return {check.id: check for check in gate.checks(seen)}


def ends(seen: Retried, gate: Retries | RetriesArticle = LIMITS) -> str:
    return conclude(tuple(gate.checks(seen)))


def test_a_test_within_every_limit_passes() -> None:
    assert {one.status for one in told(GOOD).values()} == {"pass"}
    assert ends(LOG) == "pass"


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (wire(retries=50), "pass"),  # 50 of 1,000 is the limit itself
        (wire(retries=51), "fail"),
        (wire(retries=0), "pass"),
        (wire(retries=40, unknown=10), "pass"),  # with all that may be some it is the limit itself
        (wire(retries=40, unknown=11), "refused"),
        (wire(retries=51, unknown=500), "fail"),  # over the limit without a single one of them
        (but(requests=None), "refused"),
        (but(requests=0), "refused"),
    ],
)
def test_the_ratio_is_of_requests_and_what_is_not_known_counts_as_both(seen: Retried, status: str) -> None:
    assert told(seen)["retry-ratio"].status == status


def test_of_a_log_the_decisions_are_counted_those_without_a_reason_too() -> None:
    seen = msgspec.structs.replace(LOG, decided=Decided(allowed={"pinned-status": 50}, sent_unnamed=1))
    assert told(seen)["retry-ratio"].status == "fail"
    assert told(seen)["reason-recorded"].status == "fail"


@pytest.mark.parametrize(("ratio", "least"), [(0.05, 20), (0.1, 10), (0.3, 4), (1, 1), (3, 1), (0, 1), (0.001, 1000)])
def test_a_limit_needs_the_requests_that_one_retry_within_it_takes(ratio: float, least: int) -> None:
    assert least_requests(ratio) == least


def test_a_limit_that_needs_more_than_the_policys_least_is_the_one_that_holds() -> None:
    gate = limits(max_retry_ratio=0.001, min_requests=1)
    assert told(but(requests=999), gate)["examined"].status == "refused"
    assert told(but(requests=1000), gate)["examined"].status == "pass"


def test_one_forbidden_reason_in_a_million_decisions_stops_the_ship_and_is_cited() -> None:
    seen = decided(denied={"status-not-retryable": 1_000_000, "unpinned-source": 1})
    assert told(seen)["forbidden.unpinned-source"].status == "fail"
    assert ends(seen) == "fail"


def test_a_share_is_of_all_decisions() -> None:
    share = {"budget-exhausted": 0.5}
    half = decided(allowed={"pinned-status": 10}, denied={"budget-exhausted": 10})
    more = decided(allowed={"pinned-status": 10}, denied={"budget-exhausted": 11})
    assert told(half, limits(max_reason_ratio=share))["share.budget-exhausted"].status == "pass"
    assert told(more, limits(max_reason_ratio=share))["share.budget-exhausted"].status == "fail"


def test_an_sdk_that_retries_beside_the_guard_is_found_on_the_wire() -> None:
    seen = wire(retries=45)  # and 40 were allowed
    check = told(seen)["retries-decided"]
    assert check.status == "fail"
    assert "5 were sent by a layer that asked nobody" in check.why


def test_a_run_without_decisions_is_refused_and_not_blamed() -> None:
    checks = told(but(decided=Decided()))
    assert checks["decisions"].status == checks["retries-decided"].status == "refused"
    assert ends(but(decided=Decided())) == "refused"


def test_the_worst_case_is_compared_exactly_where_a_double_cannot() -> None:
    layers = tuple(Layer(name=str(n), kind="again", times=1_000_000) for n in range(3))
    check = told(GOOD, limits(layers=layers, max_calls=2**53 - 1))["worst-case"]
    assert check.status == "fail"
    assert "1,000,000,000,000,000,000" in check.title
    edge = (Layer(name="a", kind="again", times=600),)
    assert told(GOOD, limits(layers=edge, max_calls=600))["worst-case"].status == "pass"
    assert told(GOOD, limits(layers=edge, max_calls=599))["worst-case"].status == "fail"


def test_more_calls_of_one_request_than_its_layers_declare_means_a_layer_that_nobody_has() -> None:
    assert told(wire(most=12))["as-declared"].status == "pass"  # 3 tries of 4 tools; turns are others'
    assert told(wire(most=13))["as-declared"].status == "fail"


def test_an_allowed_decision_after_n_calls_is_one_call_more() -> None:
    assert told(decided(routes={"refund": 2}))["route.refund"].status == "pass"
    assert told(decided(routes={"refund": 3}))["route.refund"].status == "fail"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("forbid_reasons", ["unpinned_source"], "unpinned-source"),
        ("forbid_reasons", ["pinned-status"], "what a retry is allowed by"),
        ("forbid_reasons", ["unpinned-source", "unpinned-source"], "twice"),
        ("forbid_reasons", [], "forbid_reasons"),
        ("max_reason_ratio", {"luck": 0.1}, "luck"),
        ("max_reason_ratio", {"budget-exhausted": 1.1}, "1"),
        ("max_retry_ratio", -0.1, "max_retry_ratio"),
        ("layers", [], "layers"),
        ("layers", [{"name": "SDK", "kind": "again", "times": 0}], "times"),
        ("layers", [{"name": "a", "kind": "again", "times": 2}] * 2, "twice"),
        ("min_requests", 0, "min_requests"),
        ("max_calls", 0, "max_calls"),
    ],
)
def test_limits_that_judge_nothing_are_refused(field: str, value: object, said: str) -> None:
    entry = {**msgspec.json.decode(msgspec.json.encode(LIMITS)), field: value}
    with pytest.raises(Problem) as told_:
        strict.as_type(entry, Retries, place="policy.yaml")
    assert said in str(told_.value)


def test_the_articles_two_limits_ask_for_no_more_than_they_say() -> None:
    assert ends(LOG, ARTICLE) == "pass"
    ids = set(told(LOG, ARTICLE))
    assert not ids & {"fresh", "worst-case", "as-declared"}
    assert ends(msgspec.structs.replace(LOG, decided=Decided(denied={"unpinned-source": 1})), ARTICLE) == "fail"


def test_a_reason_that_nobody_limits_is_told_and_changes_nothing() -> None:
    found = [one.cause for one in LIMITS.findings(GOOD, ())]
    assert found == ["2 decisions say retry-after-over-cap, and no limit says how many may"]


COUNT = st.integers(0, 400)


@given(requests=st.integers(500, 5000), retries=COUNT, unknown=COUNT, forbidden=st.integers(0, 2))
def test_a_pass_means_few_retries_and_no_forbidden_reason_however_it_is_counted(
    requests: int, retries: int, unknown: int, forbidden: int
) -> None:
    reasons = {"unpinned-source": forbidden} if forbidden else {}
    said = decided(allowed={"pinned-status": 1000}, denied=reasons).decided
    seen = msgspec.structs.replace(wire(retries=retries, unknown=unknown), requests=requests, decided=said)
    if ends(seen) == "pass":
        assert (retries + unknown) <= 0.05 * requests and not forbidden


def log(**more: Any) -> Retried:
    return msgspec.structs.replace(LOG, **more)


@pytest.mark.parametrize(
    ("began_ns", "status"),
    [(0, "pass"), (NOW_NS - 86_400 * 10**9, "pass"), (NOW_NS - 86_401 * 10**9, "refused")],
)
def test_a_log_that_began_too_long_ago_is_watered_down_and_refused(began_ns: int, status: str) -> None:
    assert told(log(began_ns=began_ns))["fresh"].status == status


@pytest.mark.parametrize(
    ("share", "status"),
    [
        ({"budget-exhausted": 0.5}, "pass"),  # the more allowed ones there were, the smaller it is
        ({"budget-exhausted": 0.01}, "refused"),
        ({"pinned-status": 0.9}, "refused"),  # and the larger is this one
    ],
)
def test_the_share_of_a_reason_in_a_sample_is_a_bound(share: dict[str, float], status: str) -> None:
    seen = decided(sampled=1)
    (check,) = (one for id_, one in told(seen, limits(max_reason_ratio=share)).items() if id_.startswith("share."))
    assert check.status == status


def test_attempts_that_nobody_can_place_may_all_be_of_one_request() -> None:
    assert told(wire(most=3, unknown=9))["as-declared"].status == "pass"
    assert told(wire(most=3, unknown=10))["as-declared"].status == "refused"
    assert told(wire(most=13, unknown=10))["as-declared"].status == "fail"


def test_lines_behind_the_seal_are_told_and_judge_nothing() -> None:
    found = [one for one in LIMITS.findings(but(late=7), ()) if one.id == "late-lines"]
    assert [one.cause for one in found] == ["7 lines were written behind the seal, and none of them was judged"]
    assert ends(but(late=7)) == "pass"


def test_where_there_is_no_decision_no_reason_is_said_to_be_absent() -> None:
    checks = told(but(decided=Decided()))
    assert checks["forbidden.unpinned-source"].status == "refused"
