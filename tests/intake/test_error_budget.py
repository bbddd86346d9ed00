"""An error budget from Prometheus: what is asked, and which answers are no measurement."""

import json
import math
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.gates.cutover import ErrorBudget
from drillmaster.intake.error_budget import measure

NOW_NS = parse_rfc3339("2026-11-30T16:00:00.25Z") or 0
HOST = "http://127.0.0.1:9090"


class Prometheus:
    """One on paper: what it says of series at the beginning, of requests and of errors. None: no series."""

    def __init__(self, began: Any = "3", requests: Any = "86400000.4", errors: Any = "1199.2", **more: Any) -> None:
        self._values = {"began": began, "requests": requests, "errors": errors}
        self._more = more
        self.asked: list[str] = []

    def __call__(self, path: str) -> bytes:
        query = parse_qs(urlsplit(path).query)
        self.asked += query["query"]
        assert query["time"] == ["1796054400"]
        field = "began" if query["query"][0].startswith("count(") else "errors" if "5.." in path else "requests"
        value = self._values[field]
        rows = [{"metric": {}, "value": [1796054400, one]} for one in ([] if value is None else [value])]
        return json.dumps({"status": "success", "data": {"result": rows}} | self._more).encode()


def measured(ask: Prometheus, **more: Any) -> ErrorBudget:
    given = {"counter": "http_requests_total", "failed": 'status=~"5.."', "span_s": 86_400, **more}
    return measure(ask, host=HOST, service="ledger-writer", now_ns=NOW_NS, **given)


def test_requests_are_cut_down_and_errors_up() -> None:
    ask = Prometheus()
    budget = measured(ask)
    assert (budget.requests, budget.errors) == (86_400_000, 1200)
    assert (budget.window_start, budget.window_end) == ("2026-11-29T16:00:00Z", "2026-11-30T16:00:00Z")
    assert all(query in budget.source for query in ask.asked[1:])
    assert 'http_requests_total{service="ledger-writer",status=~"5.."}[86400s]' in ask.asked[2]


def test_no_series_of_errors_is_no_error() -> None:
    assert measured(Prometheus(errors=None)).errors == 0


@pytest.mark.parametrize(
    "ask",
    [
        Prometheus(began=None),
        Prometheus(requests=None),
        Prometheus(requests="0"),
        Prometheus(requests="0.9"),
        Prometheus(requests="NaN"),
        Prometheus(requests="+Inf"),
        Prometheus(requests="many"),
        Prometheus(requests=5),
        Prometheus(errors="NaN"),
        Prometheus(errors="-1"),
        Prometheus(warnings=["some series were left out"]),
        Prometheus(status="error", error="bad query"),
        Prometheus(data=None),
        Prometheus(data={"result": [{"metric": {"a": "b"}}]}),
    ],
)
def test_what_is_no_measurement_is_refused(ask: Prometheus) -> None:
    with pytest.raises(Problem):
        measured(ask)


@pytest.mark.parametrize("counter", ["", "a b", "a{b}", "1a", "a[5m]", "a\n"])
def test_a_counter_is_a_name_and_nothing_else(counter: str) -> None:
    with pytest.raises(Problem, match="--counter"):
        measured(Prometheus(), counter=counter)


@pytest.mark.parametrize("failed", ["", "status", 'status="5"}) or vector(0', "status=~5", 'a="b",c="d"', 's="\\"'])
def test_what_failed_is_one_matcher(failed: str) -> None:
    with pytest.raises(Problem, match="--failed"):
        measured(Prometheus(), failed=failed)


def test_a_service_of_any_name_is_quoted() -> None:
    ask = Prometheus()
    measure(
        ask,
        host=HOST,
        service='x"} or vector(1e9) #',
        counter="http_requests_total",
        failed='status=~"5.."',
        span_s=60,
        now_ns=NOW_NS,
    )
    assert all('service="x\\"} or vector(1e9) #"' in query for query in ask.asked)
    assert math.isfinite(measured(Prometheus()).requests)
