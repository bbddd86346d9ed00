"""The Locust master of an interview, in a process of its own: `python -m drillmaster.adapters.drill.locust_master FD HOST PORT`.

Lines of JSON come and go over the socket FD. It decides nothing: who has which share, when a step begins and when the run is
over is said by the interview; it passes on, writes records into the run's folder, relates clocks, and says who came and went.
"""

import locust  # isort: skip - rewrites sockets and threads, and has to be the first to see them

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

import gevent
import msgspec
from gevent.event import Event
from locust.dispatch import UsersDispatcher
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner

from drillmaster.adapters.drill.meeting import Clocks, Relation
from drillmaster.adapters.drill.pieces import Received
from drillmaster.errors import Exit

__all__ = ["main"]

LOOK_EVERY_S = 0.2
MEETING_ROUNDS = 30
STEP_ROUNDS = 8
ROUND_S = 0.005
"""Between two round trips, so that they do not queue behind each other."""
LEAD_NS = 250_000_000
"""Between the word to begin and the instant that it names: it has to have come to every worker."""


class EngineUser(locust.User):
    """Stands on the master for what a worker runs; see `locust_worker`."""

    @locust.task
    def nothing(self) -> None:
        """Is never run here."""


class OneEach(UsersDispatcher):
    """Locust's dispatcher, with one user on each chosen worker, and none on any that comes later."""

    chosen: tuple[str, ...] = ()

    def __init__(self, worker_nodes: list[Any], user_classes: list[type]) -> None:
        self._users: list[dict[str, dict[str, int]]] = []

    @property
    def dispatch_in_progress(self) -> bool:
        """Always: Locust then starts no dispatch of its own when somebody comes or goes."""
        return True

    def new_dispatch(self, target_user_count: int, spawn_rate: float, user_classes: Any = None) -> None:
        self._users = [{worker: {EngineUser.__name__: 1} for worker in self.chosen}]

    def __next__(self) -> dict[str, dict[str, int]]:
        if not self._users:
            raise StopIteration
        return self._users.pop()

    def add_worker(self, worker_node: Any) -> None:
        """It has no share."""

    def remove_worker(self, worker_node: Any) -> None:
        """Its share is nobody else's."""


