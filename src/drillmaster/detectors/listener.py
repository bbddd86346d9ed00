"""The listener's process: who may post, what becomes of it, and the lines of evidence.

1. A delivery is known by its path, then by its secret or signature, then by its form, in this order. Another path is 404, a sender
   that is not known 401, a document that is none 400. The last two are lines `delivery_refused` with the reason, never with the
   content; beyond `MOST_REFUSED` of one receiver they are counted only.
2. A receipt is the moment at which the line is written, which is before the sender has its answer.
3. Evidence that cannot be written is said to the sender (503: it sends again), in `GET /state`, and by exit code 2.
4. The listener ends when told, and when who started it is gone.
"""

import asyncio
import contextlib
import hmac
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec

from drillmaster.asked import listening, peer_uid
from drillmaster.clock import SystemClock, rfc3339
from drillmaster.detectors.door import Answer, Visitors
from drillmaster.detectors.reading import Acknowledged, Received, Told, found_in, read
from drillmaster.detectors.settings import Secret, Settings, secrets_of
from drillmaster.detectors.watching import FileWatch, LogTail, refuse_odd
from drillmaster.errors import Exit, Problem
from drillmaster.friday.detectors import File, Log, PagerDuty, Slack, Standard, Web, web_receivers
from drillmaster.http1 import RequestHead
from drillmaster.proxy.means import listen_unix
from drillmaster.rules.webhook_schemes import SCHEMES, check
from drillmaster.strict import load
from drillmaster.timeline import Unwritable, Writer

__all__ = ["Listener", "run"]

POLL_S = 0.05
OWNER_EVERY_S = 0.5
MOST_REFUSED = 200
MOST_KEPT = 50_000
"""Lines of one receiver; a flood beyond that is lost evidence, which ends the drill, and no full disk."""
_BACKLOG = 128


