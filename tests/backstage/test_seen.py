"""What the wire saw, from rows of evidence to typed ones and to text."""

from typing import Any

from drillmaster.backstage.seen import attempts_of, table_of

TAGS = {"w1": {"": "stall"}, "w2": {"r1": "first-byte-delay", "r2": "503"}}


def attempt(id_: str, start_ns: int, **more: Any) -> dict[str, Any]:
    row = {
        "event": "attempt",
        "id": id_,
        "window": None,
        "conn": 1,
        "nth": 1,
        "method": "POST",
        "path": "/v1/chat/completions",
        "dialect": "openai_chat",
        "model": "m",
        "stream": None,
        "status": 200,
        "retry_count": None,
        "key": None,
        "trace": None,
        "start_ns": start_ns,
        "first_ns": None,
        "end_ns": start_ns + 2_000_000,
        "up_bytes": 1,
        "down_bytes": 2,
        "end": "clean",
        "terminal": True,
        "upstream": True,
        "intact": True,
    }
    return {**row, **more}


def met(id_: str, window: str, rule: str | None = None) -> dict[str, Any]:
    row = {"event": "fault_met", "attempt": id_, "window": window}
    return row if rule is None else {**row, "rule": rule}


def test_rows_stand_by_their_beginning_and_count_from_the_tests_own() -> None:
    found = attempts_of([attempt("b", 3_000_000_000), attempt("a", 2_000_000_000)], {}, 1_000_000_000)
    assert [(one.id, one.start_s, one.end_s) for one in found] == [("a", 1.0, 1.002), ("b", 2.0, 2.002)]
    assert found[0].ok and found[0].asked_s is None and found[0].first_s is None


def test_what_met_a_request_is_named_by_fault_and_by_rule() -> None:
    rows = [
        met("a", "w1"),
        met("b", "w2", "r1"),
        met("b", "w2", "r2"),
        met(None, "w1"),  # type: ignore[arg-type] # a connection, before there is a request
        attempt("a", 1, window="w1"),
        attempt("b", 2, window="w2"),
        attempt("c", 3),
    ]
    found = attempts_of(rows, TAGS, 0)
    assert [one.faults for one in found] == [("stall",), ("first-byte-delay", "503"), ()]
    assert [one.rules for one in found] == [(), ("r1", "r2"), ()]


def test_a_line_says_what_came_and_what_met_it() -> None:
    rows = [
        met("a", "w2", "r2"),
        attempt("a", 1_000_000, window="w2", status=503, retry_count=1, asked_s=2, stream=True),
        attempt("b", 2_000_000, status=None, end="rst", terminal=False, model=None),
        attempt("c", 3_000_000, terminal=False),
    ]
    assert table_of(attempts_of(rows, TAGS, 0)) == [
        "   0.001 s  POST /v1/chat/completions m stream retry 1 -> 503, clean, asked to wait 2 s, met 503 (w2), 2 ms",
        "   0.002 s  POST /v1/chat/completions -> no answer, rst, 2 ms",
        "   0.003 s  POST /v1/chat/completions m -> 200, clean, unfinished, 2 ms",
    ]


def test_of_many_the_first_and_the_last_are_shown() -> None:
    lines = table_of(attempts_of([attempt(f"{n:03}", n) for n in range(100)], {}, 0))
    assert len(lines) == 17 and "84 more" in lines[8]


def test_secrets_and_controls_do_not_come_through() -> None:
    secret = "sk-" + "a1B2" * 8
    (one,) = attempts_of([attempt("a", 1, model=secret, path=f"/{secret}/\x1b[2J")], {}, 0)
    assert secret not in repr(one)
    assert "\x1b" not in table_of([one])[0]
