"""Rules at a real proxy: whom each meets, how several compose, what the evidence says of them."""

import hashlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.errors import Problem
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e


def echo(reader: Reader, sock: socket.socket) -> None:
    """Answer each request with its own body."""
    while (message := reader.request()) is not None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(message.body))
        sock.sendall(message.body)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[ProxyProcess]:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url, seed=11) as one:
        yield one
    origin.close()


@pytest.fixture
def echoing(tmp_path: Path) -> Iterator[ProxyProcess]:
    origin = Origin(echo)
    with proxy(tmp_path, upstream=origin.url, seed=11) as one:
        yield one
    origin.close()


def put_on(ours: ProxyProcess, *rules: dict[str, Any], window: str = "w1", **more: Any) -> None:
    ours.ask("POST", "/inject", {"window": window, "rules": list(rules), "ttl_s": 30, **more})


def ask(ours: ProxyProcess, body: bytes = b"{}", *fields: bytes, path: bytes = b"/v1/chat/completions") -> int | None:
    """The status of one request on a connection of its own; None: no answer."""
    with ours.connect() as sock:
        sock.sendall(post(body, *fields, path=path))
        try:
            answer = Reader(sock).answer()
        except ConnectionError:
            return None
        return None if answer is None else answer.status


def chat(model: str = "m", *, stream: bool = False, **more: Any) -> bytes:
    return json.dumps({"messages": [], "model": model, "stream": stream, **more}).encode()


def test_each_matcher_tells_two_requests_apart(ours: ProxyProcess) -> None:
    cases: list[tuple[dict[str, Any], tuple[Any, ...], tuple[Any, ...]]] = [
        ({"model": "gpt-4o*"}, (chat("gpt-4o-mini"),), (chat("o3"),)),
        ({"stream": True}, (chat(stream=True),), (chat(),)),
        ({"stream": False}, (chat(),), (chat(stream=True),)),
        ({"tools": True}, (chat(tools=[{"type": "function"}]),), (chat(tools=[]),)),
        ({"header": {"X-Tenant": "blue*"}}, (b"{}", b"x-tenant: blue-2"), (b"{}", b"X-Tenant: red")),
        ({"header": {"host": "x"}, "method": "POST"}, (b"{}",), ()),
        (
            {"key": hashlib.sha256(b"sk-test-1").hexdigest()[:16]},
            (b"{}", b"Authorization: Bearer sk-test-1"),
            (b"{}", b"x-api-key: sk-test-2"),
        ),
        ({"dialect": "anthropic"}, (b"{}", b"anthropic-version: 2023-06-01"), (b"{}",)),
    ]
    for number, (when, fits, other) in enumerate(cases):
        put_on(ours, {"mode": 503, "when": when}, window=f"w{number}")
        path = b"/v1/messages" if when.get("dialect") else b"/v1/chat/completions"
        assert ask(ours, *fits, path=path) in (503, 529), when
        if other:
            assert ask(ours, *other) == 200, when
        ours.lift(f"w{number}")


def test_rules_that_act_in_turn_all_act_and_the_first_answer_ends_it(ours: ProxyProcess) -> None:
    put_on(
        ours,
        {"mode": "first-byte-delay", "params": {"delay_ms": 150}, "name": "slow"},
        {"mode": "rate-limit", "when": {"stream": True}, "name": "busy", "params": {"form": "none"}},
        {"mode": 503, "when": {"stream": True}, "name": "never"},
    )
    before = time.monotonic()
    assert ask(ours, chat(stream=True)) == 429
    assert time.monotonic() - before >= 0.15
    before = time.monotonic()
    assert ask(ours, chat()) == 200
    assert time.monotonic() - before >= 0.15
    ours.lift()
    met = [(row["rule"], row["attempt"]) for row in ours.rows("fault_met")]
    assert [rule for rule, _ in met] == ["slow", "busy", "slow"]
    assert met[0][1] == met[1][1] != met[2][1]
    tallies = {row["rule"]: row for row in ours.wait_rows("fault_rule_tally", 3)}
    assert [
        (tallies[name]["matched"], tallies[name]["taken"], tallies[name]["met"]) for name in ("slow", "busy", "never")
    ] == [
        (2, 2, 2),
        (1, 1, 1),
        (1, 1, 0),
    ]
    attempts = ours.wait_rows("attempt", 2)
    assert [(row["status"], row["window"]) for row in attempts] == [(429, "w1"), (200, "w1")]
    assert ours.state()["counts"]["met"] == 2


