"""The canary gate on the article's files as they are, and on every input that its sketch promoted or crashed on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.gates._cases.canary import NOW_NS
from tests.canaries import FAILING, NOW, PASSING, POLICY
from tests.canaries import judge as run

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


def test_no_requests_are_refused_and_say_what_the_article_says_of_them(tmp_path: Path) -> None:
    nothing = PASSING | {"requests": 0, "errors": 0}
    code, out, _ = run(tmp_path, nothing)
    lines = out.splitlines()
    assert (code, lines[-4:-1]) == (
        2,
        ["reject:", "- sample size below min_requests", "- error_rate 1.00000 over cap"],
    )
    assert run(tmp_path, nothing, POLICY, "--exit-map", "articles")[0] == 1


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
    "p95 of no time at all": PASSING | {"p95_ms": 1e-9},
    "p95 in another unit": PASSING | {"p95_ms": 1.42e11},
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
    # In the article 2 says that a model's verdict was given; its script crashes with 1.
    assert run(tmp_path, UNUSABLE_METRICS[case], POLICY, "--exit-map", "articles")[0] == 1
    assert run(tmp_path, UNUSABLE_METRICS[case], POLICY, "--exit-map", "articles", "--model-verdict", "no")[0] == 2


def run_of(phase: str, value: str) -> dict[str, Any]:
    """An analysis of a rollout controller: phase and measurement."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisRun",
        "spec": {"metrics": [{"name": "success", "successCondition": "result[0] >= 0.95"}]},
        "status": {"phase": phase, "metricResults": [{"name": "success", "measurements": [{"value": value}]}]},
    }


def prometheus(*rows: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": list(rows)}}


def kayenta(word: str, count: int) -> dict[str, Any]:
    return {
        "judgeName": "NetflixACAJudge-v1.0",
        "results": [{"name": "errors", "classification": word, "experimentMetadata": {"stats": {"count": count}}}],
        "groupScores": [{"name": "errors", "score": 100.0}],
        "score": {"score": 100.0, "classification": "Pass"},
    }


# What other programs write down of a canary, with what they say of it: some have let one pass on no data at all.
FOREIGN: dict[str, tuple[Any, str]] = {
    "Prometheus, a ratio": (prometheus({"metric": {"service": "a"}, "value": [1790000000.1, "0.0012"]}), "Prometheus"),
    "Prometheus, zero by zero": (prometheus({"metric": {}, "value": [1790000000.1, "NaN"]}), "Prometheus"),
    "Prometheus, no series": (prometheus(), "Prometheus"),
    "Kayenta, no data, 100 points": (kayenta("Nodata", 0), "Kayenta"),
    "Kayenta, passed": (kayenta("Pass", 600), "Kayenta"),
    "Argo, successful on NaN": (run_of("Successful", "[NaN]"), "cluster"),
    "Argo, inconclusive": (run_of("Inconclusive", "[]"), "cluster"),
    "Flagger, promoted": ({"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "status": {"phase": "Succeeded"}}, "cluster"),
    "k6, no sample": ({"metrics": {"http_req_failed": {"type": "rate"}}, "root_group": {}}, "k6"),
    "Datadog, a gap": ({"status": "ok", "series": [{"pointlist": [[1790000000000, None]]}]}, "Datadog"),
    "CloudWatch, no value": ({"MetricDataResults": [{"Id": "m1", "Values": []}], "Messages": []}, "CloudWatch"),
    "OpenTelemetry": ({"resourceMetrics": []}, "OpenTelemetry"),
}  # fmt: skip  # one case a row


@pytest.mark.parametrize("case", FOREIGN)
def test_what_another_program_wrote_is_no_evidence_and_the_refusal_names_what_makes_some(
    tmp_path: Path, case: str
) -> None:
    content, word = FOREIGN[case]
    code, out, err = run(tmp_path, content)
    assert (code, out) == (2, "")
    assert word in err and "drillmaster evidence new canary --prometheus URL" in err


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
    assert run(tmp_path, PASSING, UNUSABLE_POLICIES[case], "--exit-map", "articles")[0] == 1


@pytest.mark.parametrize("what", ["nothing", "folder", "fifo", "link in a circle"])
def test_what_is_no_file_is_refused_and_waited_for_by_nobody(tmp_path: Path, what: str) -> None:
    path = tmp_path / "metrics.json"
    {
        "nothing": lambda: None,
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "link in a circle": lambda: path.symlink_to(path),
    }[what]()
    assert run(tmp_path, ...)[:2] == (2, "")


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


def test_another_name_is_no_new_subject_for_metrics_that_name_no_build(tmp_path: Path) -> None:
    for number, name in enumerate(("metrics.json", "again.json", "once-more.json"), 1):
        (tmp_path / name).write_text(json.dumps(PASSING | {"p95_ms": 182 - number}))
        code, out, _ = run(tmp_path, ..., POLICY, "--metrics", str(tmp_path / name), named=False)
        assert (code, f"attempt {number} at this subject" in out) == (1 if number == 1 else 0, number > 1)
    _, out, _ = run(tmp_path, ..., POLICY | {"max_p95_ms": 500})
    assert "at this subject" not in out  # other limits, another question
