"""Sessions, pauses and waits of the engine beside what the server itself saw: who asked what, when, on which connection."""

import itertools
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.engines.pacing import pause_ns
from drillmaster.engines.shots import Deck
from drillmaster.evidence.samples import OUTCOMES, Sample
from tests.e2e.test_engine import SSE, Lab, Ran, answer, origin
from tests.e2e.wirelab import Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

BUSY = b"429 Too Many Requests"
ROUNDING_S = 1e-6
"""The server stamps before it sends an answer and after it has read a request, by the clock that the client has: what comes sooner
than the wait came too early. Seconds as floats are cut somewhere.
"""


class Seen:
    """What a server saw of one request."""

    def __init__(self, conn: int, body: str, read_s: float) -> None:
        self.conn = conn
        self.body = body
        self.read_s = read_s
        self.answered_s = 0.0


class Server:
    """Answers as its law says, and keeps what it saw. A law is given the request and its number; None closes."""

    def __init__(self, law: Callable[[Seen, int], bytes | None] = lambda seen, number: answer()) -> None:
        self.seen: list[Seen] = []
        self._law = law
        self._lock = threading.Lock()
        self._conns = 0

    def handle(self, reader: Reader, sock: socket.socket) -> None:
        with self._lock:
            self._conns += 1
            conn = self._conns
        while (message := reader.request()) is not None:
            one = Seen(conn, message.body.decode(), time.monotonic())
            with self._lock:
                number = len(self.seen)
                self.seen.append(one)
            wire = self._law(one, number)
            one.answered_s = time.monotonic()
            if wire is None:
                return
            sock.sendall(wire)

    def of(self, body: str) -> list[Seen]:
        return [one for one in self.seen if one.body == body]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield Lab(tmp_path)


def run(lab: Lab, server: Server, *stages: dict[str, Any], shot: dict[str, Any], **more: Any) -> Ran:
    with origin(server.handle) as port:
        ran = lab.run(port, *stages, shot=shot, **more)
    assert ran.code == 0
    assert ran.header["format"] == "drillmaster-samples-2"
    return ran


def asked(after_s: str, status: bytes = BUSY) -> bytes:
    return answer(b"{}", status).replace(b"\r\n\r\n", b"\r\nRetry-After: %b\r\n\r\n" % after_s.encode(), 1)


SESSIONS = {"payloads": ["a0 {n}", "a1 {n}", "a2 {n}", "b0 {n}", "b1 {n}"], "turns": [3, 2]}


def test_a_session_is_sent_by_one_caller_on_one_connection_turn_by_turn(lab: Lab) -> None:
    server = Server(lambda seen, number: (time.sleep(0.002), answer())[1])
    ran = run(lab, server, {"level": 4, "calls": 100}, shot=SESSIONS)
    assert ran.kinds == {"ok": 100}
    by_session: dict[str, list[Seen]] = {}
    for seen in server.seen:
        by_session.setdefault(seen.body.split()[1], []).append(seen)
    assert len(by_session) == 40
    assert {seen.conn for seen in server.seen} == {1, 2, 3, 4}
    for number, turns in by_session.items():
        assert [seen.body.split()[0] for seen in turns] == (
            ["a0", "a1", "a2"] if int(number) % 2 == 0 else ["b0", "b1"]
        )
        assert len({seen.conn for seen in turns}) == 1
        for before, after in itertools.pairwise(turns):
            assert before.answered_s <= after.read_s
    # What the records say is what the server saw.
    told = sorted((row.session, row.turn, row.payload) for row in ran.rows)
    assert told == sorted((n, t, t if n % 2 == 0 else 3 + t) for n in range(40) for t in range(3 if n % 2 == 0 else 2))
    assert {(row.attempts, row.waited_ns, row.paused_ns) for row in ran.rows} == {(1, 0, 0)}
    times = sorted((row.session, row.turn, row.due_ns, row.end_ns) for row in ran.rows)
    for (session, _, _, end_ns), (next_session, _, due_ns, _) in itertools.pairwise(times):
        assert session != next_session or end_ns <= due_ns


def test_a_number_of_calls_is_that_of_turns_and_one_session_is_cut_short(lab: Lab) -> None:
    server = Server()
    ran = run(lab, server, {"level": 2, "calls": 12}, shot=SESSIONS)
    assert len(server.seen) == len(ran.rows) == 12
    turns = Counter(row.session for row in ran.rows)
    assert sum(count != (3 if session % 2 == 0 else 2) for session, count in turns.items()) == 1
    assert ran.ended("s0")["done"] == 12


