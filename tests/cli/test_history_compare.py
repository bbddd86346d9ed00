"""`history trend` and `history compare`, as they are typed; and the article's names."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.history import _number, command
from drillmaster.history import Entry, open_history


def row(n: int, p95: float | None, **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "run": f"202611{n:02}T120000Z-0001", "drill": "friday", "name": "shop", "target": "", "status": "pass",
        "ended_at": f"2026-11-{n:02}T12:00:00.000000Z", "evidence_digest": f"sha256:{n}", "payload_sha256": "sha256:p",
        "metrics": {} if p95 is None else {"p95_latency": p95},
    }  # fmt: skip
    return Entry(**(fields | more))


@pytest.fixture
def history(tmp_path: Path) -> str:
    named = str(tmp_path / "h.sqlite")
    with open_history(named) as one:
        for n in range(1, 21):
            one.add(row(n, 1.0 + n / 100))
    return named


def typed(history: str, *words: str) -> Result:
    return CliRunner().invoke(command, [*words[:1], "--history", history, "--read-only", *words[1:]])


def test_a_run_that_is_worse_than_all_of_nineteen_before_exits_1(history: str) -> None:
    with open_history(history) as one:
        one.add(row(21, 9.0))
    result = typed(history, "compare")
    assert result.exit_code == 1, result.output
    assert "WORSE      p95_latency  9, median before 1.1" in result.output


def test_of_several_figures_it_says_which_are_worse_among_all(history: str) -> None:
    with open_history(history) as one:
        for n in range(1, 21):
            figures = {"p95_latency": 1.0, "detector_delay_ms": 100.0 if n < 20 else 999.0}
            more = {"run": f"202612{n:02}T120000Z-0001", "ended_at": f"2026-12-{n:02}T12:00:00.000000Z"}
            one.add(row(n, None, metrics=figures, **more))
    result = typed(history, "compare", "--before", "19")
    assert "WORSE      detector_delay_ms  999" in result.output
    assert "(p = 0.050, among all figures 0.100)" in result.output
    assert (
        "2 figures were compared, and one in twenty is worse by chance; 95% sure among all of them: none"
        in result.output
    )


def test_one_that_is_not_exits_0_and_too_few_runs_are_refused(history: str) -> None:
    with open_history(history) as one:
        one.add(row(21, 1.1))
    assert typed(history, "compare").exit_code == 0
    few = typed(history, "compare", "--before", "18")
    assert few.exit_code == 2
    assert "18 runs before, and 1 new can only be told worse than 19 or more" in few.output


@pytest.mark.parametrize(
    "more, why",
    [
        ({"payload_sha256": "sha256:q"}, "another payload"),
        ({"stamps": ("COMPRESSED 30x",)}, "other stamps"),
    ],
)
def test_runs_that_cannot_be_compared_are_left_out_and_counted(history: str, more: dict[str, Any], why: str) -> None:
    with open_history(history) as one:
        one.add(row(21, 9.0, **more))
    result = typed(history, "compare")
    assert result.exit_code == 2
    assert f"20 left out: {why}" in result.output


def test_a_refused_run_is_no_figure_to_compare(history: str) -> None:
    with open_history(history) as one:
        one.add(row(21, 9.0, status="refused"))
    result = typed(history, "compare")
    assert "1 left out: refused, stopped or not judged" in result.output
    assert result.exit_code == 1  # the twentieth against the nineteen before is worse
    assert "20261120T120000Z-0001 against 19 before" in result.output


def test_a_trend_shows_the_interval_of_the_median(history: str) -> None:
    (trend,) = json.loads(typed(history, "trend", "--last", "6", "--json").output)["trends"]
    assert (trend["n"], trend["median"], trend["low"], trend["high"]) == (6, 1.17, 1.15, 1.2)
    (few,) = json.loads(typed(history, "trend", "--last", "5", "--json").output)["trends"]
    assert (few["low"], few["high"]) == (None, None)


def test_rows_have_the_articles_names_and_null_where_nobody_knows(tmp_path: Path) -> None:
    named = str(tmp_path / "h.sqlite")
    with open_history(named) as one:
        one.add(row(1, 1.5, status="unjudged", missing={"pager_ack_seconds": "nobody acknowledged it"}))
    result = CliRunner().invoke(command, ["--history", named, "--read-only", "--ndjson"])
    (said,) = [json.loads(line, parse_constant=pytest.fail) for line in result.output.splitlines()]
    assert {"timestamp", "name", "status", "metrics"} <= set(said)
    assert said["metrics"] == {"p95_latency": 1.5, "pager_ack_seconds": None}
    assert said["missing"] == {"pager_ack_seconds": "nobody acknowledged it"}
    assert said["timestamp"].endswith("Z")
    assert said["status"] == "refused"


def test_options_go_behind_the_word(history: str) -> None:
    result = CliRunner().invoke(command, ["--last", "3", "compare"])
    assert result.exit_code == 2
    assert "options go behind the word" in result.output


@pytest.mark.parametrize(
    ("value", "cut", "shown"),
    [(0.0254, False, "0.0254"), (42_092.0, False, "42,092"), (999.0, True, ">= 999"), (1e6, True, ">= 1,000,000")],
)
def test_a_figure_is_written_as_people_write_numbers(value: float, cut: bool, shown: str) -> None:
    assert _number(value, cut) == shown
