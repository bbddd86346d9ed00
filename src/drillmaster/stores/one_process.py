"""A store for a worker that is one process, such as a script or a test. Nothing of it outlives the process."""

import threading
import time
from typing import Any

from drillmaster.rules import AnyLaw
from drillmaster.stores.forking import renewed_in_a_child

__all__ = ["OneProcess"]


class OneProcess:
    """A store for a worker that is one process: nothing of it outlives that, and no other worker sees it."""

    place = "this process"

    def __init__(self) -> None:
        self.forked()
        renewed_in_a_child(self)
        self._states: dict[tuple[str, str], tuple[Any, int | None]] = {}
        self._base_us = time.time_ns() // 1_000 - time.monotonic_ns() // 1_000

    def forked(self) -> None:
        self._lock = threading.Lock()

    def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        name = (law.name, key)
        with self._lock:
            now_us = self._base_us + time.monotonic_ns() // 1_000
            state, _ = self._states.get(name, (None, None))
            then = law.step(state, question, now_us)
            if state is None:  # each new key takes two old ones along
                old = (
                    one for one, (_, forget_us) in self._states.items() if forget_us is not None and forget_us < now_us
                )
                for one in [one for _, one in zip(range(2), old, strict=False)]:
                    del self._states[one]
            if then.state is None:
                self._states.pop(name, None)
            else:
                self._states[name] = then.state, None if then.keep_us is None else now_us + then.keep_us
        return then.told

    def prepare(self) -> None:
        """There is nothing to make."""

    def close(self) -> None:
        """There is nothing to close."""
