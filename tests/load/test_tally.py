"""Records folded by hand: what counts as a latency, what was held, how late the client was."""

from pathlib import Path

import msgspec
import pytest

from drillmaster.errors import Problem
from drillmaster.evidence.samples import LONG_RECORD, MORE, OUTCOMES, RECORD, header
from drillmaster.load.rows import Row, file_text, row_of, row_text
from drillmaster.load.tally import Call, Recent, StepTally, batches

MS = 1_000_000


def record(
    due_ms: float,
    end_ms: float,
    outcome: str = "ok",
    *,
    sent_ms: float | None = None,
    connect_ms: float = 0,
    status: int = 200,
    again: int = 0,
    **more: int,
) -> tuple[int, ...]:
    """A call as `batches` gives it: of the second format where more is said of it."""
    sent = due_ms if sent_ms is None else sent_ms
    call = Call(
        due_ns=round(due_ms * MS),
        sent_ns=round(sent * MS),
        end_ns=round(end_ms * MS),
        connect_ns=round(connect_ms * MS),
        tls_ns=0,
        tokens=3,
        stage=0,
        status=status,
        outcome=OUTCOMES.index(outcome),
        again=again,
        **more,
    )
    return call if more else call[: -len(Call._field_defaults)]


def tally(*rows: tuple[int, ...], limit_s: float = 5, batch: bool = False) -> StepTally:
    one = StepTally(limit_s, batch=batch)
    one.add(rows[:1])
    one.add(rows[1:])
    return one


def test_a_failure_lowers_no_latency_and_a_cut_call_is_at_least() -> None:
    one = tally(
        record(1, 101),
        record(1, 2, "refused", status=-1),
        record(1, 301, "short"),
        record(1, 3, "http_4xx", status=429),
        record(1, 5001, "timeout", status=-1),
    )
    assert one.ok_s() == (0.1, 0.3)
    assert one.cut_s() == (5.0,)
    assert one.failed == {"refused": 1, "http_429": 1, "timeout": 1}
    assert row_of("warm_c1", one) == Row(label="warm_c1", n=5, p50_s=0.3, p95_s=5.0, max_s=5.0, error_rate=0.6)


def test_a_call_that_was_never_sent_had_no_answer_within_the_limit() -> None:
    one = tally(record(1, 101), record(2, 2, "dropped", sent_ms=0, status=-1), limit_s=5)
    assert one.cut_s() == (5.0,)
    assert one.failed == {"dropped": 1}


def test_where_nothing_was_answered_the_row_says_when_it_failed() -> None:
    row = row_of("cold", tally(record(1, 3, "refused", status=-1)))
    assert row is not None
    assert (row.p50_s, row.max_s, row.error_rate) == (0.002, 0.002, 1.0)
    assert row_of("cold", tally()) is None


def test_quantiles_are_nearest_rank() -> None:
    row = row_of("warm_c1", tally(*(record(100 * n, 100 * n + n) for n in range(1, 11))))
    assert row is not None
    assert (row.p50_s, row.p95_s, row.max_s) == (0.005, 0.01, 0.01)


def test_what_is_held_counts_until_the_last_call_began() -> None:
    # Two callers, three calls of 100 ms: two at once for 100 ms, then one alone.
    one = tally(record(1, 101), record(1, 101), record(101, 201))
    assert one.held() == pytest.approx(2)
    assert one.held_overall() == pytest.approx(1.5)
    # A client that let one caller wait.
    assert tally(record(1, 101), record(101, 201), record(201, 301)).held() == pytest.approx(1)
    assert tally(record(1, 101), record(1, 101)).held() == 2


def test_lateness_is_the_clients_and_not_the_connections() -> None:
    one = tally(record(1, 101, sent_ms=6, connect_ms=5), record(1, 101, sent_ms=4))
    assert one.late_s(1.0) == pytest.approx(0.003)
    assert one.late_s(0.5) == 0


def test_a_batch_counts_from_its_start() -> None:
    one = tally(record(10, 110), record(110, 260), batch=True)
    assert one.ok_s() == (0.1, 0.25)
    assert one.seconds == 0.25


def test_any_chunking_gives_the_same_calls_step_by_step() -> None:
    packed, wanted = [], []
    for n in range(1, 40):
        stage = n // 13
        packed.append(RECORD.pack(n, n + 1, 7, 8, n + 5, 2, 1, 9, 9, 4, n, 0, stage, 200 + stage, stage, 1))
        wanted.append((n, n + 1, n + 5, 2, 1, n, stage, 200 + stage, stage, 1))
    data = header(stages=["a", "b", "c", "d"]) + b"".join(packed) + b"torn"
    for size in (1, 7, RECORD.size, 1000, len(data)):
        found = list(batches(data[at : at + size] for at in range(0, len(data), size)))
        assert [call for _, calls in found for call in calls] == wanted
        assert all({call[6] for call in calls} == {stage} for stage, calls in found)


