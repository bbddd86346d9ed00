"""What the tools guard costs: `python bench/tools.py`.

1. One call, by CPU time: arguments read by strict rules, held against two schemas and both closed, and the decision.
   Beside it what a worker does without a guard: `json.loads` and one validation, by jsonschema (which the `mcp` client holds
   answers against schemas with) and by jsonschema-rs.
2. One comparison of a server that offers so many tools with a list of as many contracts.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema
import jsonschema_rs

from drillmaster.adapters.worker.tools import Shelf, SignedList, ToolSession
from drillmaster.gates._cases.tools import LIMITS
from drillmaster.gates.tools import Listing
from drillmaster.guards.tools import Tools
from drillmaster.strict import digest

ROUNDS = 5
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path"],
}
TEXT = '{"path": "src/app/retry/classifier.py", "line": 12, "tags": ["a", "b"]}'
SIGNED = {"server": "s", "origin": "human", "signed_by": "operator.local", "privileges": ["fs.read"]}
GUARD = Tools(
    privileges=("fs.read",),
    granted=("fs.read",),
    wire="pinned",
    max_compared_ms=3_600_000,
    max_arguments_bytes=20_000,
    max_calls=1_000_000,
)


class Loaded(Shelf):
    """A list in memory, whose signatures are no part of what is measured."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        contracts = [
            {
                **one,
                "server": "s",
                "origin": "human",
                "signed_by": "operator.local",
                "privileges": ["fs.read"],
                "wire_sha256": digest(one),
            }
            for one in tools
        ]
        value = {"kind": "tool-allowlist", "version": 1, "servers": [], "tools": contracts}
        self.gate = LIMITS
        self._list = SignedList(
            listing=Listing(place="bench", value=value), sha256=digest(value), signers=("operator.local",)
        )


def offers(count: int) -> list[dict[str, Any]]:
    return [{"name": f"tool_{at}", "description": "Read a file.", "inputSchema": SCHEMA} for at in range(count)]


def opened(count: int) -> ToolSession:
    session = ToolSession(Loaded(offers(count)), GUARD, "s", log=lambda *_: None)
    assert session.opened(offers(count)).allowed
    return session


def cpu_us(what: Callable[[], object]) -> float:
    """CPU of one call in microseconds, the best of some rounds."""
    times = 1
    while True:
        began = time.process_time_ns()
        for _ in range(times):
            what()
        if (took := time.process_time_ns() - began) > 20_000_000:
            break
        times *= 4
    best = took
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        for _ in range(times):
            what()
        best = min(best, time.process_time_ns() - began)
    return best / times / 1e3


def main() -> None:
    slow, fast = jsonschema.Draft202012Validator(SCHEMA), jsonschema_rs.Draft202012Validator(SCHEMA)
    session = opened(40)
    assert session.call("tool_7", TEXT).decision.allowed
    rows = {
        "the guard, a call that holds": lambda: session.call("tool_7", TEXT),
        "the guard, an argument that nobody signed": lambda: session.call("tool_7", TEXT.replace("line", "mode")),
        "json.loads and jsonschema": lambda: slow.validate(json.loads(TEXT)),
        "json.loads and jsonschema-rs": lambda: fast.validate(json.loads(TEXT)),
    }
    for what, act in rows.items():
        print(f"{what:<44}{cpu_us(act):>9.1f} µs")
    for count in (10, 40, 400):
        many, offered = opened(count), offers(count)
        print(f"{f'a comparison of {count} tools':<44}{cpu_us(lambda m=many, o=offered: m.opened(o)) / 1e3:>9.2f} ms")


if __name__ == "__main__":
    main()