def test_no_turn_begins_when_the_time_of_its_step_is_over(lab: Lab) -> None:
    server = Server(lambda seen, number: (time.sleep(0.05), answer())[1])
    ran = run(
        lab, server, {"level": 3, "seconds": 0.4}, shot={"payloads": [f"{turn}" for turn in range(60)], "turns": [60]}
    )
    assert set(ran.kinds) == {"ok"}
    assert len(server.seen) == len(ran.rows)
    began_ns = min(row.due_ns for row in ran.rows)
    assert max(row.due_ns for row in ran.rows) < began_ns + 400_000_000
    assert {row.session for row in ran.rows} == {0, 1, 2}


def test_the_first_turns_and_all_turns_on_their_own_can_be_taken_too(lab: Lab) -> None:
    server = Server()
    stages = [
        {"level": 2, "calls": 2, "takes": "first_turns"},
        {"level": 2, "calls": 10, "takes": "turns"},
        {"kind": "open", "level": 9, "rate_per_s": 100, "seconds": 0.1, "takes": "turns"},
    ]
    ran = run(lab, server, *stages, shot={**SESSIONS, "payloads": ["a0", "a1", "a2", "b0", "b1"]})
    of = [Counter(row.payload for row in ran.rows if row.stage == stage) for stage in range(3)]
    assert of == [{0: 1, 3: 1}, dict.fromkeys(range(5), 2), dict.fromkeys(range(5), 2)]
    assert all(row.turn == (row.payload if row.payload < 3 else row.payload - 3) for row in ran.rows)
    assert Counter(seen.body for seen in server.seen) == {"a0": 5, "a1": 4, "a2": 4, "b0": 5, "b1": 4}


def test_a_failed_turn_ends_its_session_and_the_turns_that_it_still_had_are_on_record(lab: Lab) -> None:
    # The second turn of every third session fails.
    def law(seen: Seen, number: int) -> bytes:
        turn, session = seen.body.split()
        return answer(b"{}", b"500 Oops") if turn == "t1" and int(session) % 3 == 0 else answer()

    server = Server(law)
    shot = {"payloads": [f"t{turn} {{n}}" for turn in range(4)], "turns": [4]}
    ran = run(lab, server, {"level": 3, "calls": 48}, shot=shot)
    assert ran.kinds == {"ok": 4 * 8 + 4, "http_5xx": 4, "unsent_turn": 8}
    assert len(server.seen) == 40
    assert not [
        seen for seen in server.seen if seen.body.split()[0] in ("t2", "t3") and int(seen.body.split()[1]) % 3 == 0
    ]
    for row in ran.rows:
        if OUTCOMES[row.outcome] == "unsent_turn":
            assert (row.sent_ns, row.status, row.attempts, row.session % 3) == (0, -1, 0, 0)
            assert row.turn in (2, 3) and row.payload == row.turn
            failed = next(one for one in ran.rows if (one.session, one.turn) == (row.session, 1))
            assert row.due_ns == row.end_ns == failed.end_ns
    assert ran.ended("s0")["done"] == 48
    assert ran.ended("s0")["failed"] == 12


def test_a_session_goes_on_where_its_connection_was_closed_in_order(lab: Lab) -> None:
    last = answer().replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    server = Server(lambda seen, number: last)
    ran = run(lab, server, {"level": 1, "calls": 6}, shot=SESSIONS | {"payloads": ["0", "1", "2", "0", "1"]})
    assert ran.kinds == {"ok": 6}
    assert [seen.body for seen in server.seen] == ["0", "1", "2", "0", "1", "0"]
    assert [seen.conn for seen in server.seen] == [1, 2, 3, 4, 5, 6]
    assert all(row.connect_ns > 0 and row.again == 0 for row in ran.rows)


def test_a_kept_connection_that_had_been_closed_is_replaced_and_the_turn_was_sent_once(lab: Lab) -> None:
    heard = 0

    def one_each(reader: Reader, sock: socket.socket) -> None:
        nonlocal heard
        if reader.request() is not None:
            heard += 1
            sock.sendall(answer())
            time.sleep(0.05)  # closes without having said so

    with origin(one_each) as port:
        ran = lab.run(port, {"level": 1, "calls": 6}, shot={"payloads": ["0", "1", "2"], "turns": [3]})
    assert ran.kinds == {"ok": 6}
    assert sum(row.again for row in ran.rows) >= 4
    assert [row.attempts for row in ran.rows] == [1] * 6
    assert heard == 6