class OneEngineEach(locust.LoadTestShape):
    """Locust's shape of the run: one engine a worker from its beginning to its end; the steps are the engines' own."""

    abstract = True

    def __init__(self, workers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Locust's
        self._workers = workers
        self.over = False

    def tick(self) -> tuple[int, float] | None:
        return None if self.over else (self._workers, self._workers)


class _Worker:
    """One of the chosen."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.gone = False
        self.files: Received | None = None
        self.first: Relation | None = None
        self.clocks = Clocks()
        self.one_clock = False


class _Master:
    def __init__(self, sock: socket.socket, host: str, port: int) -> None:
        self._sock = sock
        self._environment = Environment(user_classes=[EngineUser], dispatcher_class=OneEach)
        runner = self._environment.create_master_runner(master_bind_host=host, master_bind_port=port)
        assert isinstance(runner, MasterRunner)
        self._runner = runner
        for name in ("dm_met", "dm_pong", "dm_said", "dm_rows", "dm_ended", "dm_leaving"):
            runner.register_message(name, getattr(self, f"_{name[3:]}"))
        self._environment.events.worker_connect.add_listener(self._came)
        self._known: dict[str, None] = {}
        self._chosen: list[_Worker] = []
        self._shape: OneEngineEach | None = None
        self._mono0_ns = 0
        self._over = Event()
        self._told_to_end = False
        """Whether it was told to end."""

    def run(self) -> None:
        self.tell({"event": "bound", "port": self._runner.server.port})
        gevent.spawn(self._watch)
        gevent.spawn(self._obey)
        self._over.wait()
        bye: dict[str, Any] = {"why": "the run is over"}
        if not self._told_to_end:
            bye = {"why": "whoever led the run is gone", "code": int(Exit.ABORTED)}
        for client in self._runner.clients:
            self._runner.send_message("dm_bye", bye, client)
        gevent.sleep(0.3)

    def tell(self, row: Mapping[str, Any]) -> None:
        try:
            self._sock.sendall(msgspec.json.encode(row) + b"\n")
        except OSError:
            self._over.set()

    # From the interview

    def _obey(self) -> None:
        rest = b""
        while data := self._sock.recv(1 << 20):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                order = msgspec.json.decode(line)
                getattr(self, f"_do_{order.pop('order')}")(**order)
        self._over.set()

    def _do_meet(self, meeting: dict[str, Any], workers: list[str]) -> None:
        """These are the run's workers; each is asked whether it may and can."""
        self._chosen = [_Worker(client) for client in workers]
        for client in self._runner.clients:
            if client not in workers:
                self._late(client)
        for worker in self._chosen:
            self._runner.send_message("dm_meet", {"meeting": msgspec.json.encode(meeting).decode()}, worker.client)

    def _do_relate(self, one_clock: list[bool]) -> None:
        """Relate all clocks for the first time, and start the user of each worker."""
        for number, worker in enumerate(self._chosen):
            worker.one_clock = one_clock[number]
            relation = self._related(worker, MEETING_ROUNDS)
            worker.first = relation
            self.tell({"event": "related", "engine": number, **_as_told(relation)})
        OneEach.chosen = tuple(worker.client for worker in self._chosen)
        self._shape = shape = OneEngineEach(len(self._chosen))
        shape.runner = self._runner
        self._environment.shape_class = shape
        self._runner.start_shape()

    def _do_drive(self, number: int, specs: list[dict[str, Any]], often: bool) -> None:
        for worker, sent in zip(self._chosen, specs, strict=False):  # the first of them alone make the cold call
            spec = sent["spec"]
            names = {kind: spec[kind] for kind in ("samples", "gaps") if spec[kind] is not None}
            try:
                worker.files = Received(names)
            except OSError as error:
                self._lost(self._chosen.index(worker), worker, f"its records could not be written: {error.strerror}")
                continue
            first = worker.first
            if first is not None and not worker.one_clock:
                spec["mono0_ns"] += first.offset_ns
            said = {"number": number, "spec": msgspec.json.encode(sent).decode(), "often": often}
            self._runner.send_message("dm_spec", said, worker.client)

    def _do_begin(self, number: int, stage: str) -> None:
        """All begin a moment from now, each told on its own clock."""
        here = [worker for worker in self._chosen if worker.files is not None and not worker.gone]
        gone_ns = []
        for worker in here:
            worker.clocks = Clocks()
            relation = self._related(worker, STEP_ROUNDS)
            drift_ns = 0
            if relation is not None and worker.first is not None and not worker.one_clock:
                drift_ns = relation.offset_ns - worker.first.offset_ns
            gone_ns.append(drift_ns)
            said = {"stage": stage, **_as_told(relation), "gone_ns": drift_ns}
            self.tell({"event": "clock", "engine": self._chosen.index(worker), "said": said})
        start_ns = time.monotonic_ns() + LEAD_NS - self._mono0_ns
        for worker, drift_ns in zip(here, gone_ns, strict=True):
            self._runner.send_message("dm_begin", {"number": number, "start_ns": start_ns + drift_ns}, worker.client)

    def _do_zero(self, mono0_ns: int) -> None:
        self._mono0_ns = mono0_ns

    def _do_stop(self) -> None:
        for worker in self._chosen:
            if not worker.gone:
                self._runner.send_message("dm_stop", {}, worker.client)

    def _do_end(self) -> None:
        self._told_to_end = True
        if self._shape is not None:
            self._shape.over = True
        self._over.set()

    # From workers

    def _came(self, client_id: str, **_: Any) -> None:
        if any(worker.client == client_id for worker in self._chosen):
            return
        if self._chosen:
            gevent.spawn(self._late, client_id)
        elif client_id not in self._known:
            self._known[client_id] = None
            self.tell({"event": "came", "worker": client_id})

    def _late(self, client: str) -> None:
        self.tell({"event": "late", "worker": client})
        self._runner.send_message(
            "dm_bye",
            {"why": f"the run has begun with {len(self._chosen)} workers, and has no share left", "code": 2},
            client,
        )

    def _who(self, msg: Any) -> tuple[int, _Worker] | None:
        return next(((n, w) for n, w in enumerate(self._chosen) if w.client == msg.node_id and not w.gone), None)

    def _met(self, environment: Any, msg: Any) -> None:
        if (who := self._who(msg)) is not None:
            self.tell({**msg.data, "event": "met", "engine": who[0]})

    def _pong(self, environment: Any, msg: Any) -> None:
        back_ns = time.monotonic_ns()
        if (who := self._who(msg)) is not None:
            who[1].clocks.heard(msg.data["sent_ns"], msg.data["here_ns"], back_ns)

    def _said(self, environment: Any, msg: Any) -> None:
        if (who := self._who(msg)) is not None:
            row = msg.data.get("row")
            if isinstance(row, dict) and isinstance(row.get("event"), str) and not row["event"].startswith("worker_"):
                self.tell({"engine": who[0], "row": row})
            else:
                self._lost(*who, "it said what no engine says")

    def _rows(self, environment: Any, msg: Any) -> None:
        who = self._who(msg)
        if who is None or who[1].files is None:
            return
        number, worker = who
        assert worker.files is not None
        data = msg.data
        try:
            wrong = worker.files.take(data["kind"], data["at"], data["data"], data["sha256"])
        except OSError as error:
            wrong = f"its records could not be written: {error.strerror}"
        if wrong is not None:
            self._lost(number, worker, wrong)
            return
        self.tell({"event": "shipped", "engine": number})
        self._runner.send_message(
            "dm_got", {"kind": data["kind"], "upto": data["at"] + len(data["data"])}, worker.client
        )

    def _ended(self, environment: Any, msg: Any) -> None:
        who = self._who(msg)
        if who is None or who[1].files is None:
            return
        number, worker = who
        assert worker.files is not None
        wrong = worker.files.differ(msg.data["sha256"])
        worker.files.close()
        worker.files = None
        if wrong is not None:
            self._lost(number, worker, wrong)
        else:
            self.tell({"event": "ended", "engine": number, "code": msg.data["code"], "why": msg.data["why"]})

    def _leaving(self, environment: Any, msg: Any) -> None:
        if (who := self._who(msg)) is not None:
            self._lost(*who, msg.data["why"])

    # What Locust knows of them

    def _watch(self) -> None:
        while True:
            gevent.sleep(LOOK_EVERY_S)
            for client in [one for one in self._known if one not in self._runner.clients and not self._chosen]:
                del self._known[client]
                self.tell({"event": "went", "worker": client})
            for number, worker in enumerate(self._chosen):
                if worker.gone:
                    continue
                node = self._runner.clients.get(worker.client)
                if node is None:
                    self._lost(number, worker, "it left")
                elif node.state == STATE_MISSING:
                    self._lost(number, worker, "its heartbeats stopped")

    def _lost(self, number: int, worker: _Worker, why: str) -> None:
        worker.gone = True
        if worker.files is not None:
            worker.files.close()
        self.tell({"event": "lost", "engine": number, "why": why})
        self._runner.send_message("dm_bye", {"why": f"it was given up: {why}", "code": 2}, worker.client)

    def _related(self, worker: _Worker, rounds: int) -> Relation | None:
        for _ in range(rounds):
            self._runner.send_message("dm_ping", {"sent_ns": time.monotonic_ns()}, worker.client)
            gevent.sleep(ROUND_S)
        for _ in range(20):
            if worker.clocks.relation is not None:
                break
            gevent.sleep(0.05)
        return worker.clocks.relation


def _as_told(relation: Relation | None) -> dict[str, int | None]:
    if relation is None:
        return {"offset_ns": None, "bound_ns": None}
    return {"offset_ns": relation.offset_ns, "bound_ns": relation.bound_ns}


def main(argv: list[str]) -> None:
    """Serve until the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fd, host, port = int(argv[0]), argv[1], int(argv[2])
    sock = socket.socket(fileno=fd)
    try:
        master = _Master(sock, host, port)
    except SystemExit:
        sock.sendall(b'{"event":"unbound","why":"the address is in use"}\n')
        return
    except Exception as error:  # noqa: BLE001 - whatever Locust or its transport raise is told, and is the end
        sock.sendall(msgspec.json.encode({"event": "unbound", "why": str(error)}) + b"\n")
        return
    master.run()
    sys.stdout.flush()
    os._exit(0)  # Locust's greenlets end with their process


if __name__ == "__main__":
    main(sys.argv[1:])
