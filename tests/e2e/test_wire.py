"""The socket class by itself: what is kept, what is told, how it ends."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable

import pytest
import trustme

from drillmaster.proxy.loop import BATCH_READERS, make_loop
from drillmaster.wire import HIGH_BYTES, Wire, dial

pytestmark = pytest.mark.e2e


class Heard:
    """An owner that writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.data = b""
        self.changed = asyncio.Event()

    def _say(self, word: str) -> None:
        self.said.append(word)
        self.changed.set()

    def on_open(self) -> None:
        self._say("open")

    def on_bytes(self, data: bytes) -> None:
        assert data
        self.data += data
        self.changed.set()

    def on_end(self) -> None:
        self._say("end")

    def on_lost(self, why: str) -> None:
        self._say(f"lost: {why}")

    def on_drained(self) -> None:
        self._say("drained")

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]  # every test here is a coroutine function


def pair(owner: Heard) -> tuple[Wire, socket.socket]:
    """A wire, and the blocking socket at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname(), 10)
        near, _ = listener.accept()
    near.setblocking(False)
    return Wire(asyncio.get_running_loop(), near, owner), far


def test_bytes_and_the_end_are_told_in_order() -> None:
    async def body() -> None:
        owner = Heard()
        wire, far = pair(owner)
        with far:
            far.sendall(b"hello")
            far.shutdown(socket.SHUT_WR)
            await owner.until(lambda: bool(owner.said))
            assert (owner.data, owner.said) == (b"hello", ["end"])
            wire.send(b"bye")
            wire.close()
            assert far.recv(10) == b"bye"
            assert far.recv(10) == b""

    run(body)


class Batched(Heard):
    """Answers each piece soon, and notes what the peers had by then."""

    def __init__(self, then: Callable[["Batched"], None] | None = None) -> None:
        super().__init__()
        self.then = then
        self.wire: Wire | None = None
        self.far: socket.socket | None = None
        self.open = False

    def on_bytes(self, data: bytes) -> None:
        assert self.wire is not None
        self.open = asyncio.get_running_loop().batch.open  # type: ignore[attr-defined]  # the proxy's loop has one
        self.wire.send_soon(b"soon")
        if self.then is not None:
            self.then(self)
        super().on_bytes(data)


def batched(
    count: int, then: Callable[[Batched], None] | None, body: Callable[[list[Batched]], Awaitable[None]]
) -> None:
    """Run `body` in the proxy's loop once `count` owners were told of bytes in one round."""

    async def main() -> None:
        owners = [Batched(then) for _ in range(count)]
        for owner in owners:
            owner.wire, owner.far = pair(owner)
            owner.far.sendall(b"x")
        try:
            for owner in owners:
                await owner.until(lambda owner=owner: bool(owner.data))  # type: ignore[misc]  # bound per turn
            await body(owners)
        finally:
            for owner in owners:
                assert owner.wire is not None and owner.far is not None
                owner.wire.close()
                owner.far.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


def test_what_is_sent_soon_is_written_within_the_round_and_at_once_where_nobody_else_writes() -> None:
    async def body(owners: list[Batched]) -> None:
        for owner in owners:
            assert owner.far is not None
            owner.far.settimeout(5)
            assert owner.far.recv(10) == b"soon"
            assert owner.open == (len(owners) > 1)

    batched(BATCH_READERS + 3, None, body)
    batched(1, None, body)


@pytest.mark.parametrize(
    ("then", "arrives"),
    [
        (lambda owner: owner.wire.send(b", then"), b"soon, then"),
        (lambda owner: owner.wire.send_soon(b", then"), b"soon, then"),
        (lambda owner: owner.wire.finish(), b"soon"),
        (lambda owner: owner.wire.close(), b"soon"),
    ],
)
def test_what_is_sent_soon_is_written_before_anything_else_that_is_asked(
    then: Callable[[Batched], None], arrives: bytes
) -> None:
    async def body(owners: list[Batched]) -> None:
        for owner in owners:
            assert owner.far is not None and owner.wire is not None
            owner.wire.close()
            owner.far.settimeout(5)
            got = b""
            while data := owner.far.recv(100):
                got += data
            assert got == arrives

    batched(3, then, body)


def test_what_the_peer_does_not_take_is_kept_counted_and_told_when_it_is_gone() -> None:
    async def body() -> None:
        owner = Heard()
        wire, far = pair(owner)
        sent = 0
        while wire.backlog_bytes <= HIGH_BYTES:
            wire.send(b"x" * 100_000)
            sent += 100_000
        wire.finish()
        got = 0

        def read() -> None:
            nonlocal got
            with far:
                while data := far.recv(1_000_000):
                    got += len(data)

        reader = threading.Thread(target=read)
        reader.start()
        await owner.until(lambda: "drained" in owner.said)
        await asyncio.to_thread(reader.join, 10)
        assert got == sent  # finish wrote what was kept, then ended our side
        assert wire.backlog_bytes == 0
        wire.close()

    run(body)


def test_a_reset_is_told_once_and_nothing_after_it() -> None:
    async def body() -> None:
        owner = Heard()
        wire, far = pair(owner)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        far.close()
        await owner.until(lambda: bool(owner.said))
        wire.send(b"x")
        wire.close()
        wire.abort()
        await asyncio.sleep(0.05)
        assert owner.said == ["lost: reset"]

    run(body)


