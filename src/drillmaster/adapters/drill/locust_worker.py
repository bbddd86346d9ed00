"""A Locust worker whose one user runs our engine: told over Locust's channel what its share is, it sends back every record.

1. It meets the master first: same versions and code, permission on the addresses that it looked up itself, keys of its own
   environment, descriptors. What it refuses, it refuses before anything is sent.
2. Records are sent back when their step has ended, in pieces with their digests, a few under way at a time.
3. A master that is not heard for `DEAF_S` is gone: the engine is stopped. Load outlives nobody who could stop it.
"""

import locust  # isort: skip - rewrites sockets and threads, and has to be the first to see them

import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gevent
import msgspec
from gevent.event import Event
from gevent.queue import Queue
from locust.env import Environment
from locust.runners import WorkerRunner

from drillmaster.adapters.drill.meeting import Meeting, Where, versions, wrong_versions
from drillmaster.adapters.drill.pieces import PIECE_BYTES, Growing
from drillmaster.engines import Address, Spec
from drillmaster.errors import Aborted, Exit, Problem, Refused
from drillmaster.load.process import EngineProcess
from drillmaster.load.tally import Recent
from drillmaster.plan import Permit
from drillmaster.proxy.means import raise_descriptors
from drillmaster.sanity import fill_in, is_loopback, permission_problems

__all__ = ["work"]

AHEAD_BYTES = 8 * PIECE_BYTES
"""So much may be under way before the master says that it has it."""
DEAF_S = 8.0
"""Locust's heartbeats come once a second."""
SPARE_DESCRIPTORS = 40