def test_records_of_both_formats_are_cut_by_their_header() -> None:
    packed = [
        RECORD.pack(n, n + 1, 7, 8, n + 5, 2, 1, 9, 9, 4, n, 0, 0, 200, 0, 1) + MORE.pack(n, 2 * n, 77, 3, 2)
        for n in range(1, 9)
    ]
    data = header(long=True, stages=["a"]) + b"".join(packed) + b"torn"
    for size in (1, LONG_RECORD.size, len(data)):
        found = batches(data[at : at + size] for at in range(0, len(data), size))
        calls = [call for _, some in found for call in some]
        assert calls == [(n, n + 1, n + 5, 2, 1, n, 0, 200, 0, 1, n, 2 * n, 77, 3, 2) for n in range(1, 9)]
        assert found.torn_bytes == 4


@pytest.mark.parametrize("data", [b"{}\n", b"no json\n", header().replace(b"samples-1", b"samples-3"), bytes(70_000)])
def test_records_of_an_unknown_format_are_refused(data: bytes) -> None:
    with pytest.raises(Problem, match="records of calls"):
        list(batches([data]))


def test_a_caller_who_pauses_as_planned_is_held() -> None:
    pause = {"paused_ns": 100 * MS}
    one = tally(
        record(1, 101, session=0),
        record(201, 301, session=1, **pause),
        record(401, 501, session=2, **pause),
        record(601, 701, session=3, **pause),
    )
    assert one.held() == pytest.approx(1)
    assert one.held_overall() == pytest.approx(1)
    assert tally(record(1, 101), record(201, 301), record(401, 501), record(601, 701)).held() == pytest.approx(0.5)


def test_callers_of_sessions_are_held_until_the_last_session_begins() -> None:
    # Two callers. One has two sessions of one turn; the other one session of four, and three turns of it alone.
    long = [record(1 + 100 * turn, 101 + 100 * turn, session=0, turn=turn) for turn in range(4)]
    one = tally(long[0], record(1, 101, session=1), long[1], record(101, 201, session=2), *long[2:])
    assert one.held() == 2
    assert one.held_overall() == pytest.approx(1.5)
    assert tally(*long[:2], record(1, 51, session=1)).held() == 2


def test_a_long_pause_before_the_last_call_does_not_make_the_others_idle() -> None:
    # Two callers of two calls each. One takes its second at once, the other after a long pause, when no call is left to take.
    one = tally(
        record(1, 101, session=0),
        record(1, 101, session=1),
        record(201, 301, session=2, paused_ns=100 * MS),
        record(2_101, 2_201, session=3, paused_ns=2_000 * MS),
    )
    assert one.held() == 2
    assert one.held_overall() == pytest.approx(2_500 / 2_200)


def test_waits_that_were_asked_for_are_in_the_latency_and_counted() -> None:
    one = tally(
        record(1, 101, waited_ns=80 * MS, attempts=2, session=0),
        record(1, 51, session=1),
        record(1, 301, "attempts_spent", session=2, status=429, waited_ns=200 * MS, attempts=3),
    )
    assert one.ok_s() == (0.1, 0.05)
    assert (one.n, one.requests, one.waits) == (3, 6, 2)
    assert one.waited_s == pytest.approx(0.28)
    assert one.failed == {"attempts_spent": 1}


def test_turns_that_were_never_sent_are_failures_by_name_and_no_latency() -> None:
    one = tally(
        record(1, 101, turn=0),
        record(101, 151, "http_5xx", status=500, turn=1),
        record(151, 151, "unsent_turn", sent_ms=0, status=-1, turn=2, attempts=0),
        record(200, 500, turn=0),
        record(500, 550, turn=1),
    )
    assert one.failed == {"http_500": 1, "unsent_turn": 1}
    assert (one.n, one.failures, one.requests, one.unsent_turns) == (5, 2, 4, 1)
    assert one.ok_s() == (0.1, 0.3, 0.05)
    assert one.cut_s() == ()
    assert one.ok_by_turn_s() == ((0.1, 0.3), (0.05,))
    assert tally(record(1, 101)).ok_by_turn_s() is None
    # The window in which calls are held ends where the last one began, not where one was given up.
    alone = tally(record(1, 101, "timeout"), record(101, 101, "unsent_turn", sent_ms=0, attempts=0))
    assert alone.held() == 1
    figures = tally(record(1, 3, "refused", status=-1), record(3, 3, "unsent_turn", sent_ms=0, attempts=0)).figures()
    assert figures is not None
    assert (figures["max_s"], figures["error_rate"]) == (0.002, 1.0)


