"""A transcript is complete or it is not, and each way of not being so has its name."""

import hashlib
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.rules.transcripts import LINE_CAP_BYTES, Census, census, collect, draw

T = "2026-12-01T08:00:00.000001Z"


def line(seq: int, kind: str, mission: str = "m1", **more: Any) -> dict[str, Any]:
    return {"t": T, "mission": mission, "run": "r1", "seq": seq, "kind": kind, **more}


def whole(mission: str = "m1", users: int = 1, **more: Any) -> list[dict[str, Any]]:
    said = [line(0, "started", mission, **more)]
    said += [line(1 + n, "user", mission, body="Refund order #17", **more) for n in range(users)]
    return [*said, line(users + 1, "ended", mission, lines=users + 2, ok=True, **more)]


def data(said: Iterable[dict[str, Any] | bytes]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in said)


def of(said: Iterable[dict[str, Any] | bytes], started: dict[str, int] | None = None, *more: bytes) -> Census:
    files = [
        ("transcripts/a.ndjson", [data(said)]),
        *((f"transcripts/{n}.ndjson", [one]) for n, one in enumerate(more)),
    ]
    return census(collect(files, run="r1"), {"m1": 1} if started is None else started, run="r1")


def without(said: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
    return said[:at] + said[at + 1 :]


W = whole()
TORN = json.dumps(W[2]).encode()[:40]


@pytest.mark.parametrize(
    ("said", "steps", "why"),
    [
        ([], 1, "missing"),
        ([b"\n", b"{}\n", b"\xff\n"], 1, "missing"),
        (whole("m2"), 1, "missing"),
        (without(W, 0), 1, "gap"),
        (without(W, 1), 1, "gap"),
        (without(W, 2), 1, "no-end"),
        ([*W[:2], TORN], 1, "no-end"),  # its writer was killed
        ([W[0], W[2], W[1]], 1, "gap"),
        ([W[0], W[1], W[1], W[2]], 1, "gap"),
        ([*W, W[1]], 1, "gap"),  # behind its end
        ([line(0, "user"), line(1, "ended", lines=2, ok=True)], 1, "gap"),  # no start
        ([W[0], line(1, "started"), line(2, "ended", lines=3, ok=True)], 1, "gap"),
        ([*W[:2], {**W[2], "lines": 4}], 1, "count"),
        ([*W[:2], {**W[2], "lines": 2}], 1, "count"),
        ([*W[:2], {k: v for k, v in W[2].items() if k != "ok"}], 1, "count"),
        ([{**one, "run": "r0"} for one in W], 1, "another-run"),
        ([*W[:2], {**W[2], "run": "r0"}], 1, "another-run"),
        ([{k: v for k, v in one.items() if k != "run"} for one in W], 1, "another-run"),
        ([W[0], line(1, "ended", lines=2, ok=True)], 1, "too-few"),
        (W, 2, "too-few"),
        ([*W, *W], 1, "twice"),
        ([*W, W[0]], 2, "no-end"),
        ([W[0], {**W[1], "more": True}, line(2, "answer"), line(3, "ended", lines=4, ok=True)], 1, "gap"),
        ([W[0], {**W[1], "more": True}, W[2]], 1, "gap"),
        ([*W[:2], {**W[2], "more": True}], 1, "count"),
        (W, 1, None),
        ([*W, *W], 2, None),
        (whole(users=3), 3, None),  # a WebSocket: one part, three messages
        ([W[0], {**W[1], "more": True}, line(2, "user"), line(3, "ended", lines=4, ok=True)], 1, None),
        ([W[0], W[1], line(2, "ended", lines=3, ok=False)], 1, None),  # that it went badly is told, wholly
    ],
)
def test_each_way_of_not_being_complete_has_its_name(
    said: list[dict[str, Any] | bytes], steps: int, why: str | None
) -> None:
    (told,) = of(said, {"m1": steps}).missions
    assert told.why == why


def test_a_line_that_was_lost_belongs_to_one_mission_and_hurts_no_other() -> None:
    mixed = [whole(f"m{n}", users=3)[at] for at in range(5) for n in range(4)]
    said: list[dict[str, Any] | bytes] = [*mixed[:5], json.dumps(mixed[5]).encode()[:30] + b"\n", *mixed[6:]]
    found = of(said, {f"m{n}": 1 for n in range(4)})
    assert [(one.mission, one.why) for one in found.lacking] == [("m1", "gap")]
    assert (found.spoilt, found.first_spoilt[0].line, found.complete, found.expected) == (1, 6, 3, 4)


@pytest.mark.parametrize(
    "spoilt",
    [
        b'{"t":"' + T.encode() + b'","mission":"m1","run":"r0","run":"r1","seq":1,"kind":"user"}\n',
        b'{"t":"' + T.encode() + b'","mission":"m2","mission":"m1","run":"r1","seq":1,"kind":"user"}\n',
        b'{"t":"' + T.encode() + b'","mission":"m1","run" : "r0","run":"r1","seq":1,"kind":"user"}\n',
        b'{"t":"' + T.encode() + b'","mission":"m1","r\\u0075n":"r0","run":"r1","seq":1,"kind":"user"}\n',
        b'{"t":"yesterday","mission":"m1","run":"r1","seq":1,"kind":"user"}\n',
        b'{"t":"2026-12-01T08:00:00","mission":"m1","run":"r1","seq":1,"kind":"user"}\n',
        b'{"t":"' + T.encode() + b'","mission":"m1","run":"r1","seq":"1","kind":"user"}\n',
        b'{"t":"' + T.encode() + b'","mission":"m1","run":"r1","seq":1,"kind":"User"}\n',
        b'[{"t":"' + T.encode() + b'","mission":"m1","run":"r1","seq":1,"kind":"user"}]\n',
        json.dumps(line(1, "user", body="x" * LINE_CAP_BYTES)).encode() + b"\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_line_that_says_a_thing_twice_or_is_none_is_the_gap_of_its_mission(spoilt: bytes) -> None:
    found = of([W[0], spoilt, {**W[2], "seq": 2}])
    assert (found.spoilt, [one.why for one in found.lacking]) == (1, ["gap"])


def test_names_of_ours_within_what_somebody_said_are_nobodys_lines() -> None:
    said = [W[0], {**W[1], "arguments": {"kind": "x", "seq": 3, "run": "r9"}, "body": '{"run":"a","run":"b"}'}, W[2]]
    assert of(said).lacking == ()


def test_two_writers_tell_one_mission_together() -> None:
    found = of(whole(), {"m1": 2}, data(whole(part="7")))
    assert (found.complete, found.missions[0].parts, found.files) == (1, 2, 2)


def test_one_writer_works_on_a_mission_twice_at_once_where_parts_have_names() -> None:
    both = [one for pair in zip(whole(part="1"), whole(part="2"), strict=True) for one in pair]
    assert of(both, {"m1": 2}).complete == 1
    assert of([{k: v for k, v in one.items() if k != "part"} for one in both], {"m1": 2}).complete == 0


def test_what_was_never_sent_is_not_asked_for_and_what_nobody_started_is_told() -> None:
    found = of([*whole(), *whole("x9")], {"m1": 1, "m2": 0})
    assert (found.expected, found.complete, found.unsent, found.strangers, found.first_strangers) == (
        1,
        1,
        1,
        1,
        ("x9",),
    )


def test_losses_that_a_writer_admits_are_counted() -> None:
    assert of([{"t": T, "run": "r1", "kind": "lost", "lines": 3}, *W]).lost == 3


@settings(max_examples=60)
@given(st.lists(st.integers(1, 400), max_size=30), st.randoms(use_true_random=False))
def test_any_cutting_of_the_bytes_gives_the_same_answer(cuts: list[int], chance: random.Random) -> None:
    said: list[dict[str, Any] | bytes] = [
        *whole("m1", users=2),
        *whole("m2"),
        {**W[0], "mission": "m3"},
        b"\n{torn\n",
        *whole("m4"),
    ]
    chance.shuffle(said[6:])
    text, pieces = data(said), []
    for cut in cuts:
        pieces.append(text[:cut])
        text = text[cut:]
    started = {f"m{n}": 1 for n in range(1, 6)}
    found = census(collect([("a", [*pieces, text])], run="r1"), started, run="r1")
    assert found == census(collect([("a", [data(said)])], run="r1"), started, run="r1")


def test_a_draw_is_repeated_by_anybody_with_a_digest() -> None:
    names = [f"m{n}" for n in range(1, 200)]
    by_hand = sorted(names, key=lambda one: hashlib.sha256(f"42:{one}".encode()).hexdigest())[:20]
    assert draw(reversed(names), 42, 20) == tuple(by_hand) == draw([*names, *names], "42", 20)
    assert draw(names, 42, 3) == ("m45", "m65", "m5")  # pinned: another machine, another language
    assert draw(names, 43, 20) != tuple(by_hand)
    assert sorted(draw(["m1", "m2"], 1, 20)) == ["m1", "m2"]
