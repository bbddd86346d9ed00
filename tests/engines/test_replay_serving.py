"""Which recorded exchange a request is served with, and what it is told when there is none."""

from typing import Any

from drillmaster.engines.replay_serving import Shelf
from drillmaster.transcripts.exchanges import Exchange


def exchange(number: int, path: str, asked: Any, *, begins: int, ends: int, **more: Any) -> Exchange:
    return Exchange(
        number=number, kind="model", tool="", method="POST", path=path, query=more.pop("query", ""), asked=asked, status=200,
        headers=(), pieces=((0.0, b"{}"),), wait_ms=0.0, whole=True, error="", begins=(0, begins), ends=(0, ends),
    )  # fmt: skip  # one value


def served(shelf: Shelf, path: str, body: bytes) -> int | None:
    found, told = shelf.take("POST", path, body)
    assert (found is None) == bool(told.difference)
    return told.exchange


ONE = exchange(1, "/v1/chat", {"q": "a"}, begins=1, ends=2)
TWO = exchange(2, "/v1/chat", {"q": "b"}, begins=3, ends=6)
THREE = exchange(3, "/tool/crm", {"id": 7}, begins=4, ends=5)  # asked while the second was under way


def test_exchanges_are_served_in_their_order_and_begin_again_behind_the_last() -> None:
    shelf = Shelf([ONE, TWO], "")
    assert [served(shelf, "/v1/chat", body) for body in (b'{"q":"a"}', b'{"q": "b"}', b'{"q":"a"}')] == [1, 2, 1]
    assert (shelf.told.rounds, shelf.told.served, shelf.told.diverged) == (1, 3, 0)


def test_one_that_is_asked_too_early_is_a_difference_that_changes_nothing() -> None:
    shelf = Shelf([ONE, TWO], "")
    found, told = shelf.take("POST", "/v1/chat", b'{"q":"b"}')
    assert (found, told.status) == (None, 409)
    assert told.difference == "exchange 1 (model): /q, word 1: recorded a, now b"
    assert served(shelf, "/v1/chat", b'{"q":"a"}') == 1


def test_what_was_under_way_at_the_same_time_may_be_asked_in_any_order() -> None:
    shelf = Shelf([ONE, TWO, THREE], "")
    asked = [("/v1/chat", b'{"q":"a"}'), ("/tool/crm", b'{"id":7}'), ("/v1/chat", b'{"q":"b"}')]
    assert [served(shelf, path, body) for path, body in asked] == [1, 3, 2]
    assert shelf.told.rounds == 1


def test_a_request_of_the_beginning_begins_again() -> None:
    shelf = Shelf([ONE, TWO], "")
    assert served(shelf, "/v1/chat", b'{"q":"a"}') == 1
    _, told = shelf.take("POST", "/v1/chat", b'{"q":"a"}')
    assert (told.exchange, told.begun_again) == (1, True)


def test_another_path_method_or_query_is_named() -> None:
    shelf = Shelf([exchange(1, "/v1/chat", None, begins=1, ends=2, query="key=*****&alt=sse")], "")
    assert (
        "path or method: recorded POST /v1/chat, now GET /v1/chat"
        in shelf.take("GET", "/v1/chat?alt=sse", b"")[1].difference
    )
    assert "path or method" in shelf.take("POST", "/v2/chat?key=x&alt=sse", b"")[1].difference
    assert "query /alt" in shelf.take("POST", "/v1/chat?key=abcdef", b"")[1].difference


def test_keys_that_differ_are_no_difference() -> None:
    key = "sk-" + "ant-Zq81mNvXw27LpTd5"
    shelf = Shelf([exchange(1, "/v1/chat", {"api_key": "*" * 30, "q": "a"}, begins=1, ends=2)], "")
    assert served(shelf, "/v1/chat", f'{{"api_key":"{key}","q":"a"}}'.encode()) == 1