class Listener:
    """All receivers of one drill."""

    def __init__(self, settings: Settings, secrets: Mapping[str, Secret], loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._secrets = secrets
        self._loop = loop
        self._by_path = {one.path: one for one in web_receivers(settings.receivers)}
        self._visitors = Visitors(loop)
        self._listener: socket.socket | None = None
        self._control: socket.socket | None = None
        self._writer: Writer | None = None
        self._logs: list[tuple[Log, LogTail]] = []
        self._files: list[tuple[File, FileWatch]] = []
        self._counts = {one.name: {"alerts": 0, "resolved": 0, "acks": 0, "refused": 0} for one in settings.receivers}
        self._last_ns: dict[str, int] = {}
        self._ready = False
        self._lost = 0
        self._done: asyncio.Future[int] = loop.create_future()
        self._owner_seen_s = 0.0

    # The start

    def start(self) -> None:
        """Open everything, then say so. Raises Problem."""
        settings = self._settings
        if settings.events is not None:
            self._writer = Writer(settings.events, SystemClock(), settings.mono0_ns)
        folder = Path(settings.folder)
        for one in settings.receivers:
            if isinstance(one, Log | File):
                refuse_odd(folder / one.file, one.name)
            if isinstance(one, Log):
                self._logs.append((one, LogTail(folder / one.file)))
            elif isinstance(one, File):
                self._files.append((one, FileWatch(folder / one.file, on_change=one.on == "changes")))
        if self._by_path:
            self._listener = self._listen()
            self._loop.add_reader(self._listener.fileno(), self._accept)
        if settings.control_path is not None:
            self._control = listen_unix(Path(settings.control_path))
            self._loop.add_reader(self._control.fileno(), self._accept_control)
        self._record("detectors_started", pid=os.getpid(), listen=self.address)
        for one in settings.receivers:
            self._record("detector_ready", receiver=one.name, form=_form(one))
        self._ready = True
        self._beat()

    def _listen(self) -> socket.socket:
        settings = self._settings
        return listening(
            settings.host,
            settings.port,
            fd=settings.listen_fd,
            backlog=_BACKLOG,
            place="detectors: listen",
            other="another in the plan",
        )

    @property
    def address(self) -> str | None:
        """Where senders connect; None: nobody does."""
        if self._listener is None:
            return None
        host, port = self._listener.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def wait(self) -> int:
        """Until it has ended; the exit code."""
        return await self._done

    def stop(self, why: str) -> None:
        """Look once more, say so, end."""
        if self._done.done():
            return
        self._look()
        self._record("detectors_ended", why=why)
        self._ready = False
        for sock in (self._listener, self._control):
            if sock is not None:
                self._loop.remove_reader(sock.fileno())
                sock.close()
        self._visitors.close()
        for _, tail in self._logs:
            tail.close()
        if self._settings.control_path is not None:
            with contextlib.suppress(OSError):
                Path(self._settings.control_path).unlink()
        if self._writer is not None:
            with contextlib.suppress(Unwritable):
                self._writer.sync()
            self._writer.close()
        self._done.set_result(Exit.REFUSED if self._lost else Exit.PASS)

    # Evidence

    def _record(self, event: str, **fields: Any) -> bool:
        if self._writer is None:
            return True
        try:
            self._writer.write(event, **fields)
        except Unwritable as error:
            if not self._lost:
                print(f"drillmaster.detectors: {error}", file=sys.stderr, flush=True)
            self._lost += 1
            return False
        return True

    def _received(self, receiver: str, form: str, alert: Received) -> bool:
        counts = self._counts[receiver]
        counts["resolved" if alert.state == "resolved" else "alerts"] += 1
        self._last_ns[receiver] = time.monotonic_ns() - self._settings.mono0_ns
        if self._is_flooded(receiver):
            return False
        return self._record("alert_received", receiver=receiver, form=form, **msgspec.to_builtins(alert))

    def _acked(self, receiver: str, ack: Acknowledged) -> bool:
        self._counts[receiver]["acks"] += 1
        if self._is_flooded(receiver):
            return False
        return self._record("alert_acknowledged", receiver=receiver, **msgspec.to_builtins(ack))

    def _is_flooded(self, receiver: str) -> bool:
        counts = self._counts[receiver]
        if counts["alerts"] + counts["resolved"] + counts["acks"] <= MOST_KEPT:
            return False
        self._lost += 1
        return True

    def _refused(self, receiver: str, status: int, why: str) -> Answer:
        self._counts[receiver]["refused"] += 1
        if self._counts[receiver]["refused"] <= MOST_REFUSED:
            self._record("delivery_refused", receiver=receiver, status=status, why=why[:200])
        return status, {"error": why[:200]}

    # Webhooks

    def _accept(self) -> None:
        assert self._listener is not None
        self._visitors.accept(self._listener, self._serve, lambda sock: True)

    def _serve(self, head: RequestHead, content: bytes) -> Answer:
        try:
            return self._deliver(head, content)
        except Exception as error:  # noqa: BLE001 - an error of ours must not read as one: the sender is told to come again
            print(f"drillmaster.detectors: an error of ours: {type(error).__name__}", file=sys.stderr, flush=True)
            self._lost += 1
            return 503, {"error": "not taken; send it again"}

    def _deliver(self, head: RequestHead, content: bytes) -> Answer:
        found = self._at(head.path)
        if found is None:
            return 404, {"error": "no receiver there"}
        receiver, rest = found
        form = _form(receiver)
        if head.method not in ("POST", "PUT"):
            return 405, {"error": "POST"}
        if not self._known(receiver, rest, head, content):
            return self._refused(receiver.name, 401, "not the secret or signature of this receiver")
        try:
            told = read(receiver, self._document(receiver, head, content))
        except ValueError as error:
            return self._refused(receiver.name, 400, str(error))
        except Problem as problem:
            return self._refused(receiver.name, 400, problem.found if problem.found.isascii() else "no JSON")
        return self._keep(
            receiver.name, form, told, b"ok" if isinstance(receiver, Slack) else {"taken": len(told.alerts)}
        )

    def _at(self, path: str) -> tuple[Web, str] | None:
        """The receiver of a path, and what of the path is left behind it."""
        exact = self._by_path.get(path)
        if exact is not None:
            return exact, ""
        front, _, last = path.rpartition("/")
        below = self._by_path.get(front)
        return None if below is None else (below, last)

    def _known(self, receiver: Web, rest: str, head: RequestHead, content: bytes) -> bool:
        secret = self._secrets[receiver.name]
        if isinstance(receiver, PagerDuty | Standard):
            if rest or secret.key is None:
                return False
            scheme = SCHEMES["pagerduty" if isinstance(receiver, PagerDuty) else "standard"]
            checked = check(scheme, _lines(head), content, [secret.key])
            late = (
                scheme.tolerance_s is not None
                and checked.time_s is not None
                and abs(time.time() - checked.time_s) > scheme.tolerance_s
            )
            return checked.signature == "matched" and not late
        if receiver.auth == "path":
            return secret.is_(rest.encode("utf-8", "surrogateescape"))
        said = head.named.get(b"authorization", b"")
        word, _, token = said.partition(b" ")
        return not rest and hmac.compare_digest(word.lower(), b"bearer") and secret.is_(token.strip())

    def _document(self, receiver: Web, head: RequestHead, content: bytes) -> object:
        coding = head.named.get(b"content-encoding", b"identity")
        if coding.lower() != b"identity":
            raise ValueError("content-encoding: wanted none")
        kind = head.named.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if isinstance(receiver, Slack) and kind == b"application/x-www-form-urlencoded":
            fields = parse_qs(content.decode("ascii", "replace"), max_num_fields=8, keep_blank_values=True)
            content = (fields.get("payload") or [""])[0].encode("utf-8", "replace")
        return load(content, place="delivery", fmt="json")

    def _keep(self, receiver: str, form: str, told: Told, answer: bytes | dict[str, Any]) -> Answer:
        kept = [self._received(receiver, form, one) for one in told.alerts]
        kept += [self._acked(receiver, one) for one in told.acks]
        if told.truncated:
            kept.append(self._record("alerts_truncated", receiver=receiver, left_out=told.truncated))
        return (200, answer) if all(kept) else (503, {"error": "the evidence cannot be written; send it again"})

    # Logs, files, the owner

    def _beat(self) -> None:
        if self._done.done():
            return
        self._look()
        self._visitors.sweep()
        now_s = time.monotonic()
        if self._settings.owner_pid is not None and now_s - self._owner_seen_s > OWNER_EVERY_S:
            self._owner_seen_s = now_s
            if os.getppid() != self._settings.owner_pid:
                self.stop("orphaned")
                return
        self._loop.call_later(POLL_S, self._beat)

    def _look(self) -> None:
        for log, tail in self._logs:
            with contextlib.suppress(OSError):  # a disk that does not answer now is asked again
                for line in tail.new():
                    for alert in found_in(log.find, line):
                        self._received(log.name, "log", alert)
        for file, watch in self._files:
            seen = watch.new()
            if seen is not None:
                state, at_ns = seen
                alert = Received(
                    rule=file.rule,
                    severity=file.severity,
                    state=state,
                    key=file.file,
                    starts_at=rfc3339(at_ns, digits=6) if state == "firing" else None,
                )
                self._received(file.name, "file", alert)

    # Control

    def _accept_control(self) -> None:
        assert self._control is not None
        self._visitors.accept(self._control, self._order, lambda sock: peer_uid(sock) in (os.getuid(), 0))

    def _order(self, head: RequestHead, content: bytes) -> Answer:
        match head.method, head.path:
            case "GET", "/state":
                return 200, self.state()
            case "POST", "/quit":
                self._loop.call_later(0.02, self.stop, "ordered")  # the answer leaves first
                return 200, {"ending": True}
        return 404, {"error": "no such order; GET /state, POST /quit"}

    def state(self) -> dict[str, Any]:
        """What there is to say."""
        return {
            "pid": os.getpid(),
            "ready": self._ready,
            "listen": self.address,
            "evidence_lost": self._lost,
            "receivers": {
                one.name: {"form": _form(one), **self._counts[one.name], "last_ns": self._last_ns.get(one.name)}
                for one in self._settings.receivers
            },
        }


def _form(receiver: msgspec.Struct) -> str:
    return str(type(receiver).__struct_config__.tag)


def _lines(head: RequestHead) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in head.lines)
    return [(name.lower(), value.strip(b" \t\r\n")) for name, _, value in pairs]


async def _serve(settings: Settings, secrets: Mapping[str, Secret]) -> int:
    loop = asyncio.get_running_loop()
    listener = Listener(settings, secrets, loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, listener.stop, signal.Signals(number).name)
    listener.start()
    return await listener.wait()


def run(settings: Settings, environ: Mapping[str, str]) -> int:
    """Listen until told to end; the exit code. Raises Problem."""
    secrets = secrets_of(settings.receivers, environ)
    return asyncio.run(_serve(settings, secrets))