def test_abort_is_a_rst_and_close_is_not() -> None:
    async def body() -> None:
        for end, reset in (("abort", True), ("close", False)):
            wire, far = pair(Heard())
            with far:
                getattr(wire, end)()
                if reset:
                    with pytest.raises(ConnectionResetError):
                        far.recv(1)
                else:
                    assert far.recv(1) == b""

    run(body)


def test_a_paused_wire_reads_nothing_and_a_resumed_one_all() -> None:
    async def body() -> None:
        owner = Heard()
        wire, far = pair(owner)
        with far:
            wire.pause()
            far.sendall(b"later")
            await asyncio.sleep(0.05)
            assert owner.data == b""
            wire.resume()
            await owner.until(lambda: owner.data == b"later")
            wire.close()

    run(body)


def test_a_closed_wire_calls_nobody() -> None:
    async def body() -> None:
        owner = Heard()
        wire, far = pair(owner)
        with far:
            far.sendall(b"x")
            wire.close()
            await asyncio.sleep(0.05)
            assert (owner.said, owner.data) == ([], b"")

    run(body)


def test_a_refused_dial_is_told_or_raised() -> None:
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            where = taken.getsockname()
        owner = Heard()
        try:
            dial(asyncio.get_running_loop(), (socket.AF_INET, where), owner)
        except ConnectionRefusedError:
            return
        await owner.until(lambda: bool(owner.said))
        assert owner.said == ["lost: refused"]

    run(body)


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's, and a client's that trusts it."""
    ca = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    ca.configure_trust(client)
    return server, client


def serve_tls(
    context: ssl.SSLContext, handle: Callable[[ssl.SSLSocket], None]
) -> tuple[tuple[str, int], threading.Thread]:
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        with listener:
            sock, _ = listener.accept()
        sock.settimeout(10)
        try:
            with context.wrap_socket(sock, server_side=True) as tls:
                handle(tls)
        except OSError:
            sock.close()

    thread = threading.Thread(target=work)
    thread.start()
    return listener.getsockname(), thread


def test_a_tls_wire_sends_before_it_is_open_and_reads_what_the_poll_does_not_see(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    server, client = contexts
    content = b"0123456789abcdef" * 200_000

    def echo(tls: ssl.SSLSocket) -> None:
        got = b""
        while len(got) < len(content):
            got += tls.recv(65_536)
        tls.sendall(got)
        tls.unwrap().close()

    async def body() -> None:
        owner = Heard()
        where, thread = serve_tls(server, echo)
        wire = dial(asyncio.get_running_loop(), (socket.AF_INET, where), owner, tls=client, server_name="localhost")
        wire.send(content)  # kept until the handshake is over
        await owner.until(lambda: "end" in owner.said or any(word.startswith("lost") for word in owner.said))
        assert owner.data == content
        assert (owner.said[0], owner.said[-1]) == ("open", "end")
        wire.close()
        await asyncio.to_thread(thread.join, 10)

    run(body)


def test_tls_that_ends_without_saying_so_is_cut_and_not_ended(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, client = contexts

    def rude(tls: ssl.SSLSocket) -> None:
        tls.sendall(b"half")
        tls.shutdown(socket.SHUT_RDWR)

    async def body() -> None:
        owner = Heard()
        where, thread = serve_tls(server, rude)
        dial(asyncio.get_running_loop(), (socket.AF_INET, where), owner, tls=client, server_name="localhost")
        await owner.until(lambda: any(word.startswith("lost") for word in owner.said))
        assert (owner.data, owner.said) == (b"half", ["open", "lost: cut"])
        await asyncio.to_thread(thread.join, 10)

    run(body)


def test_a_certificate_for_another_name_is_lost_with_the_reason(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    server, client = contexts

    async def body() -> None:
        owner = Heard()
        where, thread = serve_tls(server, lambda tls: None)
        dial(asyncio.get_running_loop(), (socket.AF_INET, where), owner, tls=client, server_name="other.example")
        await owner.until(lambda: bool(owner.said))
        assert owner.said[0].startswith("lost: tls: ")
        assert "other.example" in owner.said[0]
        await asyncio.to_thread(thread.join, 10)

    run(body)


def test_an_owner_that_raises_loses_its_connection_and_nobody_elses() -> None:
    class Broken(Heard):
        def on_bytes(self, data: bytes) -> None:
            raise ValueError("ours")

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        raised: list[str] = []
        loop.set_exception_handler(lambda _, context: raised.append(str(context["exception"])))
        broken, whole = Broken(), Heard()
        wire, peer = pair(broken)
        other, other_peer = pair(whole)
        with peer, other_peer:
            for _ in range(3):  # once is enough: it is closed then, and what still comes is nobody's
                with contextlib.suppress(OSError):
                    peer.sendall(b"x")
                other_peer.sendall(b"y")
                await asyncio.sleep(0.02)
            await whole.until(lambda: whole.data == b"yyy")
            assert wire.closed
            assert not other.closed
            other.close()
        assert broken.said == ["lost: error: ours"]
        return raised

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(main()) == ["ours"]
