"""A matrix on paper: what proxy, users and worker would have written of each cell."""

from typing import Any

from drillmaster.clock import rfc3339
from drillmaster.evidence import Defect, Manifest, Row
from drillmaster.matrix import Back, Cell, Table, Told, read
from drillmaster.outcomes import join

WALL0_NS = 1_796_000_000_000_000_000
S = 10**9
MS = 10**6


class Paper:
    """A baseline of 10 s, then cells of 10 s and 5 s of recovery. A request a second; times in ms."""

    def __init__(self, *, time_limit_s: float = 4.0) -> None:
        self.rows: list[Row | Defect] = []
        self._lines: dict[str, int] = {}
        self.cells: list[Cell] = []
        self.backs: dict[str, Back] = {}
        self.not_run: dict[str, str] = {}
        self.now_ns = 0
        self._n = 0
        self.manifest = Manifest(
            run="20261129T153000Z-1a2b", drill="matrix", service="support-agent", started_at=rfc3339(WALL0_NS, digits=9),
            mono0_ns="0", seed=1, plan={}, plan_sha256="p", policy_file="", policy_sha256="", payload_sha256="r",
            versions={}, seats={}, phases={"baseline_s": 10, "fault_s": 10, "recovery_s": 5},
            fault={"tag": "matrix", "faults": ["reset"]}, time_limit_s=time_limit_s, every_s=1,
        )  # fmt: skip
        self.add("events/conductor.jsonl", 1, "phase_started", phase="baseline", planned_s=10)
        for _ in range(10):
            self.request(primary=True)

    def add(self, file: str, ns: int, event: str, *, wall_off_ns: int = 0, **fields: Any) -> None:
        line = self._lines[file] = self._lines.get(file, 0) + 1
        extra = {"ns": ns} if file.startswith("events/") else {}
        wall_ns = WALL0_NS + ns + wall_off_ns
        body = {"t": rfc3339(wall_ns, digits=9), "event": event, **extra, **fields}
        self.rows.append(Row(file, line, wall_ns, event, body))

    def begin(self, fault: str = "reset", *, stream: bool | None = False, dialect: str | None = "openai_chat") -> str:
        """A cell's injection; what `request` does next is in it."""
        self.cell = f"w{len(self.cells) + 1}"
        self.cells.append(Cell(cell=self.cell, label=fault, fault=fault, params={}, dialect=dialect, stream=stream))
        self.began_ns = self.now_ns
        if dialect is not None:
            self.add("events/proxy.jsonl", self.now_ns, "fault_rule", window=self.cell, rule="cell", fault=fault)
        self.add("events/proxy.jsonl", self.now_ns, "fault_injected", window=self.cell, fault=fault)
        if dialect is None:
            self.add("events/proxy.jsonl", self.now_ns, "fault_met", window=self.cell, client_bytes=0, proof="probe")
        return self.cell

    def end(
        self, *, back: bool = True, matched: int | None = None, saw: tuple[str, ...] = (), recovery: int = 5
    ) -> None:
        """Its lift, at 10 s after it began, and its recovery."""
        self.now_ns = self.began_ns + 10 * S
        self.add("events/proxy.jsonl", self.now_ns, "fault_lifted", window=self.cell, why="ordered")
        if matched is not None:
            self.add(
                "events/proxy.jsonl", self.now_ns + 1, "fault_rule_tally", window=self.cell, rule="cell",
                matched=matched, counted=matched, taken=matched, met=0, undecided=0, saw=list(saw),
            )  # fmt: skip
        self.add("events/conductor.jsonl", self.now_ns + 2, "fault_gone", window=self.cell, gone=True, why="mode pass")
        self.backs[self.cell] = Back(
            cell=self.cell, back=back, after_s=1.5 if back else 60.0, why="" if back else "a circuit breaker is open"
        )
        self.now_ns += 10
        for _ in range(recovery):
            self.request(primary=True)

    def request(
        self,
        *,
        primary: bool = False,
        attempts: tuple[dict[str, Any], ...] = (),
        ms: float = 50,
        result: str = "answered",
        status: int | None = 200,
        answer: str | None = "ok",
        says: str | None = None,
        raised: str | None = None,
        told: str | None = None,
        payload: int | None = None,
    ) -> None:
        """One user's request, due now, and the agent's attempts for it; the next is a second later.

        `primary`: one attempt that the real endpoint answered. `says`: the worker's mark, `model_ok` or a fallback's path.
        """
        self._n += 1
        due, trace = self.now_ns + 100, f"{self._n:032x}"
        end, key = due + round(ms * MS), f"r{self._n}"
        self.add(
            "events/traffic.jsonl", due, "user_request", id=key, phase="start", due_ns=due, sent_ns=due, trace=trace,
            **({} if payload is None else {"payload": payload}),
        )  # fmt: skip
        if result != "never":
            self.add(
                "events/traffic.jsonl", end, "user_request", id=key, phase="end", sent_ns=due, first_ns=end, end_ns=end,
                status=status, result=result, answer=answer, **({} if told is None else {"source": told}),
            )  # fmt: skip
        tried = ({"window": None},) if primary else attempts
        for nth, given in enumerate(tried):
            over = end - 1 if nth == len(tried) - 1 else due + (nth + 1) * MS  # where the next begins
            attempt = {
                "id": f"a{self._n}.{nth}", "window": self.cell if self.cells else None, "conn": self._n, "nth": 1,
                "method": "POST", "path": "/v1/chat/completions", "dialect": "openai_chat", "model": "m",
                "stream": False, "status": 200, "retry_count": None, "key": None, "trace": trace, "nonce": None,
                "start_ns": due + nth * MS, "first_ns": due + nth * MS, "end_ns": over, "up_bytes": 80,
                "down_bytes": 90, "end": "clean", "terminal": True, "upstream": True, "intact": True,
            } | given  # fmt: skip
            if attempt["window"] is not None:
                self.add(
                    "events/proxy.jsonl", due + nth * MS, "fault_met", attempt=attempt["id"], window=self.cell,
                    client_bytes=80, rule="cell",
                )  # fmt: skip
            self.add("events/proxy.jsonl", over, "attempt", **attempt)
        if says is not None:
            event, path = ("model_ok", "primary") if says == "model_ok" else ("fallback_engaged", says)
            self.add("timeline.jsonl", end - 2, event, id=key, path=path)
        if raised is not None:
            self.add("timeline.jsonl", end - 2, "unhandled_exception", id=key, kind=raised)
        self.now_ns += S

    def table(
        self, share: float | None = None, *, ended: str | None = "completed", why: str = "", more: tuple[Cell, ...] = (),
        needed: int = 3,
    ) -> Table:  # fmt: skip
        if ended is not None:
            self.add("events/conductor.jsonl", self.now_ns + 1, "drill_ended", status=ended, why=why)
        told = Told(cells=(*self.cells, *more), backs=self.backs, not_run=self.not_run, requests_per_cell=needed)
        return read(join(self.manifest, self.rows), told, share)


RESET = {
    "status": None,
    "end": "rst",
    "terminal": False,
    "upstream": False,
    "intact": False,
    "first_ns": None,
    "down_bytes": 0,
}
DOWN = {"status": 503, "terminal": True, "upstream": False, "intact": False}
HELD = {
    "status": None,
    "end": "held",
    "terminal": False,
    "upstream": False,
    "intact": False,
    "first_ns": None,
    "down_bytes": 0,
}
LIFTED = HELD | {"end": "lifted"}
HALF = {"stream": True, "terminal": False, "intact": False}
"""The beginning of the endpoint's stream, without its end."""
ALTERED = {"intact": False}
MADE_UP = {"upstream": False, "intact": False, "terminal": False}
"""A 200 that no byte of the real endpoint is in."""