def test_a_request_that_no_rule_takes_is_relayed_untouched_whatever_its_size(echoing: ProxyProcess) -> None:
    put_on(echoing, {"mode": "reset", "when": {"model": "none-like-this"}})
    for size in (0, 10, 70_000, 300_000, 5_000_000):
        body = random.Random(size).randbytes(size)
        with echoing.connect() as sock:
            sender = threading.Thread(target=sock.sendall, args=(post(body),))
            sender.start()
            answer = Reader(sock).answer()
            sender.join()
            assert answer is not None
            assert answer.body == body
    assert [row["window"] for row in echoing.wait_rows("attempt", 5)] == [None] * 5
    assert echoing.state()["counts"]["held"] == 0


def test_a_rule_that_needs_a_body_too_large_to_wait_for_leaves_it_alone_and_says_so(echoing: ProxyProcess) -> None:
    put_on(
        echoing,
        {"mode": "reset", "share": 0.999999},
        {"mode": "rate-limit", "params": {"form": "none"}, "when": {"method": "GET"}},
    )
    body = bytes(17 * 1024 * 1024)
    with echoing.connect() as sock:
        sender = threading.Thread(target=sock.sendall, args=(post(body),))
        sender.start()
        answer = Reader(sock).answer()
        sender.join()
        assert answer is not None
        assert answer.body == body
    echoing.lift()
    first, second = echoing.wait_rows("fault_rule_tally", 2)
    assert (first["undecided"], first["matched"]) == (1, 0)
    assert (second["undecided"], second["saw"]) == (0, ["POST /v1/chat/completions"])


