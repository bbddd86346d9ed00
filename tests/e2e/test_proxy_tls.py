"""The way to a TLS upstream: certificates and names are checked, bodies of any size pass, a cut is a cut."""

import contextlib
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from tests.e2e.wirelab import Origin, Reader, post, proxy

pytestmark = pytest.mark.e2e

BODY = b'{"model":"m","stream":true,"messages":[]}'
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(text: str) -> bytes:
    data = b"data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, str]:
    ca = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return ca, str(path)


def server_context(ca: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def test_a_tls_upstream_is_passed_through_whatever_the_size(tmp_path: Path, authority: tuple[trustme.CA, str]) -> None:
    ca, ca_file = authority
    names: list[str | None] = []
    context = server_context(ca, "localhost")
    context.sni_callback = lambda sock, name, ctx: names.append(name)

    def echo(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            size = len(message.body)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, message.body))

    origin = Origin(echo, tls=context)
    with proxy(tmp_path, upstream=origin.url, upstream_ca=ca_file) as ours, ours.connect() as sock:
        reader = Reader(sock)
        for size in (0, 1, 16_383, 16_384, 16_385, 100_000, 5_000_000, 3):
            content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
            threading.Thread(target=sock.sendall, args=(post(content),)).start()
            answer = reader.answer()
            assert answer is not None
            assert answer.body == content
        assert [row["end"] for row in ours.wait_rows("attempt", 8)] == ["clean"] * 8
    assert names == ["localhost"]
    assert origin.connections == 1
    origin.close()


@pytest.mark.parametrize(("name", "trusted"), [("other.example", True), ("localhost", False)])
def test_a_certificate_of_another_host_or_authority_is_refused(
    tmp_path: Path, authority: tuple[trustme.CA, str], name: str, trusted: bool
) -> None:
    ca, ca_file = authority
    reached: list[bytes] = []

    def note(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            reached.append(message.first)

    origin = Origin(note, tls=server_context(ca, name))
    settings = {"upstream_ca": ca_file} if trusted else {}
    with proxy(tmp_path, upstream=origin.url, **settings) as ours, ours.connect() as sock:
        sock.sendall(post(BODY, b"Authorization: Bearer sk-0123456789abcdef"))
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 502
        assert ours.wait_rows("attempt")[0]["end"] == "upstream_error"
    assert reached == []
    origin.close()


def test_a_tls_stream_that_is_cut_without_a_close_notify_is_cut_here(
    tmp_path: Path, authority: tuple[trustme.CA, str]
) -> None:
    ca, ca_file = authority

    def cut(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(SSE_HEAD + event("a"))
        sock.shutdown(socket.SHUT_RDWR)

    origin = Origin(cut, tls=server_context(ca, "localhost"))
    with proxy(tmp_path, upstream=origin.url, upstream_ca=ca_file) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        reader = Reader(sock)
        with contextlib.suppress(ConnectionResetError):
            while reader.more():
                pass
        assert b'"content": "a"' in reader.buf
        assert not reader.buf.endswith(b"0\r\n\r\n")
        assert ours.wait_rows("attempt")[0]["end"] == "cut"
    origin.close()


def test_a_plain_upstream_behind_an_https_url_is_a_502(tmp_path: Path) -> None:
    def plain(reader: Reader, sock: socket.socket) -> None:
        reader.more()
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    origin = Origin(plain)
    with proxy(tmp_path, upstream=origin.url.replace("http:", "https:")) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 502
    origin.close()