@pytest.mark.parametrize("shot", [{"payloads": ["x"], "turns": [1]}, {"payloads": ["x"]}])
def test_a_new_connection_of_a_caller_is_new(lab: Lab, shot: dict[str, Any]) -> None:
    # Every second connection is closed unanswered: no kept one that had gone stale, and nobody to be asked again.
    server = Server(
        lambda seen, number: (
            answer().replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1) if seen.conn % 2 else None
        )
    )
    with origin(server.handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 6}, shot=shot)
    assert [OUTCOMES[row.outcome] for row in ran.rows] == ["ok", "cut"] * 3
    assert [row.again for row in ran.rows] == [0] * 6
    assert len(server.seen) == 6


@pytest.mark.parametrize("patient", [False, True])
def test_who_is_gone_at_the_next_call_refused_it_and_said_nothing(lab: Lab, patient: bool) -> None:
    first = asked("0.2") if patient else answer()
    listener = socket.create_server(("127.0.0.1", 0))

    def once() -> None:
        sock, _ = listener.accept()
        listener.close()
        with sock:
            Reader(sock).request()
            sock.sendall(first.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))

    thread = threading.Thread(target=once)
    thread.start()
    spec: dict[str, Any] = {"patience": {"max_attempts": 2, "max_wait_s": 1}, "shot": {"payloads": ["x"]}}
    ran = lab.run(listener.getsockname()[1], {"level": 1, "calls": 1 if patient else 2}, **spec)
    thread.join(5)
    last = ran.rows[-1]
    assert (OUTCOMES[last.outcome], last.status) == ("refused", -1)
    if patient:
        assert (last.attempts, last.waited_ns) == (1, 200_000_000)
        assert 0 < last.sent_ns < last.end_ns - 150_000_000
    else:
        assert (last.attempts, last.sent_ns, last.connect_ns, last.first_ns) == (0, 0, 0, 0)


@pytest.mark.parametrize("exponential", [False, True])
def test_a_caller_pauses_as_long_as_was_said_and_never_less(lab: Lab, exponential: bool) -> None:
    server = Server()
    pauses = {"turn_s": 0.03, "session_s": 0.08, "exponential": exponential}
    shot = {"payloads": ["t0 {n}", "t1 {n}", "t2 {n}"], "turns": [3]}
    ran = run(lab, server, {"level": 2, "calls": 30, "pauses": pauses}, shot=shot, seed=7)
    assert ran.kinds == {"ok": 30}
    rows = {f"t{row.turn} {row.session}": row for row in ran.rows}
    late_s = []
    for conn in (1, 2):
        asked_there = [seen for seen in server.seen if seen.conn == conn]
        assert rows[asked_there[0].body].paused_ns == 0
        for before, seen in itertools.pairwise(asked_there):
            row = rows[seen.body]
            mean_s = 0.03 if row.turn else 0.08
            drawn_by = f"7/{row.session}/{row.turn}" if exponential else None
            assert row.paused_ns == pause_ns(mean_s, drawn_by)
            late_s.append(seen.read_s - before.answered_s - row.paused_ns / 1e9)
            assert row.sent_ns >= row.due_ns
            assert row.due_ns - rows[before.body].end_ns == row.paused_ns
    assert min(late_s) >= -ROUNDING_S
    assert sorted(late_s)[len(late_s) // 2] < 0.05
    if exponential:
        assert len({row.paused_ns for row in ran.rows}) == 29


def test_a_connection_that_closes_in_a_pause_is_opened_anew(lab: Lab) -> None:
    def one_each(reader: Reader, sock: socket.socket) -> None:
        if reader.request() is not None:
            sock.sendall(answer())
            time.sleep(0.05)  # closes without having said so

    with origin(one_each) as port:
        ran = lab.run(port, {"level": 2, "calls": 8, "pauses": {"session_s": 0.3}}, shot={"payloads": ["x"]})
    assert ran.kinds == {"ok": 8}
    assert all(row.connect_ns > 0 and row.again == 0 and row.attempts == 1 for row in ran.rows)


def test_pauses_are_for_calls_on_their_own_too(lab: Lab) -> None:
    server = Server()
    ran = run(lab, server, {"level": 1, "calls": 4, "pauses": {"session_s": 0.05}}, shot={"payloads": ["x"]})
    assert [row.paused_ns for row in ran.rows] == [0, 50_000_000, 50_000_000, 50_000_000]
    assert all(b.read_s - a.answered_s >= 0.05 - ROUNDING_S for a, b in zip(server.seen, server.seen[1:], strict=False))


@pytest.mark.parametrize("turns", [None, [1] * 7])
def test_a_shuffled_set_is_asked_in_exact_parts_pass_by_pass(lab: Lab, turns: list[int] | None) -> None:
    server = Server()
    shot: dict[str, Any] = {"payloads": list("abcdefg"), "shuffled": True}
    if turns is not None:
        shot["turns"] = turns
    # The first stage leaves off within a pass; the second begins with a whole one.
    with origin(server.handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 3}, {"level": 1, "calls": 21}, shot=shot, seed=5)
    assert ran.kinds == {"ok": 24}
    heard = [seen.body for seen in server.seen]
    passes = ["".join(heard[3 + at : 10 + at]) for at in (0, 7, 14)]
    assert all(sorted(one) == list("abcdefg") for one in passes)
    assert len(set(passes)) == 3
    deck = Deck(7, 5)
    assert heard == ["abcdefg"[deck.place(number)] for number in (0, 1, 2, *range(7, 28))]
    assert ["abcdefg"[row.payload] for row in ran.rows] == heard


