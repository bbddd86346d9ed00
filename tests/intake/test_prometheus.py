"""Evidence from Prometheus: what of its answers is taken down, what is refused, and whom it may be asked of."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.intake.metrics import open_metrics
from drillmaster.intake.prometheus import RULES, TOKEN, canary_metrics, reach
from drillmaster.plan import Permit

NOW = "2026-11-30T16:00:00.25Z"
NOW_NS = parse_rfc3339(NOW) or 0
BUILD = "sha256:" + "a1" * 32
OLD = "sha256:" + "b2" * 32
HOST = "http://127.0.0.1:9090"

NUMBERS: dict[str, dict[tuple[str, str], str]] = {
    "requests": {("1", BUILD): "8200.7", ("0", OLD): "150000"},
    "errors": {("1", BUILD): "5.2", ("0", OLD): "90"},
    "p95_ms": {("1", BUILD): "142.5", ("0", OLD): "139"},
    "healthy_hosts": {("1", BUILD): "3", ("0", OLD): "20"},
    "watched_s": {("1", BUILD): "600", ("0", OLD): "600"},
    "coverage": {("1", BUILD): "1", ("0", OLD): "1"},
}


class Prometheus:
    """One on paper. `numbers` by rule; `age_s`: when the rules were last evaluated."""

    def __init__(self, numbers: dict[str, dict[tuple[str, str], Any]], age_s: str = "5") -> None:
        self.numbers = numbers
        self.age_s = age_s
        self.asked: list[str] = []
        self.more: dict[str, Any] = {}

    def __call__(self, path: str) -> bytes:
        query = parse_qs(urlsplit(path).query)
        (asked,), (at,) = query["query"], query["time"]
        self.asked.append(asked)
        assert float(at) == pytest.approx(NOW_NS / 1e9)
        if asked.startswith("min(label_replace("):
            rows = [{"metric": {}, "value": [float(at), str(float(at) - float(self.age_s))]}]
        else:
            field = next(field for field, rule in RULES.items() if asked.startswith(rule + "{"))
            rows = [
                {"metric": {"service": "checkout", "canary": canary, "artifact": artifact}, "value": [float(at), value]}
                for (canary, artifact), value in self.numbers[field].items()
            ]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}} | self.more).encode()


def numbers(**more: dict[tuple[str, str], Any]) -> dict[str, dict[tuple[str, str], Any]]:
    return {field: NUMBERS[field] | more.get(field, {}) for field in NUMBERS}


def without(field: str, key: tuple[str, str]) -> dict[str, dict[tuple[str, str], Any]]:
    return numbers() | {field: {k: v for k, v in NUMBERS[field].items() if k != key}}


def taken(prometheus: Prometheus, **more: Any) -> dict[str, Any]:
    told = {"host": HOST, "service": "checkout", "artifact": BUILD, "now_ns": NOW_NS} | more
    return canary_metrics(prometheus, **told)


def test_what_was_counted_is_written_down_with_each_question(tmp_path: Path) -> None:
    prometheus = Prometheus(numbers())
    said = taken(prometheus)
    assert said["subject"] == {"service": "checkout", "artifact": BUILD}
    assert said["window"] == {"start": "2026-11-30T15:50:00.250Z", "end": "2026-11-30T16:00:00.250Z"}
    assert said["data"]["canary"] == {"requests": 8200, "errors": 6, "p95_ms": 142.5, "healthy_hosts": 3}
    assert said["data"]["baseline"]["artifact"] == OLD
    assert said["data"]["queries"][1] == {
        "query": 'canary:errors:increase10m{service="checkout"}',
        "at": "2026-11-30T16:00:00.250Z",
        "value": {"canary": "5.2", "baseline": "90"},
    }
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps(said))
    read = open_metrics(path, now_ns=NOW_NS, artifact=BUILD)
    assert (read.ours, read.metrics.canary.requests, read.metrics.window_s) == (True, 8200, 600.0)


def test_without_a_baseline_there_is_none_and_the_policy_decides() -> None:
    alone = {field: {k: v for k, v in rows.items() if k[0] == "1"} for field, rows in NUMBERS.items()}
    assert "baseline" not in taken(Prometheus(alone))["data"]


def test_where_all_fail_no_more_errors_than_requests_are_told() -> None:
    all_fail = numbers(errors={("1", BUILD): "8200.7"})
    assert taken(Prometheus(all_fail))["data"]["canary"]["errors"] == 8200


def test_another_builds_series_that_stands_still_does_no_harm() -> None:
    taken(Prometheus(numbers(requests={("1", OLD): "0"})))


def test_a_services_name_is_quoted() -> None:
    prometheus = Prometheus(numbers())
    taken(prometheus, service='a"} or vector(1) #')
    assert prometheus.asked[0] == 'canary:requests:increase10m{service="a\\"} or vector(1) #"}'


BAD: dict[str, tuple[dict[str, dict[tuple[str, str], Any]], str]] = {
    "NaN at no traffic": (numbers(p95_ms={("1", BUILD): "NaN"}), "NaN for the canary"),
    "p95 past the last bucket": (numbers(p95_ms={("1", BUILD): "+Inf"}), "+Inf for the canary"),
    "a negative count": (numbers(errors={("1", BUILD): "-1"}), "-1 for the canary"),
    "no number": (numbers(errors={("1", BUILD): "none"}), "none for the canary"),
    "a number that is no text": (numbers(errors={("1", BUILD): 5.0}), "two series"),
    "no errors series": (without("errors", ("1", BUILD)), "nothing for the canary"),
    "a baseline without hosts": (without("healthy_hosts", ("0", OLD)), "nothing for the baseline"),
    "no data": ({field: {} for field in NUMBERS}, 'canary="1"'),
    "another build": (numbers() | {"requests": {("1", OLD): "9000"}}, "artifact sha256:b2b2b2b2b2b2"),
    "a build without a digest": (numbers() | {"requests": {("1", ""): "9000"}}, "artifact none"),
    "two builds": (numbers(requests={("1", OLD): "1"}), "2 builds behind the canary"),
    "two baselines": (numbers(requests={("0", "sha256:" + "c3" * 32): "1"}), "2 builds behind the baseline"),
    "a canary that came this second": (numbers(watched_s={("1", BUILD): "0"}), "not watched yet"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_evidence_is_refused(case: str) -> None:
    rows, said = BAD[case]
    with pytest.raises(Problem) as problem:
        taken(Prometheus(rows))
    assert said in str(problem.value)
    assert problem.value.remedy


@pytest.mark.parametrize("age_s", ["61", "300", "-61", "nan", "inf"])
def test_rules_that_run_no_more_are_told_from_those_that_do(age_s: str) -> None:
    with pytest.raises(Problem, match="evaluated in the last 60 s"):
        taken(Prometheus(numbers(), age_s))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Log in</html>",
        b"null",
        b"[]",
        b'{"status":"error","error":"x"}',
        b'{"status":"success"}',
        b'{"status":"success","data":{"resultType":"vector","result":[1]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":{}}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":3,"value":[1,"2"]}]}}',
    ],
)
def test_an_answer_that_is_none_is_a_problem(body: bytes) -> None:
    with pytest.raises(Problem):
        taken(lambda path: body)  # type: ignore[arg-type]


def test_part_of_an_answer_is_refused() -> None:
    prometheus = Prometheus(numbers())
    prometheus.more = {"warnings": ["store 3 timed out"]}
    with pytest.raises(Problem, match="with warnings"):
        taken(prometheus)


@pytest.mark.parametrize("service", ["", " ", "a\nb", "x" * 201])
def test_a_service_without_a_name_is_refused(service: str) -> None:
    with pytest.raises(Problem, match="--service"):
        taken(Prometheus(numbers()), service=service)


# Whom it may be asked of

PERMIT = Permit(host="prom.example.com", owner="Cem", until="2026-12-31", max_per_s=10, max_requests=10)


def may(url: str, permit: Permit | None = None, permit_host: str | None = None, **environ: str) -> Any:
    return reach(url, permit, place="--prometheus", permit_host=permit_host, environ=environ, now_ns=NOW_NS)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9090", "http://localhost:9090/prom/", "https://[::1]:9090", "http://127.8.9.1"]
)
def test_loopback_may_be_asked(url: str) -> None:
    assert may(url).outside is False


@pytest.mark.parametrize("url", ["http://prom.example.com:9090", "http://10.0.0.1:9090", "http://0.0.0.0:9090"])
def test_another_host_is_refused_without_leave(url: str) -> None:
    with pytest.raises(Refused, match="not loopback"):
        may(url)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:9090", "ftp://127.0.0.1", "http://u:p@127.0.0.1", "http://127.0.0.1?x=1", "http://127.0.0.1:99999"],
)
def test_what_is_no_address_of_a_prometheus_is_refused_and_shows_no_secret(url: str) -> None:
    with pytest.raises(Problem) as problem:
        may(url)
    assert "u:p" not in str(problem.value)


def test_leave_is_given_twice() -> None:
    with pytest.raises(Refused, match="--permit-host"):
        may("https://prom.example.com", PERMIT)
    assert may("https://prom.example.com", PERMIT, "prom.example.com").outside is True
    with pytest.raises(Refused, match="permission for prom"):
        may("https://other.example.com", PERMIT, "other.example.com")


def test_a_token_goes_over_no_open_wire_to_another_machine() -> None:
    token = "t" + "0" * 9
    assert may("http://127.0.0.1:9090", **{TOKEN: token}).token == token
    assert may("https://prom.example.com", PERMIT, "prom.example.com", **{TOKEN: token}).token == token
    with pytest.raises(Refused, match="open wire") as refused:
        may("http://prom.example.com", PERMIT, "prom.example.com", **{TOKEN: token})
    assert token not in str(refused.value)
    with pytest.raises(Problem, match="no token has"):
        may("http://127.0.0.1:9090", **{TOKEN: "a\nb"})