def test_the_file_has_the_articles_rows_alone() -> None:
    rows = [Row(label=label, n=1, p50_s=1, p95_s=1, max_s=1, error_rate=0) for label in ("cold", "warm_c1", "open_r5")]
    said = msgspec.json.decode(file_text(rows, url="http://x/", levels="1"))
    assert (said["url"], said["levels"]) == ("http://x/", "1")
    assert [row["label"] for row in said["results"]] == ["cold", "warm_c1"]
    assert list(said["results"][0]) == ["label", "n", "p50_s", "p95_s", "max_s", "error_rate"]


@pytest.mark.parametrize("more", [{}, {"session": 4, "attempts": 1}])
def test_calls_made_again_on_a_kept_connection_are_counted_good_or_not_and_are_no_wait(more: dict[str, int]) -> None:
    one = tally(
        record(1, 101, again=1, **more),
        record(1, 101, **more),
        record(1, 90, "cut", status=-1, again=1, **more),
        record(1, 101, again=1, **more),
    )
    assert (one.made_again, one.requests, one.waits, one.n) == (3, 4, 0, 4)
    row = row_of("warm_c1", one)
    assert row is not None and row.made_again == 3
    assert "  3 calls made again on a kept connection" in row_text(row, one)
    assert msgspec.json.decode(file_text([row]))["results"][0]["made_again"] == 3


def test_one_call_made_again_is_one_call_and_of_none_nothing_is_said() -> None:
    one, none = tally(record(1, 101, again=1)), tally(record(1, 101))
    row = row_of("warm_c1", one)
    assert row is not None and "  1 call made again on a kept connection" in row_text(row, one)
    row = row_of("warm_c1", none)
    assert row is not None and row.made_again is None
    assert "again" not in row_text(row, none) + file_text([row])


def test_a_row_of_failures_alone_shows_no_latency() -> None:
    at_once = tally(record(1, 2, "http_5xx", status=500), record(1, 3, "refused", status=-1))
    row = row_of("warm_c1", at_once)
    assert row is not None
    assert row_text(row, at_once) == "warm_c1   n 2     no answer  errors 1  (1 http_500, 1 refused)"
    assert row.p95_s == 0.002  # the article's file has one all the same: after how long they failed
    hangs = tally(record(1, 5001, "timeout", status=-1))
    row = row_of("warm_c1", hangs)
    assert row is not None and "p95 5 s" in row_text(row, hangs)


def packed(stage: int, took_ms: int, outcome: str = "ok", *, long: bool = False) -> bytes:
    row = RECORD.pack(
        9 * MS, 9 * MS, 0, 0, (9 + took_ms) * MS, 0, 0, 9, 9, 0, 4, 0, stage, 200, OUTCOMES.index(outcome), 0
    )
    return row + (MORE.pack(0, 0, 1, 0, 1) if long else b"")


@pytest.mark.parametrize("long", [False, True])
def test_the_p95_of_the_last_calls_is_of_the_good_ones_of_the_step(tmp_path: Path, long: bool) -> None:
    path = tmp_path / "samples"
    recent = Recent(str(path))
    assert recent.p95_s(1) is None  # no file
    path.write_bytes(header(long=long, stages=["a", "b"])[:20])
    assert recent.p95_s(1) is None  # a header that is not whole
    head = header(long=long, stages=["a", "b"])
    path.write_bytes(head)
    assert recent.p95_s(1) is None
    rows = [packed(0, 5_000, long=long)] * 30
    path.write_bytes(head + b"".join(rows))
    assert (recent.p95_s(0), recent.p95_s(1)) == (5.0, None)
    rows += [packed(1, n, long=long) for n in range(1, 101)] + [packed(1, 9_000, "timeout", long=long)] * 50
    path.write_bytes(head + b"".join(rows) + b"torn")
    assert recent.p95_s(1) == 0.095
    assert recent.p95_s(1, since_ns=4 * MS) == 0.1
    rows += [packed(1, 7, long=long)] * 1_000
    path.write_bytes(head + b"".join(rows))
    assert recent.p95_s(1) == 0.007