def test_the_body_may_come_slowly_and_the_head_alone_may_decide(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": 503, "when": {"model": "m"}})
    with ours.connect() as sock:
        wire = post(chat())
        for at in range(0, len(wire), 7):
            sock.sendall(wire[at : at + 7])
            time.sleep(0.002)
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 503
        sock.sendall(post(chat("other")))
        answer = Reader(sock).answer()  # the same connection, another fate
        assert answer is not None
        assert answer.body == CHAT
    ours.lift()
    put_on(ours, {"mode": "reset", "when": {"path": "/v1/*"}}, window="w2")
    with ours.connect() as sock:
        sock.sendall(post(bytes(100))[:-50])  # its body will never be whole
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_a_lift_while_rules_wait_for_a_body_lets_the_request_through(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": "reset", "when": {"model": "*"}})
    with ours.connect() as sock:
        wire = post(chat())
        sock.sendall(wire[:-3])
        ours.until(lambda state: state["counts"]["held"] == 1)
        ours.lift()
        ours.until(lambda state: state["counts"]["held"] == 0)
        sock.sendall(wire[-3:])
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.body == CHAT


def test_a_client_that_leaves_while_rules_wait_frees_everything(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": "reset", "when": {"model": "*"}})
    sock = ours.connect()
    sock.sendall(post(chat())[:-3])
    ours.until(lambda state: state["counts"]["held"] == 1)
    sock.close()
    ours.until(lambda state: state["counts"]["held"] == 0 and state["counts"]["in_flight"] == 0)


def test_expect_continue_is_answered_where_the_body_decides(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": 503, "when": {"model": "m"}})
    head, _, body = post(chat(), b"Expect: 100-continue").partition(b"\r\n\r\n")
    with ours.connect() as sock:
        sock.sendall(head + b"\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 100")
        sock.sendall(body)
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 503


def test_a_seed_gives_each_request_its_fate_in_any_order_and_on_any_connection(tmp_path: Path) -> None:
    bodies = [chat("m", user=f"u{n % 60}") for n in range(120)]
    rules = (
        {"mode": 503, "share": 0.3, "name": "a"},
        {"mode": "rate-limit", "params": {"form": "none"}, "share": 0.5, "name": "b"},
        {"mode": "reset", "share": 0.2, "name": "c"},
    )

    def fates(folder: Path, order: list[int], seed: int) -> list[tuple[bytes, int | None]]:
        folder.mkdir()
        origin = Origin(plain_answer)
        out: list[tuple[bytes, int | None]] = []
        try:
            with proxy(folder, upstream=origin.url, seed=seed) as one:
                put_on(one, *rules)
                lock, left = threading.Lock(), order.copy()

                def work() -> None:
                    while True:
                        with lock:
                            if not left:
                                return
                            number = left.pop()
                        got = (bodies[number], ask(one, bodies[number]))
                        with lock:
                            out.append(got)

                threads = [threading.Thread(target=work) for _ in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            origin.close()
        return sorted(out, key=repr)

    order = list(range(120))
    first = fates(tmp_path / "1", order, 11)
    random.Random(5).shuffle(order)
    assert fates(tmp_path / "2", order, 11) == first
    assert {status for _, status in first} == {200, 503, 429, None}
    assert fates(tmp_path / "3", order, 12) != first


def test_what_is_put_on_and_what_came_of_it_is_in_the_evidence(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": 503, "when": {"header": {"x-tenant": "blue"}}, "first": 2, "name": "blue"}, {"mode": "reset"})
    for _ in range(3):
        ask(ours, b"{}", b"x-tenant: blue")
    ours.lift()
    rows = ours.rows()
    names = [row["event"] for row in rows]
    assert names.index("fault_rule") < names.index("fault_injected")
    rule = ours.rows("fault_rule")
    assert {key: rule[0][key] for key in ("window", "rule", "fault", "when", "first")} == {
        "window": "w1",
        "rule": "blue",
        "fault": "503",
        "when": {"header": {"x-tenant": "blue"}},
        "first": 2,
    }
    assert (rule[1]["rule"], rule[1]["fault"]) == ("r2", "reset")
    assert (ours.rows("fault_injected")[0]["fault"], ours.rows("fault_injected")[0]["rules"]) == ("503 + reset", 2)
    tallies = ours.wait_rows("fault_rule_tally", 2)
    assert [(row["matched"], row["counted"], row["taken"], row["met"]) for row in tallies] == [
        (3, 3, 2, 2),
        (3, 3, 3, 1),
    ]


@pytest.mark.parametrize(
    "order",
    [
        {"rules": [{"mode": "reset", "share": 2}]},
        {"rules": [{"mode": "refused", "when": {"method": "GET"}}]},
        {"rules": [{"mode": "rst-on-accept"}, {"mode": "reset"}]},
        {"rules": [{"mode": "no-such-fault"}]},
        {"rules": [{"mode": "reset", "surprise": 1}]},
        {"rules": [{"mode": "reset", "params": {"surprise": 1}}]},
        {"rules": [{"mode": "reset"}], "fault": "reset"},
        {"rules": [{"mode": "reset"}], "params": {"a": 1}},
        {"rules": []},
        {},
    ],
)
def test_senseless_rules_are_refused_and_nothing_is_on(ours: ProxyProcess, order: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        ours.ask("POST", "/inject", {"window": "w1", "ttl_s": 30, **order})
    assert ours.state()["window"] is None
    assert ours.rows("fault_injected") == []
    assert ours.rows("fault_rule") == []