# Waits that the endpoint asks for


def waits(
    lab: Lab, server: Server, *stages: dict[str, Any], attempts: int = 3, max_wait_s: float = 5, **more: Any
) -> Ran:
    patience = {"max_attempts": attempts, "max_wait_s": max_wait_s}
    return run(lab, server, *stages, shot={"payloads": ["{n}"]}, patience=patience, **more)


def same_on_both_sides(ran: Ran, server: Server) -> None:
    """Each call was sent as often as the server heard it, and never before the wait was over."""
    for row in ran.rows:
        heard = server.of(str(row.session))
        assert len(heard) == row.attempts
        waited_s = sum(after.read_s - before.answered_s for before, after in itertools.pairwise(heard))
        assert waited_s >= row.waited_ns / 1e9 - ROUNDING_S * len(heard)


def test_a_wait_that_was_asked_for_is_waited_and_in_the_latency(lab: Lab) -> None:
    def law(seen: Seen, number: int) -> bytes:
        first = len(server.of(seen.body)) == 1
        return asked("0.15") if first and int(seen.body) % 4 == 0 else answer()

    server = Server(law)
    ran = waits(lab, server, {"level": 4, "calls": 40})
    assert ran.kinds == {"ok": 40}
    same_on_both_sides(ran, server)
    for row in ran.rows:
        assert (row.attempts, row.waited_ns) == ((2, 150_000_000) if row.session % 4 == 0 else (1, 0))
        assert row.end_ns - row.due_ns >= row.waited_ns
        assert row.sent_ns - row.due_ns < 150_000_000  # of the first request
        assert row.due_ns <= row.sent_ns < row.first_ns <= row.end_ns
    assert len(server.seen) == 50
    assert {seen.conn for seen in server.seen} == {1, 2, 3, 4}


@pytest.mark.parametrize("dated", [True, False])
def test_a_503_with_a_date_is_waited_for_until_then(lab: Lab, dated: bool) -> None:
    until_s = 0.0

    def law(seen: Seen, number: int) -> bytes:
        nonlocal until_s
        if number:
            return answer()
        now_s = time.time()
        until_s = int(now_s) + 2
        date, until = (formatdate(at_s, usegmt=True).encode() for at_s in (now_s, until_s))
        return answer(b"{}", b"503 Unavailable").replace(
            b"\r\n\r\n", b"%bRetry-After: %b\r\n\r\n" % (b"\r\nDate: %b\r\n" % date if dated else b"\r\n", until), 1
        )

    heard_s: list[float] = []

    def stamped(seen: Seen, number: int) -> bytes:
        heard_s.append(time.time())
        return law(seen, number)

    server = Server(stamped)
    ran = waits(lab, server, {"level": 1, "calls": 2})
    assert ran.kinds == {"ok": 2}
    assert ran.rows[0].attempts == 2
    # Its own Date says the server's clock, cut to the second; without one the wait is by our clock, which here is the same.
    assert ran.rows[0].waited_ns == 2_000_000_000 if dated else 0.9e9 < ran.rows[0].waited_ns <= 2e9
    assert heard_s[1] >= until_s
    assert ran.rows[0].end_ns - ran.rows[0].due_ns >= ran.rows[0].waited_ns
    same_on_both_sides(ran, server)


