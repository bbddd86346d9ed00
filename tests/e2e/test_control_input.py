"""What comes in at the control door and is no order: refused with a reason, and nothing is put on."""

import json
import socket
from pathlib import Path

import pytest

from tests.e2e.wirelab import Origin, ProxyProcess, Reader, plain_answer, proxy

pytestmark = pytest.mark.e2e


def order(**fields: object) -> bytes:
    return json.dumps({"window": "w", "fault": "reset", "ttl_s": 5, **fields}).encode()


SAD: list[tuple[str, bytes, bytes]] = [
    ("nothing", b"", b"order"),
    ("no object", b"[]", b"order"),
    ("no JSON", b"\xff\xfe", b"order"),
    ("a key twice", b'{"window":"a","window":"b","fault":"reset","ttl_s":5}', b"window"),
    (
        "too deep",
        b'{"window":"w","fault":"reset","ttl_s":5,"params":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
        b"order",
    ),
    ("NaN", b'{"window":"w","fault":"reset","ttl_s":NaN}', b"order"),
    ("infinite", b'{"window":"w","fault":"reset","ttl_s":1e999}', b"order"),
    ("a bool for a number", order(ttl_s=True), b"ttl_s"),
    ("half a surrogate", b'{"window":"\\ud800","fault":"reset","ttl_s":5}', b"order"),
    ("a name that fits no line of evidence", order(window="w" * 3_000), b"window"),
    ("a name of nothing", order(window=""), b"window"),
    ("a name with a line break", order(window="a\nb"), b"window"),
    ("a parameter that it does not have", order(params={"type": "503"}), b"type"),
    ("a field that nobody knows", order(wait_s=5), b"wait_s"),
]


def say(ours: ProxyProcess, content: bytes) -> tuple[int, bytes]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(ours.control)
        sock.sendall(b"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))
        answer = Reader(sock).answer("POST")
        assert answer is not None
        return answer.status, answer.body


def test_an_order_that_is_none_is_refused_and_nothing_is_on(tmp_path: Path) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url) as ours:
        for what, content, named in SAD:
            status, body = say(ours, content)
            assert (what, status) == (what, 400)
            assert named in body, (what, body)
            state = ours.state()
            assert (what, state["window"], state["counts"]["evidence_lost"]) == (what, None, 0)
        assert say(ours, order())[0] == 200  # none of them used a name up
    origin.close()
