"""Each case is a line somebody's worker, shell or dying process wrote."""

import itertools
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.evidence import Defect, OrderWatch, Row, by_time, rows

T = '"t":"2026-11-29T12:00:00.250Z"'
GOOD = b"{" + T.encode() + b',"event":"note","text":"x"}'


def read(data: bytes, **options: int) -> list[Row | Defect]:
    return list(rows([data], file="timeline.jsonl", **options))


def kinds(data: bytes) -> list[tuple[int, str]]:
    return [(r.line, r.kind if isinstance(r, Defect) else r.event) for r in read(data)]


SAD = [
    (b'{"t":"2026-11-29T12:00:00.250Z","event":"no', "torn"),
    (GOOD[:-1], "torn"),
    (b'{"t":"2026-11-29T12:00:00.250Z","event":"caf\xc3', "torn"),  # cut within a character
    (GOOD[:30] + GOOD, "torn"),  # a killed writer's line with the next one glued to it
    (GOOD + GOOD, "torn"),
    (GOOD + b"," + GOOD, "torn"),
    (b'{"t":"2026-11-29T12:00:00Z","event":"user_request","status":000000}', "torn"),  # curl's 000 with 000 behind it
    (b"{'t':'2026-11-29T12:00:00Z'}", "torn"),
    (b'{"event"', "torn"),
    (b"{", "torn"),
    (b"[]", "foreign"),
    (b"7", "foreign"),
    (b"null", "foreign"),
    (b'"event"', "foreign"),
    (b"Traceback (most recent call last):", "foreign"),
    (b"\x00\x00\x00\x00", "foreign"),
    (b"\xef\xbb\xbf" + GOOD, "foreign"),
    (GOOD.decode().encode("utf-16"), "foreign"),
    (GOOD.decode().encode("utf-16-le"), "foreign"),
    (b"{" + T.encode() + b',"event":"note","text":"\xff"}', "foreign"),
    (b"{" + T.encode() + b',"event":"note","text":"\\ud800"}', "foreign"),
    (b"{" + T.encode() + b"}", "foreign"),
    (b"{" + T.encode() + b',"event":null}', "foreign"),
    (b"{" + T.encode() + b',"event":1}', "foreign"),
    (b"{" + T.encode() + b',"event":""}', "foreign"),
    (b"{}", "foreign"),
    (b"[" * 60_000, "foreign"),
    (b'{"event":"a","t":"2026-11-29T12:00:00Z","x":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "foreign"),
    (b'{"event":"a"}', "undated"),
    (b'{"event":"a","t":null}', "undated"),
    (b'{"event":"a","t":1764417600}', "undated"),
    (b'{"event":"a","t":"yesterday"}', "undated"),
    (b'{"event":"a","t":""}', "undated"),
    (b'{"event":"a","t":"2026-11-29T12:00:00"}', "undated"),
    (b'{"event":"a","t":"2026-11-29T12:00:00.123456"}', "undated"),
    (b'{"event":"a","t":"2026-11-29"}', "undated"),
    (b'{"event":"a","t":"2026-02-30T12:00:00Z"}', "undated"),
    (b'{"event":"a","t":"2026-11-29T12:00:00.Z"}', "undated"),
    (b'{"event":"a","t":"2026-11-29T12:00:00.1_2Z"}', "undated"),
    ('{"event":"a","t":"2026-11-29T12:00:00.١Z"}'.encode(), "undated"),  # digits, and not ASCII
    (b'{"event":"a","t":"2199-01-01T00:00:00Z"}', "undated"),
    (b'{"event":"a","t":"2199-06-01T00:00:00.5Z"}', "undated"),
    (b'{"event":"a","t":"1969-12-31T23:59:59Z"}', "undated"),
    (b"{" + T.encode() + b',"event":"user_request","status":502,"status":200}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a","event":"a"}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a" ,"x" :1, "x" :":"}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a","x":{"y":1,"y":2}}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a","x":[{"y":1,"y":2}]}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a","\\u0065vent":"b"}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a","x":"\\"","x":1}', "duplicate-key"),
    # Written back, these two escapes cost as many quotes as the key that was lost.
    (b"{" + T.encode() + b',"event":"a","x":1,"x":"\\u0022\\u0022"}', "duplicate-key"),
    (b"{" + T.encode() + b',"event":"a","ms":NaN}', "not-finite"),
    (b"{" + T.encode() + b',"event":"a","ms":-Infinity}', "not-finite"),
    (b"{" + T.encode() + b',"event":"a","ms":1e999}', "not-finite"),
    (b"{" + T.encode() + b',"event":"a","ms":' + b"9" * 5000 + b"}", "not-finite"),
    (b"{" + T.encode() + b',"event":"a","x":"' + b"x" * 65_536 + b'"}', "too-long"),
]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"], ids=["at-end", "newline", "crlf"])
@pytest.mark.parametrize(("line", "kind"), SAD, ids=[f"{k}-{i}" for i, (_, k) in enumerate(SAD)])
def test_a_bad_line_is_named_and_costs_no_other(line: bytes, kind: str, ending: bytes) -> None:
    # A UTF-16 file is bad through and through; the lines around it here are not.
    first, bad, *last = kinds(GOOD + b"\n" + line + ending)
    assert first == (1, "note")
    assert bad[0] == 2
    assert bad[1] == kind
    assert not last


FINE = [
    b'{"t":"2026-11-29T12:00:00Z","event":"a"}',
    b'{"t":"2026-11-29T12:00:00.123456789Z","event":"a"}',
    b'{"t":"2026-11-29T13:00:00+01:00","event":"a"}',
    b'{"t":"2026-11-29T13:00:00.1+01:00","event":"a"}',
    b' {"event" : "a", "t" : "2026-11-29 12:00:00z"} ',
    b'{"t":"2026-11-29T12:00:00Z","event":"a","x":"a \\"quoted\\" word \\\\"}',
    b'{"t":"2026-11-29T12:00:00Z","event":"a","x":":","y":"{\\"t\\":1,\\"t\\":2}"}',
    b'{"t":"2026-11-29T12:00:00Z","event":"a","x":{"x":{"x":[{"x":1},{"x":2}]}}}',
    b'{"t":"2026-11-29T12:00:00Z","event":"a","ns":1764417600123456789,"huge":123456789012345678901234567890}',
    '{"t":"2026-11-29T12:00:00Z","event":"a","x":"caf\u00e9 \U0001f600"}'.encode(),
    b'{"t":"2026-11-29T12:00:00Z","event":"a","x":"\\ud83d\\ude00"}',
]


@pytest.mark.parametrize("line", FINE)
def test_an_unusual_line_that_says_each_thing_once_is_a_row(line: bytes) -> None:
    (row,) = read(line)
    assert isinstance(row, Row)
    assert row.event == "a"
    assert row.wall_ns // 1_000_000_000 == 1_795_953_600


def test_a_time_keeps_its_nanoseconds_and_its_zone() -> None:
    (row,) = read(b'{"t":"2026-11-29T10:30:00.123456789-01:30","event":"a"}')
    assert isinstance(row, Row)
    assert row.wall_ns == 1_795_953_600_123_456_789


def test_blank_lines_are_no_lines_and_are_counted_by_number() -> None:
    assert kinds(b"\n" + GOOD + b"\n\n" + GOOD + b"\n \r\n\n[]\n") == [(2, "note"), (4, "note"), (7, "foreign")]


def test_an_empty_file_has_no_rows() -> None:
    assert read(b"") == read(b"\n\n") == []


def test_what_was_found_is_short_and_printable() -> None:
    for line, _ in SAD:
        for defect in read(line):
            assert isinstance(defect, Defect)
            assert len(defect.found) < 120, defect
            assert defect.found.isprintable(), defect
            assert defect.wanted


def test_a_line_of_a_gigabyte_costs_what_the_cap_costs() -> None:
    def chunks() -> Iterator[bytes]:
        yield GOOD + b'\n{"x":"'
        filler = b"x" * 65_536
        for _ in range(16_384):
            yield filler
        yield b'"}\n' + GOOD

    tracemalloc.start()
    found = list(rows(chunks(), file="f"))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [r.line for r in found] == [1, 2, 3]
    assert isinstance(found[1], Defect)
    assert found[1].kind == "too-long"
    assert found[1].found == "1,073,741,832 bytes"
    assert peak_bytes < 2_000_000


def test_the_cap_is_inclusive() -> None:
    assert [type(r) for r in read(GOOD, line_cap_bytes=len(GOOD))] == [Row]
    assert [type(r) for r in read(GOOD, line_cap_bytes=len(GOOD) - 1)] == [Defect]


def test_memory_does_not_grow_with_the_file() -> None:
    def chunks() -> Iterator[bytes]:
        for second in range(60):
            yield b'\n{"t":"2026-11-29T12:00:%02d.5Z","event":"user_request","id":"a","status":200}\n' % second * 1000

    tracemalloc.start()
    count = sum(1 for _ in rows(chunks(), file="f"))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 60_000
    assert peak_bytes < 2_000_000


pieces = st.sampled_from([line for line, _ in SAD if len(line) < 200] + FINE + [GOOD, b"", b" ", b"\r", b"\\", b'"'])
files = st.lists(st.tuples(pieces, st.sampled_from([b"\n", b"\n\n", b"\r\n", b""])), max_size=12).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


@given(files, st.lists(st.integers(0, 400), max_size=8), st.sampled_from([40, 80, 65_536]))
@example(GOOD + b"\n" + GOOD, [len(GOOD)], 65_536)
@example(b"\n" + GOOD, [0, 1], 40)
def test_any_chunking_gives_one_answer(data: bytes, cuts: list[int], cap: int) -> None:
    edges = [0, *sorted(cuts), len(data)]
    chunks = [data[a:b] for a, b in itertools.pairwise(edges) if a <= b]
    whole = list(rows([data], file="f", line_cap_bytes=cap))
    assert list(rows(chunks, file="f", line_cap_bytes=cap)) == whole
    assert list(rows([data[i : i + 1] for i in range(len(data))], file="f", line_cap_bytes=cap)) == whole


@given(st.binary(max_size=300))
@example(b"\xff\xfe")
@example(b'{"a":"\\ud800"}')
@example(b"\n\x00\n")
def test_no_bytes_raise_and_every_line_that_is_not_blank_is_answered(data: bytes) -> None:
    answered = [r.line for r in rows([data], file="f")]
    assert answered == [n for n, line in enumerate(data.split(b"\n"), 1) if line and not line.isspace()]


keys = st.sampled_from(["t", "x", "y", "x ", ":", ""])
members = st.lists(
    st.tuples(keys, st.sampled_from(["1", '":"', '"\\""', '{"x":1}', '{"x":1,"x":1}', '[{"y":"t"}]'])), max_size=5
)


@given(members, st.sampled_from([":", " :", ": "]))
def test_a_key_said_twice_is_always_seen(parts: list[tuple[str, str]], colon: str) -> None:
    body = ",".join(f'"{key}"{colon}{value}' for key, value in [("event", '"e"'), *parts])
    names = [key for key, _ in parts]
    twice = len(set(names)) < len(names) or any(value == '{"x":1,"x":1}' for _, value in parts)
    (found,) = read(f"{{{body}}}".encode())
    assert isinstance(found, Defect)  # no part is a time
    assert (found.kind == "duplicate-key") == twice


def test_rows_of_several_files_merge_by_time_whatever_their_order() -> None:
    def file(name: str, *seconds: int) -> list[Row]:
        lines = "".join(f'{{"t":"2026-11-29T12:00:{s:02}Z","event":"{name}{s}"}}\n' for s in seconds)
        return [r for r in rows([lines.encode()], file=name) if isinstance(r, Row)]

    merged = by_time(file("b", 3, 1), file("a", 2, 3))
    assert [row.event for row in merged] == ["b1", "a2", "b3", "a3"]


def test_order_is_information_with_its_first_lines() -> None:
    watch = OrderWatch(keep=1)
    for row in rows(
        [
            b'{"t":"2026-11-29T12:00:02Z","event":"a"}\n'
            b'{"t":"2026-11-29T12:00:01.5Z","event":"a"}\n'
            b'{"t":"2026-11-29T12:00:02Z","event":"a"}\n'
            b'{"t":"2026-11-29T12:00:00Z","event":"a"}\n'
        ],
        file="f",
    ):
        assert isinstance(row, Row)
        watch.see(row)
    assert watch.count == 2
    assert watch.worst_ns == 2_000_000_000
    assert [(d.line, d.kind, d.found) for d in watch.first] == [
        (2, "unordered", "a time 0.500000 s before a line above it")
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"password=hunter2",  # no JSON
        b'{"password": hunter2}',  # torn behind the name that tells
        b'{"a": 1} {"token": "hunter2"}',
        b'{"token": "hunter2"',
        b'{"a": hunter2-sk-abcdefgh}',
        b'{"hunter2 sk-abcdefgh": 1, "hunter2 sk-abcdefgh": 2}',
        b'{"event": "e", "t": "token=hunter2"}',
    ],
)
def test_what_is_quoted_of_a_damaged_line_is_no_secret(line: bytes) -> None:
    (found,) = read(line + b"\n")
    assert isinstance(found, Defect)
    assert "sk-abc" not in found.found
    assert "hunter2" not in found.found or b"sk-" in line


@pytest.mark.parametrize(
    ("line", "may_be"),
    [
        (b'{"t":"2026-11-29T12:00:00Z","event":"model_ok","id":', ("model_ok",)),
        # The line of a killed writer, and what the next one wrote behind it.
        (
            b'{"t":"2026-11-29T12:00:00Z","event":"model_ok","id"{"t":"2026-11-29T12:00:01Z","event":"guard_decision"}',
            ("model_ok", "guard_decision"),
        ),
        (b'{"t":"2026-11-29T12:00:00Z","event":"note","event":"guard_decision"}', ("note", "guard_decision", "")),
        (b'{"t":"2026-11-29T12:00:00Z","event":"note","\\u0065vent":"guard_decision"}', ("note", "")),
        (b'{"t":"2026-11-29T12:00:00Z","event":"note","kind":"a","kind":"b"}', ("note",)),
        (b"no JSON at all", ("",)),
    ],
)
def test_a_damaged_line_names_every_event_that_it_may_be(line: bytes, may_be: tuple[str, ...]) -> None:
    (defect,) = read(line)
    assert isinstance(defect, Defect) and defect.may_be == may_be
