"""What the installed model clients do under each fault: measured with them, on loopback, in their own interpreter.

1. A client runs in the interpreter that has it, in a child per call (under Node: side by side), with a made-up key, without
   proxy and base-URL variables; a connection to anything but loopback is refused there. `probes/` imports nothing of ours.
2. A cell is one client, one fault, whole or streamed, behind a proxy of its own in front of the stand-in provider. What
   happened on the wire is in the cell's folder; attempts are counted there, never asked of the client.
3. The same call without a fault comes first. Only an answer with that text and that finish is an answer; anything else
   that was returned looked like success. A client whose plain call fails is not measured, and the table says why.
4. A cell whose fault met nothing is no result. Faults come from the catalogue by name: a new entry has its cells at once,
   and says itself what to try it with (`cells`).
"""

from typing import Any, Literal

import msgspec

__all__ = ["ALL", "BUSY_RATIO", "Cell", "Client", "Defaults", "NotRun", "Outcome", "Result", "Runtime", "Table"]

Outcome = Literal["answered", "raised", "fooled", "waiting", "not-met", "crashed"]
"""`answered`: the right answer, whatever it took. `fooled`: something else was returned as if it were one. `waiting`: no
outcome when the watch ended. `crashed`: the client's process ended without a word; nothing is known."""

BUSY_RATIO = 0.5
"""Of the clients' time limit: a call that lost more to a busy machine may have timed out or tried again for that alone."""
ALL = "all"
"""The label of what was not run of a client at all."""
Runtime = Literal["python", "node"]


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """One way to call one library."""

    name: str
    dist: str
    """What its package is called where it was installed from."""
    dialect: str
    family: str
    """The heading of the tables that it is in."""
    runtime: Runtime = "python"
    modes: tuple[bool, ...] = (False, True)
    """Streamed or not."""
    version: str = ""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a client limits by itself, read from it; None: nothing."""

    connect_s: float | None
    read_s: float | None
    total_s: float | None = None
    body_s: float | None = None
    """Of silence within a body, where the client's own time limit ends with the head."""
    retries: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try."""

    client: str
    fault: str
    label: str
    """The fault with what tells this cell from others of the same."""
    params: dict[str, Any]
    stream: bool
    calls: int = 1
    """Calls on one client; the last one is measured."""

    @property
    def id(self) -> str:
        label = "".join(c if c.isalnum() or c in "-_." else "-" for c in self.label)
        return f"{self.client}/{label}-{'stream' if self.stream else 'whole'}"


class NotRun(msgspec.Struct, frozen=True, kw_only=True):
    """What was left out, and why."""

    client: str
    """Its name, or `every client`."""
    label: str
    """The fault's, or `ALL`."""
    why: str
    failed: bool = False
    """Whether it was to be measured and could not be; else no check of this kind can."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cell."""

    client: str
    label: str
    stream: bool
    outcome: Outcome
    what: str
    """The class that was raised, or what was returned."""
    caught: bool | None
    """Whether `except` of the client's own error class catches what was raised; None where nothing was raised."""
    fallback: bool | None
    """Whether a fallback in that `except` would have engaged; None: none was needed, or nothing is known."""
    attempts: int | None
    """Requests seen on the wire for the call; None: the fault leaves nothing to see (a closed port)."""
    seconds: float
    """Until the outcome; while `waiting`, at least this."""
    worst_s: float | None
    """With the client's own time limits in place of ours; None: it does not end by itself."""
    log: str
    """The folder of the wire's events, from the table's own."""


class Table(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sdk-check"):
    """All of one check."""

    made_at: str
    drillmaster: str
    python: str
    limit_s: float
    """The clients' time limit during the check."""
    watch_s: float
    """How long a cell was watched before it counted as waiting."""
    took_s: float
    late_s: float
    """What a call lost to a busy machine at worst, where it took as long as its time limit."""
    clients: tuple[Client, ...]
    defaults: dict[str, Defaults]
    results: tuple[Result, ...]
    not_run: tuple[NotRun, ...]
    logs: str
    """The folder that each result's `log` is in."""
