"""A collector that is none, asked over real sockets: what it may answer, how long it may take, what it is told."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from drillmaster.errors import Problem
from drillmaster.intake.prometheus import TOKEN, asking, reach

pytestmark = pytest.mark.e2e

Serve = Callable[[socket.socket, bytes], None]
KEY = "t" + "0123456789" * 2


class Server:
    """Answers each connection by a function; keeps the heads that it was sent."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                sock.settimeout(5)
                head = b""
                try:
                    while b"\r\n\r\n" not in head and (more := sock.recv(4096)):
                        head += more
                    self.heads.append(head)
                    self._serve(sock, head)
                except OSError:
                    continue

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Serve], Server]]:
    made: list[Server] = []

    def start(how: Serve) -> Server:
        made.append(Server(how))
        return made[-1]

    yield start
    for one in made:
        one.close()


def whole(status: str, body: bytes, *more: bytes) -> Serve:
    head = b"\r\n".join([b"HTTP/1.1 " + status.encode(), b"Content-Length: %d" % len(body), *more])
    return lambda sock, _: sock.sendall(head + b"\r\n\r\n" + body)


def asked(server: Server, *, limit_s: float = 5.0, environ: dict[str, str] | None = None) -> bytes:
    url = f"http://127.0.0.1:{server.port}/prom/"
    collector = reach(url, None, place="--prometheus", permit_host=None, environ=environ or {}, now_ns=0)
    return asking(collector, limit_s=limit_s)("/api/v1/query?query=x&time=1")


def test_it_is_asked_below_its_path_with_a_token_of_the_environment(serve: Callable[[Serve], Server]) -> None:
    server = serve(whole("200 OK", b"{}"))
    assert asked(server, environ={TOKEN: KEY}) == b"{}"
    assert server.heads[0].startswith(b"GET /prom/api/v1/query?query=x&time=1 HTTP/1.1\r\n")
    assert f"authorization: Bearer {KEY}".encode() in server.heads[0]
    asked(server)
    assert b"authorization" not in server.heads[1].lower()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (whole("302 Found", b"", b"Location: http://127.0.0.1:1/"), "status 302"),
        (whole("401 Unauthorized", b"who are you"), f"export {TOKEN}"),
        (whole("404 Not Found", b""), "before /api/v1"),
        (whole("503 Service Unavailable", b"<h1>down</h1>"), "status 503"),
        (whole("200 OK", b" " * ((1 << 20) + 1)), "over 1 MiB"),
        (lambda sock, _: None, "remotedisconnected"),
        (lambda sock, _: sock.sendall(b"SSH-2.0-OpenSSH\r\n"), "badstatusline"),
    ],
)
def test_what_is_no_answer_is_a_problem_in_one_line(serve: Callable[[Serve], Server], how: Serve, said: str) -> None:
    server = serve(how)
    with pytest.raises(Problem) as problem:
        asked(server, environ={TOKEN: KEY})
    assert said in str(problem.value)
    assert KEY not in str(problem.value)
    assert len(server.heads) == 1  # no redirect is followed


def test_a_token_that_is_sent_back_is_not_shown(serve: Callable[[Serve], Server]) -> None:
    server = serve(lambda sock, head: whole("401 Unauthorized", head[-100:])(sock, head))
    with pytest.raises(Problem) as problem:
        asked(server, environ={TOKEN: KEY})
    assert KEY not in str(problem.value)


@pytest.mark.parametrize(
    "first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "]
)
def test_an_answer_that_drips_is_cut_at_the_time_limit(serve: Callable[[Serve], Server], first: bytes) -> None:
    def drip(sock: socket.socket, _: bytes) -> None:
        sock.sendall(first)
        for _ in range(100):
            sock.sendall(b"x" if first else b"H")
            time.sleep(0.1)

    server = serve(drip)
    began = time.monotonic()
    with pytest.raises(Problem, match=r"no whole answer in 0.5 s"):
        asked(server, limit_s=0.5)
    assert time.monotonic() - began < 4
