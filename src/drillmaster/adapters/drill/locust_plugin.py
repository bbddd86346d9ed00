"""Loaded into somebody's Locust beside their own file: writes what became of each request, and lets none go astray.

It runs in a Python of its own, perhaps without drillmaster, so it imports Locust and the standard library alone.

1. A line when a request is sent, and one when it is over. One that is under way when Locust ends, or is killed, has a line.
2. Each request carries the mission's name and a trace, as a mission of ours does.
3. A connection to an address that is neither loopback nor the target's is refused before a byte is sent, and said.
4. Locust ends, in order, when its standard input does: nobody who could stop it is there any more. From then on Locust
   ends who waits, and a user that had just woken would be ended within a request: so one that runs waits for Locust's word.
"""

import ipaddress
import itertools
import json
import os
import re
import secrets
import socket
import time
from typing import Any

import gevent
from gevent import socket as green
from locust import events
from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession
from locust.user.task import LOCUST_STATE_RUNNING

_SAID: dict[str, Any] = json.loads(os.environ.get("DRILLMASTER_LOCUST", "{}"))
"""Empty where this is imported by anything but a Locust of ours: then nothing happens."""
_OUT = os.open(_SAID["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if _SAID else -1
_KEY = "drillmaster_request"
_BODY_CAP_CHARS = 1_000_000
_TELLING = re.compile(
    r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[\w.~%+=-]{12,}|.{25,}|^(?:sk|pk|key|tok|ghp|xox)[-_]", re.IGNORECASE
)
_numbers = itertools.count(1)
_open: set[int] = set()
_ending: list[bool] = []
"""Anything in here: the order to end has come."""
_ended: set[int] = set()
"""Users whom Locust ended before a request: what they ask now is their `on_stop`."""
_ALLOWED = frozenset(_SAID.get("addresses", ()))


def _say(kind: str, **fields: Any) -> None:
    line = json.dumps({"k": kind, "ns": time.monotonic_ns(), **fields}).encode() + b"\n"
    if os.write(_OUT, line) != len(line):
        raise OSError(28, "No space left on device")


def _label(said: Any) -> str:
    """A request's name: its path without what may be an identifier or a key. The file it is written to is evidence."""
    path = str(said).partition("?")[0].rpartition("@")[2]
    return "/".join("*" if _TELLING.search(part) else part for part in path.split("/"))[:80]


def _result(status: Any, error: Any, response: Any) -> str:
    if error is None:
        return "error_body" if _error_in(response) else "ok"
    name = f"{type(error).__name__} {error}"
    for part, result in (
        ("ConnectionRefused", "refused"),
        ("Connection refused", "refused"),
        ("ConnectionReset", "reset"),
        ("Connection reset", "reset"),
        ("imeout", "timeout"),
        ("timed out", "timeout"),
        ("IncompleteRead", "cut"),
        ("RemoteDisconnected", "cut"),
        ("without response", "cut"),
        ("ConnectionClosed", "cut"),
        ("prematurely", "cut"),
        ("SSL", "tls"),
    ):
        if part in name:
            return result
    return "status" if isinstance(status, int) and status >= 400 else "script"


def _error_in(response: Any) -> bool:
    """Whether the body says that it is an error, whatever its status."""
    try:
        text = response.text
        if (
            not isinstance(text, str)
            or '"error"' not in text
            or len(text) > _BODY_CAP_CHARS
            or text.lstrip()[:1] != "{"
        ):
            return False
        return bool(json.loads(text).get("error"))
    except Exception:  # noqa: BLE001  # a stream that was not read, a body that is no text: not ours to mend
        return False


def _watched(request: Any) -> Any:
    def watched(self: Any, method: Any, url: Any, *given: Any, **named: Any) -> Any:
        if _ending:
            _hear(getattr(self, "user", None))
        number = next(_numbers)
        mission = f"m{_SAID['first'] + number:06d}-{_SAID['run']}"
        trace, span = secrets.token_hex(16), secrets.token_hex(8)
        traced = {
            "X-Drill-Mission": mission,
            "X-Drill-Run": _SAID["drill_run"],
            "traceparent": f"00-{trace}-{span}-01",
        }
        named["headers"] = {**(named.get("headers") or {}), **traced}
        named["context"] = {**(named.get("context") or {}), _KEY: number}
        label = _label(named.get("name") or url)
        _open.add(number)
        _say("s", n=number, mission=mission, trace=trace, method=str(method), name=label)
        try:
            return request(self, method, url, *given, **named)
        except BaseException as error:
            if number in _open:
                _open.discard(number)
                ended = isinstance(error, gevent.GreenletExit)
                _say("e", n=number, status=None, result="ended" if ended else "script", why=type(error).__name__)
            raise

    return watched


def _hear(user: Any) -> None:
    """Wait until Locust has told a running user to finish its task, or has ended it: it does one of the two with each."""
    try:
        while getattr(user, "_state", None) == LOCUST_STATE_RUNNING and id(user) not in _ended:
            gevent.sleep(0.005)
    except gevent.GreenletExit:
        _ended.add(id(user))
        raise


def _over(
    request_type: Any = "",
    name: Any = "",
    response_time: Any = 0,
    response: Any = None,
    context: Any = None,
    exception: Any = None,
    **_: Any,
) -> None:
    ms = float(response_time or 0)
    status = getattr(response, "status_code", None)
    status = status if isinstance(status, int) and 100 <= status <= 599 else None
    number = (context or {}).get(_KEY)
    if number is None:  # a client of the file's own, which told Locust and nobody before
        number = next(_numbers)
        mission = f"m{_SAID['first'] + number:06d}-{_SAID['run']}"
        began_ns = time.monotonic_ns() - round(ms * 1e6)
        _say("s", n=number, mission=mission, trace="", method=str(request_type), name=_label(name), at=began_ns)
    elif number not in _open:
        return
    _open.discard(number)
    why = "" if exception is None else type(exception).__name__
    _say("e", n=number, status=status, result=_result(status, exception, response), why=why, ms=ms)


def _allowed(family: int, address: Any) -> bool:
    if family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in _ALLOWED or host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _guard(connect: Any) -> Any:
    def guarded(self: Any, address: Any) -> Any:
        if not _allowed(self.family, address):
            _say("x", address=str(address[0])[:100])
            raise PermissionError(1, "an address that the drill does not permit")
        return connect(self, address)

    return guarded


def _quitting(**_: Any) -> None:
    for number in sorted(_open):
        _say("e", n=number, status=None, result="ended", why="Locust ended")
    _open.clear()
    _say("q")


def _watch_owner(environment: Any, **_: Any) -> None:
    """End in order when standard input does: that is the order to, and happens too when whoever gives it was killed."""

    def watch() -> None:
        green.wait_read(0)
        while os.read(0, 1_024):
            green.wait_read(0)
        _ending.append(True)
        if environment.runner is not None:
            environment.runner.stop()  # lets tasks under way end, within --stop-timeout
            environment.runner.quit()

    gevent.spawn(watch)


def _install() -> None:
    for session in (HttpSession, FastHttpSession):
        session.request = _watched(session.request)  # type: ignore[method-assign]  # that is what the plugin is for
    for kind in {green.socket, socket.socket}:
        for name in ("connect", "connect_ex"):
            setattr(kind, name, _guard(getattr(kind, name)))
    events.request.add_listener(_over)
    events.quitting.add_listener(_quitting)
    events.init.add_listener(_watch_owner)


if _SAID:
    _install()
