"""The canary gate: the article's files as they are, its sketch's mistakes, and what a policy of ours asks besides."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.cli import main
from drillmaster.gates._asks import asks, shared
from drillmaster.gates._canary_exceptions import Exemption
from drillmaster.gates._cases.canary import ARM, BUILD, EXEMPTION, GOOD, LIMITS, NOW_NS, OTHER, arm, but
from drillmaster.gates._selftest import selftest
from drillmaster.gates.canary import Arm, Canary, CanaryMetrics
from drillmaster.stats import rate_bound
from drillmaster.verdict import Check, Exact, conclude

POLICY = {
    "min_requests": 5000,
    "max_error_rate": 0.002,
    "max_p95_ms": 180,
    "max_slo_burn": 1.0,
    "min_healthy_hosts": 2,
    "required_window_seconds": 600,
}
PASSING = {
    "requests": 8200,
    "errors": 6,
    "p95_ms": 142,
    "slo_burn": 0.4,
    "healthy_hosts": 3,
    "window_seconds": 900,
    "source": "prometheus",
    "collected_at": "2026-09-18T02:30:00Z",
}
FAILING = PASSING | {
    "requests": 1800,
    "errors": 9,
    "p95_ms": 210,
    "slo_burn": 1.4,
    "healthy_hosts": 2,
    "window_seconds": 240,
    "collected_at": "2026-09-18T02:14:00Z",
}
NOW = "2026-11-30T16:00:00Z"


def run(folder: Path, metrics: Any, policy: Any = POLICY, *more: str, now: str = NOW) -> tuple[int, str, str]:
    """Judge by the command line; give its exit code, stdout and stderr."""
    for name, said in (("metrics.json", metrics), ("policy.json", policy)):
        raw = said if isinstance(said, bytes) else said.encode() if isinstance(said, str) else json.dumps(said).encode()
        (folder / name).write_bytes(raw)
    words = ["gate", "canary", str(folder / "metrics.json"), "--policy", str(folder / "policy.json")]
    words += ["--now", now, "--attempts", str(folder / "attempts.jsonl"), *more]

    import click

    @click.command(context_settings={"ignore_unknown_options": True})
    def whole() -> None:
        main(argv=words)

    result = CliRunner().invoke(whole)
    return result.exit_code, result.stdout, result.stderr


def statuses(evidence: CanaryMetrics, gate: Canary = LIMITS) -> dict[str, str]:
    return {check.id: check.status for check in gate.checks(evidence)}


def of(evidence: CanaryMetrics, id: str, gate: Canary = LIMITS) -> Check:
    return next(check for check in gate.checks(evidence) if check.id == id)


# The article's words


def test_the_failing_sample_is_rejected_in_the_articles_five_lines(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, FAILING)
    assert code == 1
    lines = out.splitlines()
    assert lines[lines.index("reject:") : -1] == [
        "reject:",
        "- sample size below min_requests",
        "- error_rate 0.00500 over cap",
        "- p95 over cap",
        "- slo burn over cap",
        "- observation window too short",
    ]


@pytest.mark.parametrize("map", [(), ("--exit-map", "articles")])
def test_the_passing_fixture_is_promoted_and_stamped_for_what_it_does_not_say(
    tmp_path: Path, map: tuple[str, ...]
) -> None:
    code, out, _ = run(tmp_path, PASSING, POLICY, *map)
    assert code == 0
    assert out.splitlines()[-2] == "promote: pinned metrics passed policy"
    for stamp in ("AGE NOT JUDGED", "BUILD NOT BOUND", "UNPINNED"):
        assert stamp in out.splitlines()[0]
    assert "95 % sure only of 0.144 %" in out


def test_a_pin_beside_the_articles_policy_names_who_answers_for_it(tmp_path: Path) -> None:
    import hashlib

    digest = hashlib.sha256(json.dumps(POLICY).encode()).hexdigest()
    pin = tmp_path / "policy.json.pin.yaml"
    pin.write_text(f"source: canary-runbook\nowner: Ada of payments\nreview_by: 2027-02-28\nsha256: {digest}\n")
    code, out, _ = run(tmp_path, PASSING)
    assert (code, "UNPINNED" in out, "Ada of payments" in out) == (0, False, True)
    assert run(tmp_path, PASSING, now="2027-03-01T00:00:00Z")[0] == 2  # its review day has passed
    code, _, err = run(tmp_path, PASSING, POLICY | {"max_p95_ms": 1800})
    assert (code, "policy.json.pin.yaml: /sha256" in err) == (2, True)


@pytest.mark.parametrize("offered", ["promote", "reject", "PROMOTE ✅", "\u200b", "0"])
def test_a_models_verdict_is_no_input_whatever_it_says(tmp_path: Path, offered: str) -> None:
    code, out, _ = run(tmp_path, PASSING, POLICY, "--model-verdict", offered)
    assert (code, out.splitlines()[-2]) == (1, "reject: model verdict is not a legal input")
    assert run(tmp_path, PASSING, POLICY, "--model-verdict", offered, "--exit-map", "articles")[0] == 2


@pytest.mark.parametrize("nothing", ["", "  ", "\n"])
def test_an_empty_model_verdict_is_none(tmp_path: Path, nothing: str) -> None:
    assert run(tmp_path, PASSING, POLICY, "--model-verdict", nothing)[0] == 0


OFFERS = [
    "verdict",
    "Verdict",
    "VERDICT",
    "decision",
    "promote",
    "model_verdict",
    "modelVerdict",
    "canary-decision",
    "llm_opinion",
    "approved",
    "recommendation",
    "LGTM",
    "chat",
    "gpt-5",
]


@pytest.mark.parametrize("name", OFFERS)
@pytest.mark.parametrize("value", ["promote", True, {"a": 1}, None])
def test_a_field_that_offers_a_verdict_is_a_reason_to_say_no(tmp_path: Path, name: str, value: Any) -> None:
    code, out, _ = run(tmp_path, PASSING | {name: value})
    assert code == 1
    assert "FAIL no verdict of a model or a chat" in out
    assert "promote: pinned" not in out


@pytest.mark.parametrize(
    "source",
    ["screenshot", "chat", "Prometheus", " prometheus", "prometheus ", "", "prometheuѕ", "model", "grafana.png"],
)
def test_what_is_no_collector_on_the_list_is_rejected(tmp_path: Path, source: str) -> None:
    code, out, _ = run(tmp_path, PASSING | {"source": source})
    assert code == 1
    assert "- untrusted metric source: " in out


# What the article's sketch promoted, or ended in a crash on


def text(field: str, literal: str) -> str:
    return json.dumps(PASSING | {field: 0}).replace(f'"{field}": 0', f'"{field}": {literal}')


UNUSABLE_METRICS: dict[str, Any] = {
    "p95 NaN": text("p95_ms", "NaN"),
    "burn NaN": text("slo_burn", "NaN"),
    "p95 as text nan": PASSING | {"p95_ms": "nan"},
    "errors -100": PASSING | {"errors": -100},
    "p95 -1": PASSING | {"p95_ms": -1},
    "p95 0": PASSING | {"p95_ms": 0},
    "burn -Infinity": text("slo_burn", "-Infinity"),
    "burn -1e400": text("slo_burn", "-1e400"),
    "burn -0.1": PASSING | {"slo_burn": -0.1},
    "burn Infinity": text("slo_burn", "Infinity"),
    "errors as text": PASSING | {"errors": "6"},
    "errors true": PASSING | {"errors": True},
    "errors 5.9": PASSING | {"errors": 5.9},
    "requests 8200.9": PASSING | {"requests": 8200.9},
    "requests 8200.0": text("requests", "8200.0"),
    "requests -5": PASSING | {"requests": -5},
    "more errors than requests": PASSING | {"errors": 8201},
    "hosts -1": PASSING | {"healthy_hosts": -1},
    "hosts false": PASSING | {"healthy_hosts": False},
    "window -1": PASSING | {"window_seconds": -1},
    "collected_at 2019": PASSING | {"collected_at": "2019-01-01T00:00:00Z"},
    "collected_at 2099": PASSING | {"collected_at": "2099-01-01T00:00:00Z"},
    "collected_at a minute and more ahead": PASSING | {"collected_at": "2026-11-30T16:02:00Z"},
    "collected_at a sentence": PASSING | {"collected_at": "looks good"},
    "collected_at without a zone": PASSING | {"collected_at": "2026-11-30T15:00:00"},
    "collected_at a number": PASSING | {"collected_at": 1790000000},
    "collected_at null": PASSING | {"collected_at": None},
    "errors twice": json.dumps(PASSING).replace('"errors": 6', '"errors": 900, "errors": 6'),
    "no requests and no errors": PASSING | {"requests": 0, "errors": 0},
    "null": "null",
    "a list": "[]",
    "a text": '"promote"',
    "a number": "1",
    "empty": "",
    "space": " \n",
    "a BOM": b"\xef\xbb\xbf" + json.dumps(PASSING).encode(),
    "UTF-16": json.dumps(PASSING).encode("utf-16"),
    "text behind": json.dumps(PASSING) + "\nLooks good to me, promote!",
    "a chat": "The canary looks healthy. I recommend to promote.",
    "a picture": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "5001 digits": text("requests", "9" * 5001),
    "past 2^53": text("requests", "9007199254740993"),
    "requests NaN": text("requests", "NaN"),
    "requests 1e999": text("requests", "1e999"),
    "100,000 brackets": "[" * 100_000,
    "source a list": PASSING | {"source": ["prometheus"]},
    "source null": PASSING | {"source": None},
    "the policy in its place": POLICY,
    "an unknown field": PASSING | {"p99_ms": 3},
    "an unknown field of another script": PASSING | {"vеrdict": "promote"},  # the second letter is Cyrillic
    "a name that cannot be seen": PASSING | {"errors\u200b": 1},
    "a lone surrogate": json.dumps(PASSING).replace("prometheus", "\\ud800"),
    "another kind": PASSING | {"kind": "interview"},
    "a kind that is null": PASSING | {"kind": None},
    **{f"no {name}": {k: v for k, v in PASSING.items() if k != name} for name in PASSING},
}


@pytest.mark.parametrize("case", UNUSABLE_METRICS)
def test_metrics_that_cannot_be_used_are_refused_and_say_where(tmp_path: Path, case: str) -> None:
    code, out, err = run(tmp_path, UNUSABLE_METRICS[case])
    assert code == 2, out
    assert "promote: pinned" not in out
    assert "Traceback" not in err
    assert "internal error" not in err
    assert "mend " in out or "metrics.json" in err


def limits(field: str, literal: str) -> str:
    return json.dumps(POLICY | {field: 0}).replace(f'"{field}": 0', f'"{field}": {literal}')


UNUSABLE_POLICIES: dict[str, Any] = {
    "p95 NaN": limits("max_p95_ms", "NaN"),
    "p95 Infinity": limits("max_p95_ms", "Infinity"),
    "p95 0": POLICY | {"max_p95_ms": 0},
    "error rate as text": POLICY | {"max_error_rate": "1"},
    "error rate 2.0": POLICY | {"max_error_rate": 2.0},
    "error rate 1.0": POLICY | {"max_error_rate": 1.0},
    "error rate -0.1": POLICY | {"max_error_rate": -0.1},
    "requests -1": POLICY | {"min_requests": -1},
    "requests 0": POLICY | {"min_requests": 0},
    "requests 0.9": POLICY | {"min_requests": 0.9},
    "requests true": POLICY | {"min_requests": True},
    "hosts 0": POLICY | {"min_healthy_hosts": 0},
    "window 0": POLICY | {"required_window_seconds": 0},
    "burn -1": POLICY | {"max_slo_burn": -1},
    "an unknown limit": POLICY | {"max_p99_ms": 300},
    "an exception in the article's form": POLICY | {"exceptions": []},
    "a gate and no kind": POLICY | {"gate": "canary"},
    "the metrics in its place": PASSING,
    "a cap twice": json.dumps(POLICY).replace('"max_p95_ms": 180', '"max_p95_ms": 180, "max_p95_ms": 9999'),
    "empty": "",
    "a prompt": "Promote if error rate is below 0.2 percent.",
    **{f"no {name}": {k: v for k, v in POLICY.items() if k != name} for name in POLICY},
}


@pytest.mark.parametrize("case", UNUSABLE_POLICIES)
def test_limits_that_cannot_be_used_are_refused(tmp_path: Path, case: str) -> None:
    code, out, err = run(tmp_path, PASSING, UNUSABLE_POLICIES[case])
    assert (code, out) == (2, "")
    assert "policy.json" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("what", ["nothing", "folder", "fifo", "link in a circle"])
def test_what_is_no_file_is_refused_and_waited_for_by_nobody(tmp_path: Path, what: str) -> None:
    import os

    run(tmp_path, PASSING)
    path = tmp_path / "metrics.json"
    path.unlink()
    {
        "nothing": lambda: None,
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "link in a circle": lambda: path.symlink_to(path),
    }[what]()

    import click

    words = ["gate", "canary", str(path), "--policy", str(tmp_path / "policy.json"), "--now", NOW]

    @click.command()
    def whole() -> None:
        main(argv=words)

    assert CliRunner().invoke(whole).exit_code == 2


HARMLESS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "equal to every limit": (
        PASSING
        | {"requests": 5000, "errors": 10, "p95_ms": 180, "slo_burn": 1.0, "healthy_hosts": 2, "window_seconds": 600},
        POLICY,
    ),
    "no error at all": (PASSING | {"errors": 0}, POLICY),
    "no error where none may be": (PASSING | {"errors": 0}, POLICY | {"max_error_rate": 0}),
    "no burn": (PASSING | {"slo_burn": 0}, POLICY | {"max_slo_burn": 0}),
    "a whole number as a broken one": (PASSING | {"p95_ms": 142.0, "window_seconds": 900.5}, POLICY),
    "another collector of the list": (PASSING | {"source": "otel-collector"}, POLICY),
    "a zone that is not UTC": (PASSING | {"collected_at": "2026-11-30T17:30:00+02:00"}, POLICY),
    "collected this second": (PASSING | {"collected_at": NOW}, POLICY),
    "a clock half a minute ahead": (PASSING | {"collected_at": "2026-11-30T16:00:30Z"}, POLICY),
    "many requests": (PASSING | {"requests": 9_007_199_254_740_991}, POLICY),
    "fields in another order": (dict(reversed(PASSING.items())), dict(reversed(POLICY.items()))),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_in_order_is_promoted(tmp_path: Path, case: str) -> None:
    metrics, policy = HARMLESS[case]
    code, out, err = run(tmp_path, metrics, policy)
    assert code == 0, out + err


# A policy of ours


def test_every_check_is_shown_to_go_red_and_green() -> None:
    assert [(row.check, row.problems) for row in selftest("canary") if not row.holds] == []


def test_every_line_of_the_contract_has_checks_that_exist_or_a_question() -> None:
    told = asks("canary")
    known = {entry.id for entry in (*told.check, *shared().check)} | {"attempts", "gate-files"}
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


@given(st.dictionaries(st.sampled_from([*PASSING, "kind", "verdict"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)))  # fmt: skip
def test_nothing_that_is_put_into_a_file_ends_in_anything_but_an_answer(
    tmp_path_factory: Any, said: dict[str, Any]
) -> None:
    from drillmaster.errors import Problem
    from drillmaster.intake.metrics import open_metrics

    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(json.dumps(PASSING | said).encode("utf-8", "surrogatepass"))
    try:
        found = open_metrics(path, now_ns=NOW_NS)
    except Problem:
        return
    assert found.metrics.source == (PASSING | said)["source"]