@pytest.mark.parametrize(
    ("wire", "kind", "requests", "waited_s"),
    [
        (asked("0.05"), "attempts_spent", 3, 0.10),
        (asked("0"), "attempts_spent", 3, 0.0),
        (asked("6"), "wait_over_cap", 1, 0.0),
        (asked("99999999999999999999"), "wait_over_cap", 1, 0.0),
        (asked("soon"), "http_4xx", 1, 0.0),
        (asked("-1"), "http_4xx", 1, 0.0),
        (answer(b"{}", BUSY), "http_4xx", 1, 0.0),
        (answer(b"{}", b"503 Unavailable"), "http_5xx", 1, 0.0),
        (asked("1", b"500 Oops"), "http_5xx", 1, 0.0),  # another status asks for nothing
        (answer(b'{"error":{"message":"Please try again in 60ms."}}', BUSY), "attempts_spent", 3, 0.12),
    ],
)
def test_what_asks_for_too_much_is_a_failure_of_its_own_kind(
    lab: Lab, wire: bytes, kind: str, requests: int, waited_s: float
) -> None:
    server = Server(lambda seen, number: wire)
    ran = waits(lab, server, {"level": 2, "calls": 4})
    assert ran.kinds == {kind: 4}
    assert len(server.seen) == 4 * requests
    assert {(row.attempts, row.waited_ns) for row in ran.rows} == {(requests, round(waited_s * 1e9))}
    same_on_both_sides(ran, server)


def test_waits_add_up_to_their_cap(lab: Lab) -> None:
    server = Server(lambda seen, number: asked("0.1"))
    ran = waits(lab, server, {"level": 1, "calls": 1}, attempts=9, max_wait_s=0.25)
    assert ran.kinds == {"wait_over_cap": 1}
    assert (ran.rows[0].attempts, ran.rows[0].waited_ns, ran.rows[0].status) == (3, 200_000_000, 429)


def test_without_patience_a_429_is_a_failure_whatever_it_asks(lab: Lab) -> None:
    server = Server(lambda seen, number: asked("0.01"))
    with origin(server.handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 3})
    assert ran.kinds == {"http_4xx": 3}
    assert ran.header["format"] == "drillmaster-samples-1"
    assert len(server.seen) == 3


@pytest.mark.parametrize("how", ["says so", "hangs up", "hangs up late", "talks on"])
def test_who_asks_for_a_wait_and_closes_is_called_again_on_a_new_connection(lab: Lab, how: str) -> None:
    refusal = asked("0.1")
    if how == "says so":
        refusal = refusal.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    heard: list[int] = []

    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            heard.append(sock.fileno())
            if len(heard) % 2:
                sock.sendall(refusal)
                if how in ("hangs up late", "talks on"):
                    time.sleep(0.03)
                if how == "talks on":
                    sock.sendall(answer())
                    time.sleep(0.2)
                return
            sock.sendall(answer())

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 3}, patience={"max_attempts": 2, "max_wait_s": 1})
    assert ran.kinds == {"ok": 3}
    assert [row.attempts for row in ran.rows] == [2, 2, 2]
    assert len(heard) == 6
    assert {row.waited_ns for row in ran.rows} == {100_000_000}


def test_waits_shift_no_later_arrival_and_count_as_in_flight(lab: Lab) -> None:
    def law(seen: Seen, number: int) -> bytes:
        return asked("0.3") if len(server.of(seen.body)) == 1 and int(seen.body) < 5 else answer()

    server = Server(law)
    ran = waits(lab, server, {"kind": "open", "rate_per_s": 50, "seconds": 1, "level": 100})
    assert ran.kinds == {"ok": 50}
    same_on_both_sides(ran, server)
    due = sorted(row.due_ns for row in ran.rows)
    assert [round((at - due[0]) / 1e6) for at in due] == [20 * n for n in range(50)]
    late = sorted(row.sent_ns - row.due_ns - row.connect_ns for row in ran.rows)
    assert late[25] < 100_000_000
    assert sorted(row.attempts for row in ran.rows) == [1] * 45 + [2] * 5
    # Five that wait are all that may be in flight: what is due meanwhile is dropped, and nothing else is.
    lab.folder = lab.folder / "second"
    lab.folder.mkdir()
    server = Server(law)
    ran = waits(lab, server, {"kind": "open", "rate_per_s": 50, "seconds": 1, "level": 5})
    dropped = [row for row in ran.rows if OUTCOMES[row.outcome] == "dropped"]
    assert 5 <= len(dropped) <= 14
    assert {(row.attempts, row.sent_ns) for row in dropped} == {(0, 0)}
    assert ran.kinds["ok"] == 50 - len(dropped)


