"""What of two tellings counts, what may differ, and which difference is the first."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.rules.divergence import Difference, Normal, Said, ToolSaid, difference, first_divergence, folded

ID1, ID2 = "5a2c8a3e-8f0d-4f7a-9a51-0d8b2d2b6a11", "0d8b2d2b-8f0d-4f7a-9a51-5a2c8a3e6a11"


def said(answer: Any = None, *, status: int | None = 200, tools: list[ToolSaid] | None = None) -> Said:
    data = None if answer is None else answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    return Said(tools=None if tools is None else tuple(tools), status=status, answer=data)


def call(tool: str, ok: bool = True, **arguments: Any) -> ToolSaid:
    return ToolSaid(tool=tool, arguments=arguments, ok=ok)


def first(old: Said, new: Said, given: str = "Refund order #17") -> Difference | None:
    return first_divergence([old], [new], given=given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ("Done.  It is\nrefunded", "Done. It is refunded"),
        ({"id": ID1, "again": ID1}, {"id": ID2, "again": ID2}),
        ({"text": f"your ticket is {ID1}"}, {"text": f"your ticket is {ID2}"}),
        ({"at": "2026-12-01T08:00:00Z"}, {"at": "2026-12-04T16:30:01.5+01:00"}),
        ({"created": 1764576000}, {"created": 1764576999}),
        ({"took_ms": 12.5, "latencyMs": 3}, {"took_ms": 900, "latencyMs": 4}),
        ({"id": "chatcmpl-8f0d4f7a9a51"}, {"id": "chatcmpl-0d8b2d2b6a11"}),
        ({"trace": "4bf92f3577b34da6a3ce929d0e0e4736"}, {"trace": "00f067aa0ba902b7a3ce929d0e0e4736"}),
        ({"token": "*****"}, {"token": "**************"}),
        (None, None),
    ],
)
def test_what_is_made_anew_or_written_otherwise_is_no_difference(old: Any, new: Any) -> None:
    assert first(said(old), said(new)) is None


@pytest.mark.parametrize(
    ("old", "new", "where", "recorded", "now"),
    [
        ({"order": 17}, {"order": 18}, "/order", "17", "18"),
        ({"order": "17"}, {"order": 17}, "/order", "17", "17"),
        ({"ok": True}, {"ok": 1}, "/ok", "true", "1"),
        ({"a": None}, {"a": 0}, "/a", "null", "0"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "/a/b/1", "2", "3"),
        ({"a": [1]}, {"a": [1, 2]}, "/a", "1 items", "2 items"),
        ({"a": 1}, {"a": 1, "c": 2}, "/c", "nothing", "2"),
        ({"a": 1, "c": 2}, {"a": 1}, "/c", "2", "nothing"),
        ({"text": "it is refunded"}, {"text": "it is not refunded"}, "/text, word 3", "refunded", "not refunded"),
        ("one two", "one", "word 2", "two", "nothing"),
        # the same id in two places, and now two
        ({"id": ID1, "again": ID1}, {"id": ID1, "again": ID2}, "/id, word 1", "<id-1>", "<id-2>"),
        ({"amount": 20}, {"amount": 2000}, "/amount", "20", "2000"),
        ({"price_at": 5}, {"price_at": 6}, "/price_at", "5", "6"),  # no time
    ],
)
def test_a_difference_has_a_place_and_both_sides(old: Any, new: Any, where: str, recorded: str, now: str) -> None:
    found = first(said(old), said(new))
    assert found is not None
    assert (found.what, found.where, found.recorded, found.now) == ("answer", where, recorded, now)


def test_what_the_user_said_is_compared_as_it_is() -> None:
    old, new = {"order_id": ID1}, {"order_id": ID2}
    assert first(said(old), said(new), given=f"refund {ID1} or {ID2}") is not None
    assert first(said(old), said(new), given="refund it") is None


def test_the_order_is_tools_then_status_then_answer() -> None:
    old = said({"a": 1}, tools=[call("refund", order=17)])
    worst = said({"a": 2}, status=500, tools=[call("credit", order=18)])
    assert first(old, worst) == Difference(message=1, what="tool", where="call 1", recorded="refund", now="credit")
    found = first(old, said({"a": 2}, status=500, tools=[call("refund", order=18)]))
    assert found == Difference(message=1, what="arguments", where="call 1 of refund: /order", recorded="17", now="18")
    assert first(old, said({"a": 2}, status=500, tools=[call("refund", order=17)])).what == "status"  # type: ignore[union-attr]
    assert first(old, said({"a": 2}, tools=[call("refund", order=17)])).what == "answer"  # type: ignore[union-attr]
    assert first(old, said({"a": 1}, tools=[])) == Difference(
        message=1, what="tool", where="call 1", recorded="refund", now="no further call"
    )
    assert first(old, said(None, tools=[call("refund", order=17)])).now == "no answer"  # type: ignore[union-attr]


def test_attempts_of_one_call_count_once_and_tools_that_were_not_seen_not_at_all() -> None:
    recovered = said({"a": 1}, tools=[call("refund", ok=False, order=17), call("refund", order=17)])
    assert first(recovered, said({"a": 1}, tools=[call("refund", order=17)])) is None
    assert first(recovered, said({"a": 1})) is None
    twice = said({"a": 1}, tools=[call("refund", order=17), call("refund", order=17)])
    assert first(recovered, twice) is not None  # it paid twice


def test_the_first_message_that_differs_is_named_and_so_is_one_that_is_missing() -> None:
    same, other = said({"a": 1}), said({"a": 2})
    assert first_divergence([same, same, other], [same, other, same], given="").message == 2  # type: ignore[union-attr]
    found = first_divergence([same, same], [same], given="")
    assert found is not None
    assert (found.message, found.what) == (2, "message")


WORDS = ["I ", "will ", "refund ", "order ", "#17", "."]


def stream(words: list[str], name: str = "chatcmpl-8f0d4f7a9a51") -> list[bytes]:
    events = [
        {"id": name, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in words
    ]
    end = {"id": name, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [f"data: {json.dumps(event)}\n\n".encode() for event in [*events, end]] + [b"data: [DONE]\n\n"]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 26), max_size=6), st.lists(st.integers(0, 900), max_size=6))
def test_how_a_stream_is_cut_does_not_count(cuts: list[int], edges: list[int]) -> None:
    text = "".join(WORDS)
    at = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    words = [text[a:b] for a, b in pairwise(at)]
    whole = b"".join(stream(words, "chatcmpl-0d8b2d2b6a11"))
    marks = sorted({min(edge, len(whole)) for edge in edges} | {0, len(whole)})
    pieces = tuple(whole[a:b] for a, b in pairwise(marks))
    old = Said(tools=None, status=200, answer=b"".join(stream(WORDS)), pieces=tuple(stream(WORDS)))
    new = Said(tools=None, status=200, answer=whole, pieces=pieces)
    assert first_divergence([old], [new], given="") is None


def test_a_stream_that_says_something_else_or_ends_otherwise_is_a_difference() -> None:
    old = Normal("").value(folded(stream(WORDS)))
    other = difference(old, Normal("").value(folded(stream([*WORDS[:2], "not ", *WORDS[2:]]))))
    assert other is not None
    assert (other[1].split()[0], other[2].split()[0]) == ("refund", "not")
    assert difference(old, Normal("").value(folded(stream(WORDS)[:-2]))) is not None  # no finish_reason


def test_frames_are_put_together_and_their_kinds_kept_in_order() -> None:
    def frames(words: list[str]) -> list[bytes]:
        said_ = [{"type": "word", "text": word} for word in words] + [{"type": "done", "refund": 20}]
        return [json.dumps(one).encode() for one in said_]

    assert folded(frames(["a b ", "c"])) == folded(frames(["a ", "b ", "c"]))
    assert folded(frames(["a"])) != folded([*frames(["a"]), b'{"type":"error","text":""}'])