def work(
    master: tuple[str, int],
    *,
    within_s: float,
    permit_host: str | None,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> int:
    """Serve one run; the exit code. Raises Problem where there is no master, or where it has no share for us."""
    worker = _Worker(permit_host, environ, say)
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in signals:
        signal.signal(number, worker.interrupted)
    try:
        with tempfile.TemporaryDirectory(prefix="drillmaster-worker-") as folder:
            return worker.serve(master, within_s, Path(folder))
    finally:
        for number, handler in signals.items():
            signal.signal(number, handler)


class EngineUser(locust.User):
    """Locust's user: it starts our engine with each spec that comes, and does nothing else."""

    worker: "_Worker"

    @locust.task
    def drive(self) -> None:
        order = self.worker.specs.get()
        try:
            self.worker.drive(order)
        except (OSError, Problem) as error:
            self.worker.leave(str(error), int(Exit.REFUSED))


class _Worker:
    def __init__(self, permit_host: str | None, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._permit_host = permit_host
        self._environ = environ
        self._say = say
        self.specs: Queue[dict[str, Any]] = Queue()
        self._over = Event()
        self._code = int(Exit.REFUSED)
        self._why = ""
        self._meeting: Meeting | None = None
        self._addresses: tuple[str, ...] = ()
        self._headers: dict[str, str] = {}
        self._engine: EngineProcess | None = None
        self._drive_number = -1
        self._upto: dict[str, int] = {}
        self._heard_s = time.monotonic()
        self._interrupted = 0
        self._leaving = False
        self._connected = False

    def serve(self, master: tuple[str, int], within_s: float, folder: Path) -> int:
        self._folder = folder
        environment = Environment(user_classes=[EngineUser])
        EngineUser.worker = self
        host, port = master
        self._waiting = gevent.getcurrent()
        self._say(f"looking for the master at {host}:{port}, for {within_s:g} s")
        runner = None
        with contextlib.suppress(ConnectionError, gevent.Timeout), gevent.Timeout(within_s):
            runner = _Runner(environment, host, port, self)
        if runner is None:
            raise Problem(
                f"locust-worker --master {host}:{port}",
                found=f"no master that answered within {within_s:g} s",
                wanted="the Locust master of an interview",
                remedy="start it: drillmaster interview PLAN --engine locust --workers N --bind HOST:PORT",
            )
        self._runner = runner
        self._connected = True
        self._say(f"worker {runner.client_id} has met the master at {host}:{port}; waiting for its share")
        gevent.spawn(self._listen)
        self._over.wait()
        engine = self._engine
        if engine is not None and not engine.ended:
            engine.ask_to_stop()
            engine.close(within_s=3.0)
        with contextlib.suppress(Exception):  # Locust's last words, to a master that may be gone
            environment.events.quitting.fire(environment=environment, reverse=True)
            gevent.sleep(0.2)
        if self._code == Exit.ABORTED:
            raise Aborted("locust-worker", found=self._why, wanted="a run to its end", remedy="start both sides again")
        if self._code:
            raise Problem("locust-worker", found=self._why, wanted="a run to its end", remedy="see the master's words")
        self._say(f"worker: {self._why}")
        return self._code

    def _end(self, why: str, code: int) -> None:
        if not self._over.is_set():
            self._why, self._code = why, code
            self._over.set()

    def interrupted(self, number: int, _: object) -> None:
        """Ctrl-C: what was recorded is sent back, and the master told."""
        self._interrupted += 1
        if not self._connected:
            stopped = Aborted("locust-worker", found="an interrupt", wanted="a master", remedy="start it again")
            gevent.get_hub().loop.run_callback(self._waiting.throw, stopped)
            return
        if self._interrupted > 1:
            raise KeyboardInterrupt
        gevent.spawn(self.leave, f"it was stopped by {signal.Signals(number).name}", int(Exit.ABORTED))

    def leave(self, why: str, code: int) -> None:
        """Tell the master, and end."""
        self._leaving = True
        self._runner.send_message("dm_leaving", {"why": why})
        gevent.sleep(0.3)
        self._end(why, code)

    def _listen(self) -> None:
        """End where the master is not heard any more."""
        while True:
            gevent.sleep(0.5)
            stamp = self._runner.last_heartbeat_timestamp
            if stamp is not None and time.time() - stamp > DEAF_S:
                self._end(f"the master was not heard for {DEAF_S:g} s", int(Exit.REFUSED))

    # What the master says

    def meet(self, environment: Any, msg: Any) -> None:
        try:
            self._meet(strictly(msg.data["meeting"]))
        except Problem as problem:
            said = {"place": problem.place, "found": problem.found, "wanted": problem.wanted, "remedy": problem.remedy}
            self._runner.send_message("dm_met", {"problem": said})
            self._end(str(problem), int(Exit.REFUSED))
            return
        self._runner.send_message(
            "dm_met",
            {
                "problem": None,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "addresses": list(self._addresses),
                "where": msgspec.to_builtins(Where.here()),
                "versions": versions(),
            },
        )

    def _meet(self, meeting: Meeting) -> None:
        """Whether we may and can. Raises Problem."""
        wrong = wrong_versions(meeting.versions, versions())
        if wrong is not None:
            name, theirs, ours = wrong
            raise Refused(
                f"version of {name}",
                found=f"{ours}, and the master has {theirs}",
                wanted="the same on both sides",
                remedy="install the same drillmaster and locust on all machines",
            )
        place = f"worker on {socket.gethostname()}"
        here = Where.here()
        if meeting.loopback and (here.boot, here.network) != (meeting.where.boot, meeting.where.network):
            raise Refused(
                place,
                found=f"{meeting.host}, and this is another machine or network than the master's",
                wanted="an endpoint that is the same one from everywhere",
                remedy="name it by an address that all workers reach, with `permit:` in the plan",
            )
        permit = None if meeting.permit is None else msgspec.convert(meeting.permit, Permit)
        for problem in permission_problems(
            meeting.url,
            permit,
            place=place,
            wall_ns=time.time_ns(),
            permit_host=self._permit_host,
            total_s=meeting.total_s,
            per_s=meeting.per_s,
            requests=meeting.requests,
            calmer="plan less load",
        ):
            raise problem
        self._headers = fill_in(meeting.headers, self._environ, place=place)
        limit = raise_descriptors()
        if meeting.callers + SPARE_DESCRIPTORS > limit:
            raise Refused(
                place,
                found=f"{limit} descriptors allowed",
                wanted=f"{meeting.callers + SPARE_DESCRIPTORS}",
                remedy=f"run `ulimit -n {meeting.callers + SPARE_DESCRIPTORS}` before the worker",
            )
        self._addresses = _reached(meeting, _looked_up(meeting, place), place)
        self._meeting = meeting

    def ping(self, environment: Any, msg: Any) -> None:
        self._runner.send_message("dm_pong", {"sent_ns": msg.data["sent_ns"], "here_ns": time.monotonic_ns()})

    def spec(self, environment: Any, msg: Any) -> None:
        self.specs.put(msg.data)

    def begin(self, environment: Any, msg: Any) -> None:
        if self._engine is not None and msg.data["number"] == self._drive_number:
            self._engine.begin(msg.data["start_ns"])

    def stop(self, environment: Any, msg: Any) -> None:
        if self._engine is not None:
            self._engine.ask_to_stop()

    def got(self, environment: Any, msg: Any) -> None:
        self._upto[msg.data["kind"]] = msg.data["upto"]

    def bye(self, environment: Any, msg: Any) -> None:
        if not self._leaving:  # whoever leaves says why itself
            self._end(msg.data["why"], int(msg.data.get("code", 0)))

    # The engine

    def drive(self, order: dict[str, Any]) -> None:
        """Run one engine to its end, and send back all that it wrote."""
        number = order["number"]
        meeting = self._meeting
        if meeting is None:
            return
        files = {"samples": self._folder / f"samples.{number}"}
        spec = self._ours(msgspec.json.decode(order["spec"], type=_Sent), meeting, files, number)
        log = self._folder / f"engine.{number}.log"
        engine = EngineProcess(spec, log=log)
        self._drive_number, self._engine = number, engine
        labels = [stage.label for stage in spec.stages]
        recent, drained_ns = Recent(str(files["samples"])), None
        tails = {kind: Growing(path) for kind, path in files.items()}
        self._upto = dict.fromkeys(tails, 0)
        while not engine.ended:
            for row in engine.hear(0.2):
                if row["event"] == "stage_ended" or order["often"]:
                    self._ship(tails)
                said = dict(row)
                if said["event"] == "stage_started":
                    drained_ns = said["ns"] if said["stage"] == "drain" else None  # of a batch all is due then
                elif said["event"] == "progress" and not order["often"]:  # records come later: what they say so far
                    said["p95_s"] = recent.p95_s(labels.index(said["stage"]), since_ns=drained_ns)
                self._runner.send_message("dm_said", {"row": said})
        end = engine.close(within_s=5.0)
        self._ship(tails)
        digests = {kind: tail.sha256 for kind, tail in tails.items()}
        self._runner.send_message("dm_ended", {"code": end.code, "why": end.why, "sha256": digests})
        self._engine = None
        for path in files.values():
            path.unlink(missing_ok=True)

    def _ours(self, sent: "_Sent", meeting: Meeting, files: dict[str, Path], number: int) -> Spec:
        """The spec as it runs here: our addresses, keys and files."""
        spec = sent.spec
        if spec.gaps is not None:
            files["gaps"] = self._folder / f"gaps.{number}"
        ca_file = None
        if sent.ca_pem is not None:
            ca_file = self._folder / "ca.pem"
            ca_file.write_text(sent.ca_pem)
        return msgspec.structs.replace(
            spec,
            to=tuple(Address(host=address, port=meeting.port) for address in self._addresses),
            shot=msgspec.structs.replace(spec.shot, headers={**spec.shot.headers, **self._headers}),
            ca_file=None if ca_file is None else str(ca_file),
            samples=str(files["samples"]),
            gaps=str(files["gaps"]) if "gaps" in files else None,
        )

    def _ship(self, tails: Mapping[str, "Growing"]) -> None:
        """Send what has been written since the last time."""
        for kind, tail in tails.items():
            while piece := tail.next():
                while tail.at - self._upto[kind] > AHEAD_BYTES and not self._over.is_set():
                    gevent.sleep(0.01)
                self._runner.send_message("dm_rows", {"kind": kind, **msgspec.structs.asdict(piece)})


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A spec, and what of the master's files it needs."""

    spec: Spec
    ca_pem: str | None = None


class _Runner(WorkerRunner):
    """Locust's runner, which hears our messages from its first moment on."""

    def __init__(self, environment: Environment, host: str, port: int, worker: _Worker) -> None:
        worker._runner = self
        self._ours = worker
        super().__init__(environment, host, port)
        environment.runner = self

    def connect_to_master(self) -> None:
        for name in () if self.custom_messages else ("meet", "ping", "spec", "begin", "stop", "got", "bye"):
            self.register_message(f"dm_{name}", getattr(self._ours, name))
        super().connect_to_master()  # type: ignore[no-untyped-call] # Locust's


def strictly(text: str) -> Meeting:
    """A meeting as it came. Raises Refused for one of another version."""
    try:
        return msgspec.json.decode(text, type=Meeting)
    except msgspec.MsgspecError as error:
        raise Refused(
            "the master's words",
            found=str(error),
            wanted="those of this version",
            remedy="install the same drillmaster on all machines",
        ) from None


def _looked_up(meeting: Meeting, place: str) -> tuple[str, ...]:
    """The host's addresses as this machine sees them: permission is about those. Raises Refused."""
    try:
        found = socket.getaddrinfo(meeting.host, meeting.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(
            place,
            found=f"{meeting.host}: {getattr(error, 'strerror', None) or 'a name that is none'}",
            wanted="a name that is known here too",
            remedy="mend the name service of this machine, or the URL",
        ) from None
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    outside = [address for address in addresses if not is_loopback(address)]
    if outside and meeting.permit is None:
        raise Refused(
            place,
            found=f"{meeting.host} is {outside[0]} here, which is not loopback",
            wanted="loopback: load goes nowhere else without permission",
            remedy="write a loopback address, or a plan with `permit:`",
        )
    if not meeting.loopback and len(outside) < len(addresses):
        raise Refused(
            place,
            found=f"{meeting.host} is loopback here, and another host where the master is",
            wanted="one endpoint for all",
            remedy="mend the name service of this machine, or its hosts file",
        )
    return addresses


def _reached(meeting: Meeting, addresses: tuple[str, ...], place: str) -> tuple[str, ...]:
    """The addresses, the first that takes a connection in front. Nothing is sent on it. Raises Refused for none."""
    said = ""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(min(10.0, meeting.time_limit_s))
            try:
                sock.connect((address, meeting.port))
            except OSError as error:
                said = (error.strerror or "no answer").lower()
                continue
            return (address, *(other for other in addresses if other != address))
    raise Refused(
        place,
        found=f"{said} at {', '.join(addresses)} port {meeting.port}",
        wanted="an endpoint that takes a connection from here",
        remedy="open the way to it from this machine",
    )