def test_a_stop_in_a_wait_says_how_long_it_was(lab: Lab) -> None:
    server = Server(lambda seen, number: asked("20"))
    spec_more = {"patience": {"max_attempts": 3, "max_wait_s": 60}}
    with (
        origin(server.handle) as port,
        lab.start(lab.spec(port, {"level": 2, "calls": 9}, shot={"payloads": ["{n}"]}, **spec_more)) as process,
    ):
        assert process.stdout is not None
        told = []
        asked_for = False
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["event"] == "progress":
                if asked_for:  # one later: what the server has seen is answered and read by then
                    process.terminate()
                asked_for = len(server.seen) == 2
        code = process.wait(5)
    ran = Ran(code, told, lab.folder)
    assert ran.code == 3
    assert ran.kinds == {"stopped": 2}
    for row in ran.rows:
        assert (row.attempts, row.status) == (1, 429)
        assert 0 < row.waited_ns <= row.end_ns - row.due_ns


def test_a_stream_that_was_refused_first_is_timed_by_its_own_words(lab: Lab) -> None:
    def piece(data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data)

    word = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    stop = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    stop += b"data: [DONE]\n\n"
    turn = iter(range(100))

    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            if next(turn) % 2 == 0:
                sock.sendall(asked("0.1"))
                continue
            sock.sendall(SSE + piece(word))
            time.sleep(0.03)
            sock.sendall(piece(word) + piece(stop) + b"0\r\n\r\n")

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 2}, patience={"max_attempts": 2, "max_wait_s": 1})
    assert ran.kinds == {"ok": 2}
    assert [(row.words, row.attempts) for row in ran.rows] == [(2, 2), (2, 2)]
    for row, gaps in zip(ran.rows, ran.gaps, strict=True):
        assert row.word_ns >= row.first_ns >= row.due_ns + 100_000_000
        assert len(gaps) == 1
        assert row.end_ns - row.due_ns >= 130_000_000


def test_over_tls_a_session_keeps_its_connection_through_a_wait(lab: Lab, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    def law(seen: Seen, number: int) -> bytes:
        return asked("0.05") if seen.body.startswith("t1") and len(server.of(seen.body)) == 1 else answer()

    server = Server(law)
    with origin(server.handle, tls=context) as port:
        ran = lab.run(
            port,
            {"level": 2, "calls": 8, "pauses": {"turn_s": 0.01}},
            shot={"payloads": ["t0 {n}", "t1 {n}"], "turns": [2]},
            patience={"max_attempts": 2, "max_wait_s": 1},
            tls=True,
            server_name="localhost",
            ca_file=str(tmp_path / "ca.pem"),
        )
    assert ran.kinds == {"ok": 8}
    assert sorted(row.attempts for row in ran.rows) == [1] * 4 + [2] * 4
    assert {seen.conn for seen in server.seen} == {1, 2}
    assert sum(row.tls_ns > 0 for row in ran.rows) == 2


def test_a_turn_that_waited_goes_on_in_its_session(lab: Lab) -> None:
    def law(seen: Seen, number: int) -> bytes:
        return asked("0.05") if seen.body.startswith("t1") and len(server.of(seen.body)) == 1 else answer()

    server = Server(law)
    shot = {"payloads": ["t0 {n}", "t1 {n}", "t2 {n}"], "turns": [3]}
    ran = run(lab, server, {"level": 2, "calls": 12}, shot=shot, patience={"max_attempts": 2, "max_wait_s": 1})
    assert ran.kinds == {"ok": 12}
    rows: list[Sample] = sorted(ran.rows, key=lambda row: (row.session, row.turn))
    assert [(row.turn, row.attempts) for row in rows] == [(0, 1), (1, 2), (2, 1)] * 4
    for session in range(4):
        heard = [seen for seen in server.seen if seen.body.split()[1] == str(session)]
        assert [seen.body.split()[0] for seen in heard] == ["t0", "t1", "t1", "t2"]
        assert len({seen.conn for seen in heard}) == 1
