"""Rehearse a webhook's path with real processes: five checks that say whether it is placed right.

1. Nothing of anybody's is touched: the key is made up, the inbox is a file of the rehearsal's own, or a database in which only
   rehearsals have written.
2. What is counted is a ledger of grants that takes each one it is told. An event is lost when it was answered 202, or its row was
   on the disk, and no grant is there in the end; it is doubled when there are two, or one of another amount.
3. A check that met nothing fails: a model that nobody asked did not hang, and a kill that killed nobody shows nothing.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import msgspec

from drillmaster.adapters.worker.webhook_server import need_server
from drillmaster.errors import Problem, Refused
from drillmaster.kits.webhook.ledger import LEDGER, granted
from drillmaster.rules.webhook_schemes import SCHEMES, read_key, sign
from drillmaster.stores.inbox import Connection
from drillmaster.stores.inbox_opening import backend_of, open_inbox

__all__ = ["KILLING", "Check", "Rehearsal", "rehearse"]

KILLING = "evt_kill_"
"""An identifier that begins so kills who stores it."""
BUDGET_S = 1.0
"""No answer may take longer: less than any provider waits."""
_PATH = "/webhooks/rehearsal"
_LEDGER = "drillmaster.kits.webhook.ledger"
_KEY_NAME = "DRILL_WEBHOOK_KEY"
_PREFIX = "rehearsal-"
_NOTE_WITHIN_S = 0.3
_END_S = 10.0
_SETTINGS = """kind: webhook
version: 1
source: the rehearsal's own file
owner: whoever runs the rehearsal
review_by: 2199-12-31
provider: {provider}
scheme: generic
path: {path}
max_body_bytes: 65536
read_within_s: 5
store_within_s: 5
inbox: {inbox}
keys: {{env: [{key}]}}
worker: {{lease_s: 5, max_attempts: 100, retry_after_s: 0.05, note_within_s: {note}, note_fields: [/type]}}
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    passed: bool
    said: str


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the five checks. `sent`: events that were answered, or whose row was on the disk when the process was killed."""

    checks: tuple[Check, ...]
    kills: int
    sent: int
    lost: int
    doubled: int

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks) and len(self.checks) == 5


def rehearse(*, rounds: int, inbox: str | None = None, wait_s: float = 20.0) -> Rehearsal:
    """Run the five checks. An answer or an effect that is not there after `wait_s` is missing.

    Raises Problem where something cannot be started, Refused for an inbox that is not a rehearsal's.
    """
    need_server()
    with tempfile.TemporaryDirectory(prefix="drillmaster-webhook-") as folder, contextlib.ExitStack() as stack:
        named = inbox or str(Path(folder) / "inbox.db")
        opened = stack.enter_context(open_inbox(named, within_s=5))
        opened.prepare()
        strange = [source for source in opened.sources() if not source.startswith(_PREFIX)]
        if strange:
            raise Refused(
                opened.place,
                found=f"events of others in it ({', '.join(strange[:3])})",
                wanted="an inbox in which only rehearsals have written: its worker would carry theirs out",
                remedy="name a database for rehearsals, or none",
            )
        connection = backend_of(named, within_s=5).connect()
        stack.callback(connection.close)
        connection.execute(LEDGER)
        provider = f"{_PREFIX}{secrets.token_hex(6)}"
        settings = Path(folder) / "webhook.yaml"
        settings.write_text(
            _SETTINGS.format(provider=provider, path=_PATH, inbox=named, key=_KEY_NAME, note=_NOTE_WITHIN_S), "utf-8"
        )
        return _Rehearsing(connection, provider, settings, stack, wait_s).run(rounds)


class _Model:
    """A host for models that takes every connection and never says a word."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port: int = self._listening.getsockname()[1]
        self._taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True, name="model").start()
        stack.callback(self.close)

    @property
    def asked(self) -> int:
        return len(self._taken)

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._taken.append(self._listening.accept()[0])

    def close(self) -> None:
        """Be away: nobody listens there any more, and who waits is cut off."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._taken:
            one.close()


class _Rehearsing:
    def __init__(
        self, connection: Connection, provider: str, settings: Path, stack: contextlib.ExitStack, wait_s: float
    ) -> None:
        self._ledger = connection
        self._provider = provider
        self._settings = settings
        self._stack = stack
        self._wait_s = wait_s
        self._key_text = secrets.token_urlsafe(32)
        self._key = read_key(self._key_text, standard=False, place="the rehearsal's key")
        self._model = _Model(stack)
        self._environ = {**os.environ, _KEY_NAME: self._key_text, "DRILL_MODEL_PORT": str(self._model.port)}
        self._sent: dict[str, int] = {}  # identifier to amount
        self._port = 0
        self._child = 0

    def run(self, rounds: int) -> Rehearsal:
        dying = self._start("-m", "drillmaster.kits.webhook.dying", str(self._settings))
        self._port = int(_line(dying, "listening"))
        self._child = int(_line(dying, "child"))
        checks = [self._refuses()]
        with self._working():
            checks += [self._hangs(), self._duplicates(), self._is_away()]
            killed, kills = self._killed(rounds, dying)
            self._settled(self._wait_s + rounds * 0.2)
        lost, doubled = self._balance()
        right = not lost and not doubled
        said = f"{kills} kills between insert and answer, {len(self._sent)} events: {lost} lost, {doubled} doubled"
        checks.append(Check(id="killed", passed=killed.passed and right, said=said if killed.passed else killed.said))
        return Rehearsal(checks=tuple(checks), kills=kills, sent=len(self._sent), lost=lost, doubled=doubled)

    # The five

    def _refuses(self) -> Check:
        """What nobody signed is 401, quickly, and no model hears of it."""
        body = self._body("evt_unsigned", 1)
        headers = [
            {},
            {"x-provider-signature": "t=1,v1=deadbeef"},
            {"x-provider-signature": f"t={int(time.time())},v1={'0' * 64}"},
        ]
        told = [self._post(body, header) for header in headers]
        slowest_s = max(took_s for _, took_s in told)
        passed = all(status == 401 for status, _ in told) and slowest_s < BUDGET_S and self._model.asked == 0
        return Check(
            id="bad-signature",
            passed=passed,
            said=f"{_statuses(told)} in at most {slowest_s * 1e3:.0f} ms, no model asked",
        )

    def _hangs(self) -> Check:
        """A model that hangs holds no answer, and no effect."""
        first = self._send("evt_hang_1", 100)
        met = _within(self._wait_s, lambda: self._model.asked > 0)
        second = self._send("evt_hang_2", 100)  # while the worker hangs on the first
        done = self._settled(self._wait_s)
        slowest_s = max(first[1], second[1])
        passed = first[0] == second[0] == 202 and met and done and slowest_s < BUDGET_S
        said = f"{_statuses([first, second])} in at most {slowest_s * 1e3:.0f} ms; the model was asked {self._model.asked} times"
        return Check(
            id="model-hangs",
            passed=passed,
            said=f"{said} and never answered; effects: {'there' if done else 'missing'}",
        )

    def _duplicates(self) -> Check:
        """The same body twice is answered twice and has one effect."""
        body, headers = self._signed("evt_twice", 500)
        told = [self._post(body, headers), self._post(body, headers)]
        self._sent["evt_twice"] = 500
        done = self._settled(self._wait_s)
        passed = all(status == 202 for status, _ in told) and done
        return Check(id="duplicate", passed=passed, said=f"{_statuses(told)}, one effect of 500")

    def _is_away(self) -> Check:
        """A model that is not there is no 5xx, and takes no effect along."""
        self._model.close()
        told = self._send("evt_away", 700)
        done = self._settled(self._wait_s)
        return Check(
            id="model-away", passed=told[0] == 202 and done, said=f"{told[0]}; effect: {'there' if done else 'missing'}"
        )

    def _killed(self, rounds: int, dying: subprocess.Popen[str]) -> tuple[Check, int]:
        """Killed between the insert and the answer, started again, sent again: 202, and in the end one effect."""
        kills = 0
        for number in range(rounds):
            name, amount = f"{KILLING}{number}", number + 1
            body, headers = self._signed(name, amount)
            self._sent[name] = amount
            status, _ = self._post(body, headers)
            if status:
                return Check(
                    id="killed", passed=False, said=f"{name} was answered {status}, and nobody was killed"
                ), kills
            self._child = int(_line(dying, "child"))
            kills += 1
            status, _ = self._post(body, headers)
            if status != 202:
                # Killed again: its row was not there, so the first one was lost.
                return Check(
                    id="killed", passed=False, said=f"{name} was sent again and got {status or 'no answer'}"
                ), kills
        return Check(id="killed", passed=kills > 0, said=f"{kills} kills"), kills

    # How

    def _start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and words of ours
            [sys.executable, *words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=self._environ
        )
        self._stack.callback(_end, process)
        return process

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        names = ("--rule", f"{_LEDGER}:rule", "--model", f"{_LEDGER}:ask", "--apply", f"{_LEDGER}:grant")
        worker = self._start("-m", "drillmaster", "webhook", "work", str(self._settings), *names)
        if worker.stdout is None or not worker.stdout.readline().startswith("working"):
            raise Problem("the worker", found="no word of it", wanted="a worker that starts", remedy="see above")
        yield
        _end(worker)

    def _body(self, name: str, amount: int) -> bytes:
        document = {"id": name, "type": "invoice.paid", "account": "acct_1", "amount_minor": amount, "currency": "EUR"}
        return msgspec.json.encode(document)

    def _signed(self, name: str, amount: int) -> tuple[bytes, dict[str, str]]:
        body = self._body(name, amount)
        pairs = sign(SCHEMES["generic"], body, [self._key], time_s=int(time.time()))
        return body, {header.decode(): value.decode() for header, value in pairs}

    def _send(self, name: str, amount: int) -> tuple[int, float]:
        told = self._post(*self._signed(name, amount))
        self._sent[name] = amount
        return told

    def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int, float]:
        """Post as a provider does: a status, 0 where there was no answer, and how long it took in seconds."""
        began = time.monotonic()
        connection = HTTPConnection("127.0.0.1", self._port, timeout=self._wait_s)
        try:
            connection.request("POST", _PATH, body, {"content-type": "application/json", **headers})
            status = connection.getresponse().status
        except (OSError, HTTPException):
            status = 0
        finally:
            connection.close()
        return status, time.monotonic() - began

    def _settled(self, within_s: float) -> bool:
        """Wait until every event that was sent is granted."""
        return _within(within_s, lambda: self._sent.keys() <= granted(self._ledger, self._provider).keys())

    def _balance(self) -> tuple[int, int]:
        """Count what is missing in the ledger, and what is there otherwise than once and right."""
        found = granted(self._ledger, self._provider)
        lost = sum(name not in found for name in self._sent)
        return lost, sum(amounts != [self._sent.get(name)] for name, amounts in found.items())


def _line(process: subprocess.Popen[str], word: str) -> str:
    said = process.stdout.readline().split() if process.stdout is not None else []
    if len(said) != 2 or said[0] != word:
        raise Problem(
            "the terminator", found="no word of it", wanted=f"{word} and a number", remedy="see what it said above"
        )
    return said[1]


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    ends = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < ends:
        time.sleep(0.02)
    return held


def _statuses(told: list[tuple[int, float]]) -> str:
    return ", ".join(str(status or "no answer") for status, _ in told)
