"""What several engines say of the steps that they share, put together to what one would have said. Pure.

1. A step is ready when every engine is, begins with the first that began, and ends with the last that ended. How far apart they
   began is its skew.
2. What they did adds up: calls, connections, CPU, waits for a core. The longest turn is that of the one that had the longest, and
   so is the longest wait.
3. An engine on another machine may say anything: what is no word of an engine, or comes out of its order, is told apart before it
   is believed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Together"]

Said = Mapping[str, Any]

_COUNTS = ("ns", "in_flight", "connections", "done", "failed")
_SPENT = (
    *("wall_s", "cpu_s", "longest_turn_ms", "turn_p99_ms"),
    *("run_delay_s", "long_delay_s", "longest_delay_ms", "delay_p99_ms"),
)
_MOST = 1 << 62


class Together:
    """All engines of one list of steps."""

    def __init__(self, labels: Sequence[str], engines: int) -> None:
        self._labels = labels
        self._engines = engines
        self._said: dict[tuple[str, str], dict[int, Said]] = {}
        self._latest: dict[int, Said] = {}
        self._before: dict[int, Said] = {}
        """What each said when it began the step that it is at."""

    def wrong(self, engine: int, said: Said) -> str | None:
        """What is wrong with one more word of an engine, which is then not to be heard; None: nothing."""
        what, label = said.get("event"), said.get("stage")
        if not isinstance(label, str) or label not in self._labels:
            return "a word about a step that is none of its own"
        if what == "error":
            return None
        if what not in ("progress", "stage_ready", "stage_started", "stage_ended"):
            return "a word that no engine has"
        for name in _COUNTS + (_SPENT if what == "stage_ended" else ()):
            value = said.get(name)
            known = type(value) is int or (name in _SPENT and type(value) is float)
            if not known or value is None or not 0 <= value < _MOST:
                return f"no {name} that could be, in {what} of {label}"
        p95_s = said.get("p95_s")
        if p95_s is not None and not (type(p95_s) is float and 0 <= p95_s < _MOST):
            return f"no p95_s that could be, in {what} of {label}"
        latest = self._latest.get(engine)
        if latest is not None and any(said[name] < latest[name] for name in ("done", "failed")):
            return f"that it had made fewer calls than before, in {what} of {label}"
        over = [one for one in self._labels if engine in self._said.get(("stage_ended", one), {})]
        begun = engine in self._said.get(("stage_started", label), {})
        now = self._labels[len(over)] if len(over) < len(self._labels) else None
        if (
            label != now
            or (what == "stage_ended" and not begun)
            or (begun and what in ("stage_ready", "stage_started"))
        ):
            return f"{what} of {label}, which was not its turn"
        return None

    def hear(self, engine: int, said: Said) -> list[dict[str, Any]]:
        """What follows from one more word, as events; `engine` counts from 0, and from 1 in events."""
        what, label = said["event"], said["stage"]
        if what == "error":
            return [dict(said)]
        self._latest[engine] = said
        if what == "progress":
            return [{"event": "progress", "stage": label, **self._so_far(label)}]
        heard = self._said.setdefault((what, label), {})
        heard[engine] = said
        found: list[dict[str, Any]] = []
        if what == "stage_started":
            self._before[engine] = said
        if self._engines > 1 and what == "stage_started":
            found.append(
                {
                    "event": "share_started",
                    "stage": label,
                    "engine": engine + 1,
                    "start_ns": said["ns"],
                    "connections": said["connections"],
                }
            )
        elif self._engines > 1 and what == "stage_ended":
            found.append({"event": "share_ended", "stage": label, "engine": engine + 1, **self._ended(engine, said)})
        if len(heard) == self._engines:
            found.append(
                {"stage_ready": self._ready, "stage_started": self._begun, "stage_ended": self._over}[what](label)
            )
        return found

    def calls(self, label: str, engine: int) -> int | None:
        """How many calls an engine said that it made in a step that it ended; None: it did not say so."""
        said = self._said.get(("stage_ended", label), {}).get(engine)
        began = self._said.get(("stage_started", label), {}).get(engine)
        return None if said is None or began is None else said["done"] - began["done"]

    def finished(self, engine: int) -> bool:
        """Whether an engine has ended its last step."""
        return engine in self._said.get(("stage_ended", self._labels[-1]), {})

    def under_way(self, engine: int) -> tuple[str, int | None]:
        """The step that an engine was last heard of, and how many calls of it were over then; None: it had not begun it."""
        said = self._latest.get(engine)
        if said is None:
            return self._labels[0], None
        begun = engine in self._said.get(("stage_started", said["stage"]), {})
        return said["stage"], said["done"] - self._before[engine]["done"] if begun else None

    def _so_far(self, label: str) -> dict[str, Any]:
        """Of a step: calls that have ended, and failed, in all engines; the highest p95 that one of them says it has, or None."""
        begun = self._said.get(("stage_started", label), {})
        here = [(said, self._before[engine]) for engine, said in self._latest.items() if engine in begun]
        found: dict[str, Any] = {
            name: sum(said[name] - before[name] for said, before in here) for name in ("done", "failed")
        }
        p95s = [said["p95_s"] for said, _ in here if said.get("p95_s") is not None]
        in_flight = sum(said["in_flight"] for said in self._latest.values())
        return {**found, "in_flight": in_flight, "p95_s": max(p95s, default=None)}

    def _ready(self, label: str) -> dict[str, Any]:
        return {"event": "stage_ready", "stage": label}

    def _begun(self, label: str) -> dict[str, Any]:
        all_said = list(self._said["stage_started", label].values())
        starts_ns = [said["ns"] for said in all_said]
        found = {
            "event": "stage_started",
            "stage": label,
            "start_ns": min(starts_ns),
            "connections": sum(said["connections"] for said in all_said),
        }
        if self._engines > 1:
            found |= {"engines": self._engines, "skew_ms": round((max(starts_ns) - min(starts_ns)) / 1e6, 3)}
        return found

    def _over(self, label: str) -> dict[str, Any]:
        ended = self._said["stage_ended", label]
        started_ns = [said["ns"] for said in self._said["stage_started", label].values()]
        wall_s = ended[0]["wall_s"]
        if self._engines > 1:
            wall_s = (max(said["ns"] for said in ended.values()) - min(started_ns)) / 1e9
        found = {
            "event": "stage_ended",
            "stage": label,
            "end_ns": max(said["ns"] for said in ended.values()),
            "wall_s": round(wall_s, 6),
            "cpu_s": round(sum(said["cpu_s"] for said in ended.values()), 6),
            "longest_turn_ms": round(max(said["longest_turn_ms"] for said in ended.values()), 3),
            "turn_p99_ms": round(max(said["turn_p99_ms"] for said in ended.values()), 3),
            "run_delay_s": round(sum(said["run_delay_s"] for said in ended.values()), 6),
            "long_delay_s": round(sum(said["long_delay_s"] for said in ended.values()), 6),
            "run_delay_counted": all(said.get("run_delay_counted", False) for said in ended.values()),
            "longest_delay_ms": round(max(said["longest_delay_ms"] for said in ended.values()), 3),
            "delay_p99_ms": round(max(said["delay_p99_ms"] for said in ended.values()), 3),
            "connections": sum(said["connections"] for said in ended.values()),
        }
        if failed := next((said["tls_failed"] for said in ended.values() if said.get("tls_failed")), ""):
            found["tls_failed"] = failed
        return found | ({"engines": self._engines} if self._engines > 1 else {})

    def _ended(self, engine: int, said: Said) -> dict[str, Any]:
        return {
            "end_ns": said["ns"],
            "wall_s": round(said["wall_s"], 6),
            "cpu_s": round(said["cpu_s"], 6),
            "longest_turn_ms": round(said["longest_turn_ms"], 3),
            "turn_p99_ms": round(said["turn_p99_ms"], 3),
            "run_delay_s": round(said["run_delay_s"], 6),
            "long_delay_s": round(said["long_delay_s"], 6),
            "run_delay_counted": bool(said.get("run_delay_counted", False)),
            "longest_delay_ms": round(said["longest_delay_ms"], 3),
            "delay_p99_ms": round(said["delay_p99_ms"], 3),
            "connections": said["connections"],
            "calls": self.calls(said["stage"], engine),
        }
