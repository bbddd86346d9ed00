"""A canary under a policy of ours: what the sample can show, the baseline, exceptions, and the build it is bound to."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.gates._asks import asks, shared
from drillmaster.gates._canary_exceptions import Exemption
from drillmaster.gates._cases.canary import ARM, BUILD, EXEMPTION, GOOD, LIMITS, OTHER, arm, but
from drillmaster.gates._selftest import selftest
from drillmaster.gates.canary import Arm, Canary, CanaryMetrics
from drillmaster.stats import rate_bound
from drillmaster.verdict import Check, Exact, conclude
from tests.canaries import PASSING, POLICY
from tests.canaries import judge as run


def statuses(evidence: CanaryMetrics, gate: Canary = LIMITS) -> dict[str, str]:
    return {check.id: check.status for check in gate.checks(evidence)}


def of(evidence: CanaryMetrics, id: str, gate: Canary = LIMITS) -> Check:
    return next(check for check in gate.checks(evidence) if check.id == id)


# A policy of ours


def test_every_check_is_shown_to_go_red_and_green() -> None:
    assert [(row.check, row.problems) for row in selftest("canary") if not row.holds] == []


def test_every_line_of_the_contract_has_checks_that_exist_or_a_question() -> None:
    told = asks("canary")
    known = {entry.id for entry in (*told.check, *shared().check)}
    assert [line.text for line in told.line if not known.issuperset(line.checks)] == []
    assert sum(bool(line.checks) for line in told.line) * 3 >= len(told.line) * 2
    yielded = {check.id for check in LIMITS.checks(GOOD)}
    assert {entry.id for entry in told.check} == yielded


def test_good_evidence_of_the_build_passes() -> None:
    assert set(statuses(GOOD).values()) == {"pass"}


@pytest.mark.parametrize(("requests", "errors"), [(59, 0), (900, 0), (5000, 9), (5000, 10)])
def test_a_sample_that_cannot_show_it_does_not_pass(requests: int, errors: int) -> None:
    check = of(arm(requests=requests, errors=errors), "error-rate")
    assert check.status == "refused"
    assert isinstance(check.observed, Exact)
    assert check.observed.high == rate_bound(errors, requests)
    assert "until it has had" in check.remedy


def test_the_number_of_requests_that_would_do_does() -> None:
    check = of(arm(requests=5000, errors=5), "error-rate")
    assert check.status == "refused"
    wanted = int("".join(c for c in check.remedy.split("about")[1].split("requests")[0] if c.isdigit()))
    assert rate_bound(round(wanted * 0.001), wanted) <= 0.002


def test_where_none_may_fail_all_there_were_are_counted() -> None:
    gate = msgspec.structs.replace(LIMITS, max_error_ratio=0.0)
    assert statuses(arm(errors=0), gate)["error-rate"] == "pass"
    assert statuses(arm(errors=1), gate)["error-rate"] == "fail"


def test_the_worse_of_both_burns_is_judged() -> None:
    assert "as the collector reports it" in of(arm(slo_burn=1.2), "slo-burn").title
    computed = of(arm(slo_burn=None, errors=8), "slo-burn")
    assert isinstance(computed.observed, Exact)
    assert computed.observed.value == pytest.approx(8 / 8200 / 0.001)


def test_errors_that_only_the_canary_has_fail_although_its_limit_is_kept() -> None:
    assert GOOD.baseline is not None
    clean = but(
        baseline=msgspec.structs.replace(GOOD.baseline, errors=0), canary=msgspec.structs.replace(ARM, errors=14)
    )
    strict_ = msgspec.structs.replace(
        LIMITS, baseline=msgspec.structs.replace(LIMITS.baseline, max_error_ratio_excess=0.001)
    )
    assert statuses(clean, strict_)["baseline.error-rate"] == "fail"


def test_a_policy_without_a_baseline_says_so_and_asks_for_none() -> None:
    gate = msgspec.structs.replace(LIMITS, baseline="none")
    found = statuses(but(baseline=None), gate)
    assert set(found.values()) == {"pass"}
    assert not [id for id in found if id.startswith("baseline")]


# Exceptions

SLOW = arm(p95_ms=181)


def excepting(*entries: Exemption) -> Canary:
    return msgspec.structs.replace(LIMITS, exceptions=entries)


def test_two_people_who_signed_let_one_limit_go_and_are_named() -> None:
    signed = msgspec.structs.replace(SLOW, signers=("bea@example.com", "ada@example.com"))
    gate = excepting(EXEMPTION)
    check = of(signed, "p95", gate)
    assert check.status == "pass"
    assert check.title.startswith("EXCEPTED by ada@example.com and bea@example.com until 2026-11-30T20:00:00Z")
    assert gate.excepted(signed) == ("p95",)
    assert "1 taken" in of(signed, "exceptions", gate).title


NOT_TAKEN: dict[str, tuple[Exemption, tuple[str, ...], str]] = {
    "nobody signed": (EXEMPTION, (), "not signed by ada@example.com and bea@example.com"),
    "one of two signed": (EXEMPTION, ("ada@example.com",), "not signed by bea@example.com"),
    "it is over": (msgspec.structs.replace(EXEMPTION, until="2026-11-30T15:59:59Z"), EXEMPTION.by, "it is over"),
    "another build": (msgspec.structs.replace(EXEMPTION, artifact=OTHER), EXEMPTION.by, "it is for sha256:b2"),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_an_exception_that_is_not_in_force_lets_nothing_go_and_says_why(case: str) -> None:
    one, signers, why = NOT_TAKEN[case]
    check = of(msgspec.structs.replace(SLOW, signers=signers), "p95", excepting(one))
    assert check.status == "fail"
    assert why in check.why


WRONG = {
    "one person": {"by": ("ada@example.com",)},
    "nobody": {"by": ()},
    "one person in two spellings": {"by": ("ada@example.com", " ADA@example.com")},
    "one of three twice": {"by": ("ada@example.com", "bea@example.com", "ada@example.com")},
    "no end": {"until": "soon"},
    "an end before its beginning": {"until": "2026-11-29T15:00:00Z"},
    "fifteen days": {"until": "2026-12-15T15:00:01Z"},
    "from tomorrow": {"granted_at": "2026-12-01T15:00:00Z", "until": "2026-12-02T15:00:00Z"},
    "no reason": {"reason": " "},
}


@pytest.mark.parametrize("case", WRONG)
def test_an_exception_that_cannot_be_right_refuses(case: str) -> None:
    one = msgspec.structs.replace(EXEMPTION, **WRONG[case])
    signed = msgspec.structs.replace(SLOW, signers=("ada@example.com", "bea@example.com"))
    found = statuses(signed, excepting(one))
    assert (found["exceptions"], found["p95"]) == ("refused", "fail")


def test_no_exception_lets_a_source_or_a_models_verdict_go() -> None:
    for check in ("source", "model-verdict-present", "artifact", "fresh"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(msgspec.to_builtins(EXEMPTION) | {"check": check}, Exemption)


# Ours on the command line


def envelope(**more: Any) -> dict[str, Any]:
    return {
        "kind": "canary-metrics",
        "version": 1,
        "subject": {"service": "checkout", "artifact": BUILD},
        "produced_by": {"collector": "prometheus", "host": "http://127.0.0.1:9090", "by": "drillmaster 0.1.0"},
        "produced_at": "2026-11-30T15:59:00Z",
        "window": {"start": "2026-11-30T15:43:00Z", "end": "2026-11-30T15:58:00Z"},
        "data": {
            "canary": {"requests": 8200, "errors": 6, "p95_ms": 142, "healthy_hosts": 3},
            "baseline": {"requests": 150_000, "errors": 90, "p95_ms": 139, "healthy_hosts": 20, "artifact": OTHER},
            "coverage_ratio": 1.0,
        },
    } | more


def ours() -> dict[str, Any]:
    entry = msgspec.to_builtins(LIMITS)
    return {
        "kind": "policy",
        "version": 1,
        "source": "canary-runbook",
        "owner": "Ada of payments",
        "review_by": "2027-02-28",
        "gates": [entry],
    }


def test_evidence_of_ours_is_promoted_for_the_build_it_is_of(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, envelope(), ours(), "--artifact", BUILD)
    assert code == 0, out + err
    assert "promote: pinned metrics passed policy" in out
    assert "exceptions 0" in out


OURS_REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no build named": (envelope(), ()),
    "another build": (envelope(), ("--artifact", OTHER)),
    "a tag for a build": (envelope(), ("--artifact", "checkout:latest")),
    "a digest in capitals": (envelope(), ("--artifact", BUILD.upper())),
    "a digest and a newline": (envelope(), ("--artifact", BUILD + "\n")),
    "the article's metrics": (PASSING, ("--artifact", BUILD)),
    "an hour old": (
        envelope(window={"start": "2026-11-30T14:00:00Z", "end": "2026-11-30T15:00:00Z"}),
        ("--artifact", BUILD),
    ),
    "a window that ends before it starts": (
        envelope(window={"start": "2026-11-30T15:58:00Z", "end": "2026-11-30T15:43:00Z"}),
        ("--artifact", BUILD),
    ),
    "a window without length": (
        envelope(window={"start": "2026-11-30T15:58:00Z", "end": "2026-11-30T15:58:00Z"}),
        ("--artifact", BUILD),
    ),
    "two digests for one build": (
        envelope(data=envelope()["data"] | {"canary": envelope()["data"]["canary"] | {"artifact": OTHER}}),
        ("--artifact", BUILD),
    ),
    "a baseline of no build": (
        envelope(data=envelope()["data"] | {"baseline": envelope()["data"]["canary"]}),
        ("--artifact", BUILD),
    ),
    "a baseline of the same build": (
        envelope(data=envelope()["data"] | {"baseline": envelope()["data"]["canary"] | {"artifact": BUILD}}),
        ("--artifact", BUILD),
    ),
    "produced before its window ended": (envelope(produced_at="2026-11-30T15:50:00Z"), ("--artifact", BUILD)),
    "another version": (envelope(version=2), ("--artifact", BUILD)),
    "another service": (envelope(subject={"service": "search", "artifact": BUILD}), ("--artifact", BUILD)),
    "no digest": (envelope(subject={"service": "checkout", "artifact": "latest"}), ("--artifact", BUILD)),
    "no baseline": (
        envelope(data={"canary": envelope()["data"]["canary"], "coverage_ratio": 1.0}),
        ("--artifact", BUILD),
    ),
}


@pytest.mark.parametrize("case", OURS_REFUSED)
def test_evidence_of_ours_that_is_of_something_else_is_refused(tmp_path: Path, case: str) -> None:
    metrics, more = OURS_REFUSED[case]
    code, out, err = run(tmp_path, metrics, ours(), *more)
    assert code == 2, out
    assert "Traceback" not in err
    assert "drillmaster" in out + err


def test_a_build_that_is_named_has_to_be_the_evidences_under_the_articles_limits_too(tmp_path: Path) -> None:
    assert run(tmp_path, PASSING, POLICY, "--artifact", BUILD)[0] == 2
    metrics = envelope()
    metrics["data"]["canary"]["slo_burn"] = 0.4
    code, out, _ = run(tmp_path, metrics, POLICY, "--artifact", BUILD)
    assert (code, "BUILD NOT BOUND" in out) == (0, False)
    assert run(tmp_path, metrics, POLICY, "--artifact", OTHER)[0] == 2
    code, out, _ = run(tmp_path, metrics, POLICY)
    assert (code, "BUILD NOT BOUND" in out) == (0, True)
    del metrics["data"]["canary"]["slo_burn"]  # the article's limits want one that is told
    assert run(tmp_path, metrics, POLICY, "--artifact", BUILD)[0] == 2


@pytest.mark.parametrize(
    "name", ["screenshot", "Slack-chat", "gpt-5", "model", " ", "grafana.png", "by hand", "release-notes"]
)
def test_what_counts_nothing_is_no_collector_of_a_policy(tmp_path: Path, name: str) -> None:
    policy = ours()
    policy["gates"][0]["collectors"] = ["prometheus", name]
    code, _, err = run(tmp_path, envelope(), policy, "--artifact", BUILD)
    assert (code, "no source of metrics" in err) == (2, True), err


@pytest.mark.parametrize("name", ["prometheus-eu1", "thanos", "VictoriaMetrics", "otel-collector", "datadog", "mimir"])
def test_other_collectors_are_a_policys_to_list(tmp_path: Path, name: str) -> None:
    policy = ours()
    policy["gates"][0]["collectors"] = [name]
    by = {"collector": name, "host": "https://example.com", "by": "an exporter"}
    code, out, err = run(tmp_path, envelope(produced_by=by), policy, "--artifact", BUILD)
    assert code == 0, out + err


def test_a_verdict_deep_within_is_found(tmp_path: Path) -> None:
    metrics = envelope()
    metrics["data"]["canary"]["approved"] = True
    code, out, _ = run(tmp_path, metrics, ours(), "--artifact", BUILD)
    assert (code, "/data/canary/approved" in out) == (1, True)
    metrics = envelope()
    metrics["data"]["queries"] = [{"query": "x", "at": "2026-11-30T15:58:00Z", "value": {}, "llm_verdict": "promote"}]
    code, out, _ = run(tmp_path, metrics, ours(), "--artifact", BUILD)
    assert (code, "/data/queries/0/llm_verdict" in out) == (1, True)


def test_a_collector_that_the_policy_does_not_list_is_rejected(tmp_path: Path) -> None:
    by = {"collector": "datadog", "host": "https://example.com", "by": "a script"}
    code, out, _ = run(tmp_path, envelope(produced_by=by), ours(), "--artifact", BUILD)
    assert (code, "untrusted metric source: 'datadog'" in out) == (1, True)


def test_asking_again_with_other_metrics_is_another_attempt_at_the_same_build(tmp_path: Path) -> None:
    policy = ours() | {"max_attempts": 2}
    for requests in (8200, 8300):
        metrics = envelope()
        metrics["data"]["canary"]["requests"] = requests
        assert run(tmp_path, metrics, policy, "--artifact", BUILD)[0] == 0
    metrics["data"]["canary"]["requests"] = 8400
    code, out, _ = run(tmp_path, metrics, policy, "--artifact", BUILD)
    assert (code, "attempt 3" in out) == (2, True)


# Laws

COUNTS = st.integers(0, 10**7)
NUMBERS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 180.0])


@given(
    requests=COUNTS,
    errors=st.integers(-10, 10**7),
    p95=NUMBERS,
    burn=NUMBERS | st.none(),
    window=NUMBERS,
    cover=NUMBERS,
)
def test_a_pass_implies_finite_numbers_within_their_limits(
    requests: int, errors: int, p95: float, burn: float | None, window: float, cover: float
) -> None:
    evidence = but(
        canary=Arm(requests=requests, errors=errors, p95_ms=p95, healthy_hosts=3, slo_burn=burn, artifact=BUILD),
        window_s=window,
        coverage_ratio=cover,
    )
    checks = tuple(LIMITS.checks(evidence))
    if conclude(checks) == "pass":
        assert requests >= 5000
        assert errors >= 0
        assert rate_bound(errors, requests) <= 0.002
        assert 0 < p95 <= 180
        assert burn is None or 0 <= burn <= 1.5
        assert 600 <= window < math.inf
        assert 0.95 <= cover <= 1
