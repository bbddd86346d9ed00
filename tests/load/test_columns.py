"""Records folded by hand into columns: which call has which time, which has at least one, and which has none."""

import math
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from drillmaster.evidence.samples import LONG_RECORD, MORE, OUTCOMES, RECORD, header
from drillmaster.interviews import Calls, Level
from drillmaster.load.columns import calls_of
from drillmaster.verdict import Absent, AtLeast, Exact

MS = 1_000_000
STEPS = {"warm_c1": {"kind": "closed"}, "drain": {"kind": "drain"}}


def record(
    due: float, end: float, outcome: str = "ok", *, sent: float | None = None, first: float = 0, word: float = 0, words: int = 0,
    connect: float = 0, tokens: int = 4, status: int = 200, stage: int = 0,
) -> bytes:  # fmt: skip
    """Times in ms."""
    sent = due if sent is None else sent
    ns = [round(one * MS) for one in (due, sent, first, word, end, connect, 0)]
    return RECORD.pack(*ns, 9, 9, words, tokens, 0, stage, status, OUTCOMES.index(outcome), 0)


def calls(records: list[bytes], gaps_us: list[int] | None = None, label: str = "warm_c1", **more: Any) -> Calls:
    data = header(stages=list(STEPS), **more) + b"".join(records)
    gaps = None if gaps_us is None else [array("I", gaps_us).tobytes()]

    def pieces() -> Iterator[bytes]:
        yield from (data[at : at + 100] for at in range(0, len(data), 100))

    return calls_of([(pieces(), gaps, list(STEPS))], STEPS, time_limit_s=5)[label]


def times(one: Calls, name: str) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 6) for value in one.times[name]]


def test_each_time_counts_from_where_its_name_says() -> None:
    one = calls([record(100, 900, sent=130, connect=25, first=300, word=350, words=3)], [50_000, 70_000])
    found = {name: times(one, name)[0] for name in one.times}
    assert found == {
        "latency": 0.8, "service": 0.77, "ttfb": 0.2, "ttft": 0.25, "tpot": 0.06, "connect": 0.025, "tls": None, "late": 0.005,
    }  # fmt: skip
    assert [round(gap, 6) for gap in one.gaps_s] == [0.05, 0.07]
    assert [round(at, 6) for at in one.gap_at_s] == [0.4, 0.47]


def test_a_failed_call_has_no_times_but_the_clients_own() -> None:
    one = calls([record(100, 101, "http_5xx", status=503, first=101, sent=100.5), record(200, 300, first=250)])
    assert times(one, "latency") == [None, 0.1]
    assert times(one, "ttfb") == [None, 0.05]
    assert times(one, "late") == [0.0005, 0]
    assert (list(one.outcome), list(one.kind)) == ([2, 0], ["http_503", ""])


def test_a_cut_call_waited_at_least_so_long_for_what_did_not_come() -> None:
    one = calls([record(100, 5_100, "timeout", first=200, word=300, words=2), record(200, 900, word=250)], [100_000])
    assert times(one, "latency") == [-5, 0.7]
    assert times(one, "ttfb") == [0.1, 0.7]
    assert times(one, "ttft") == [0.2, 0.05]
    assert [round(gap, 6) for gap in one.gaps_s] == [0.1, -4.7]  # the word that never came
    silent = calls([record(100, 5_100, "timeout"), record(200, 900, first=300, word=300)])
    assert times(silent, "ttfb") == [-5, 0.1]
    assert times(silent, "ttft") == [-5, 0.1]


def test_a_call_that_was_never_sent_took_at_least_its_time_limit() -> None:
    one = calls([record(100, 100, "dropped", sent=0, status=-1), record(1, 1, "unsent_turn", sent=0, status=-1)])
    assert times(one, "latency") == [-5, None]
    assert times(one, "service") == times(one, "late") == [None, None]
    assert list(one.outcome) == [1, 2]
    assert list(one.attempts) == [0, 0]


def test_whole_answers_have_no_first_word_and_no_gap() -> None:
    level = Level(
        label="x", kind="closed", n=1, ok_s=(0.1,), calls=calls([record(1, 101), record(1, 5_001, "timeout")])
    )
    for time in ("ttft", "itl", "tpot"):
        observed = level.measure(time, "p50")
        assert isinstance(observed, Absent)
        assert "--stream" in observed.why


def test_a_stream_without_a_word_waited_for_one_all_the_time() -> None:
    one = calls([record(100, 900, word=200), record(100, 400)])
    assert times(one, "ttft") == [0.1, -0.3]


def test_a_batch_counts_from_its_start() -> None:
    one = calls(
        [record(10, 110, stage=1), record(110, 260, stage=1), record(110, 400, "timeout", stage=1)], label="drain"
    )
    assert times(one, "latency") == [0.1, 0.25, -0.39]


def test_gaps_are_dealt_to_their_streams_in_any_step() -> None:
    rows = [
        record(0, 10, "reset", word=1, words=3), record(0, 20, word=2, words=2, stage=1), record(0, 30, word=3, words=4),
    ]  # fmt: skip
    one = calls(rows, [1, 2, 7_000, 4_000, 5_000, 6_000])
    assert [round(gap, 6) for gap in one.gaps_s] == [0.004, 0.005, 0.006]


def test_the_second_format_says_how_often_a_call_was_sent() -> None:
    data = header(long=True, stages=list(STEPS)) + record(0, 10) + MORE.pack(5, 0, 1, 0, 3)
    assert len(data.split(b"\n", 1)[1]) == LONG_RECORD.size
    one = calls_of([([data], None, list(STEPS))], STEPS, time_limit_s=5)["warm_c1"]
    assert list(one.attempts) == [3]


def test_several_engines_are_one_level() -> None:
    files = [([header(stages=list(STEPS)) + record(due, due + 100)], None, list(STEPS)) for due in (0, 50)]
    assert times(calls_of(files, STEPS, time_limit_s=5)["warm_c1"], "latency") == [0.1, 0.1]


def test_any_quantile_of_any_time_is_measured() -> None:
    rows = [record(100 * at, 100 * at + 1 + at % 100, first=100 * at + 1) for at in range(1_000)]
    level = Level(label="x", kind="closed", n=1_000, calls=calls(rows), ok_s=())
    late = level.measure("service", "p99.9")
    assert isinstance(late, Exact)
    assert late.value == pytest.approx(0.1)
    first = level.measure("ttfb", "p50")
    assert isinstance(first, Exact)
    assert first.value == pytest.approx(0.001)
    cut = Level(label="x", kind="closed", n=2, calls=calls([record(0, 5_000, "timeout")]), cut_s=(5.0,), ok_s=())
    assert isinstance(cut.measure("ttfb", "max"), AtLeast)
    assert isinstance(Level(label="x", kind="closed", n=1, known={"p95": 1.0}).measure("ttft", "p95"), Absent)
