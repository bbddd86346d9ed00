"""What a worker counts of its calls: the ledger of decisions, and what good calls earned.

1. A good call takes no lock: it draws a number. `next` of an `itertools.count` is one step of the interpreter, and no two threads
   draw the same. Whoever reads such a count draws a number too, and takes these readings off again.
2. A token is given back as soon as good calls earned it, and no more is kept: a budget says how many retries there are in a row
   without a success, and to that each worker adds what it holds, a token and less than one good call's share.
3. While the shared bucket is full there is nothing to give back. A worker that heard this is silent until it earned half of the
   budget, at least one token and at most 20, or until a call fails; then it gives one token, and the rest would have run over.
   Half: where others took no more meanwhile than was earned here, the other half is still there. Where a retry takes a token, the
   one that was kept is given with the same question.
4. What is not given is lost, and that is the safe side. A forked child gives back nothing that its parent counted.
"""

import itertools
import threading
from collections import Counter

from drillmaster.guards import Decision
from drillmaster.guards.retry import REASONS, Retry
from drillmaster.stores.forking import renewed_in_a_child

__all__ = ["Earned", "Ledger"]

_TOKEN = 1_000
_MOST_SILENT = 20 * _TOKEN
_NEVER = 1 << 62


class Ledger:
    """Counts decisions by reason, calls, and how many of these were retries. One for a process."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        """Each call draws one."""
        self._looks = 0
        self.retries = 0
        self.forked()
        renewed_in_a_child(self)

    def forked(self) -> None:
        self._lock = threading.Lock()

    @property
    def requests(self) -> int:
        with self._lock:
            self._looks += 1
            return next(self.numbers) - self._looks

    def counts(self) -> dict[str, int]:
        """Give every reason of the guard and how often it stood in a decision."""
        with self._lock:
            return {reason: self._reasons[reason] for reason in REASONS}

    def ratio(self) -> float | None:
        """Give retries for each request; None: there was none."""
        requests = self.requests
        return self.retries / requests if requests else None

    def retried(self) -> None:
        """Count one attempt more of a call."""
        with self._lock:
            self.retries += 1

    def decided(self, decision: Decision) -> None:
        """Count a decision's reason."""
        with self._lock:
            self._reasons[decision.reason] += 1


class Earned:
    """Good calls of one route in this process that were not given back yet."""

    def __init__(self, guard: Retry) -> None:
        owes = round(guard.refund * _TOKEN)
        silent = min(_MOST_SILENT, max(_TOKEN, guard.budget_tokens * _TOKEN // 2))
        self._token = -(-_TOKEN // owes) if owes else _NEVER
        self._silence = -(-silent // owes) if owes else _NEVER
        self.numbers = itertools.count(1)
        """Each good call draws one. From `due` on it is time to `take`."""
        self.forked()
        renewed_in_a_child(self)

    def forked(self) -> None:
        self._lock = threading.Lock()
        self._gone = next(self.numbers)
        """The last number of those that are looks, or were given back: so many are no good calls any more."""
        self.silent = False
        """Whether more than a token's good calls may be here: the bucket was full when it was last heard of."""
        self._wait(full=False)

    def take(self, *, least: int | None = None) -> int:
        """Take what is to be given back, as a number of good calls: a token's at most, 0 where it is not time yet.

        `least` asks for it where so many calls are there, whether it is time or not.
        """
        with self._lock:
            return self._taken(self._wanted if least is None else least)

    def take_with_a_retry(self) -> int:
        """Take a token's good calls, if so many are here, to give them back with the question that takes a token."""
        with self._lock:
            self._wait(full=False)
            return self._taken(self._token)

    def heard(self, *, full: bool) -> None:
        """Hear from the store whether the bucket is full. Without an answer it is not."""
        with self._lock:
            self._wait(full=full)

    def _taken(self, least: int) -> int:
        number = next(self.numbers)
        self._gone += 1  # this look
        calls = number - self._gone
        if calls >= least:
            self._gone = number
        self.due = self._gone + self._wanted
        return min(calls, self._token) if calls >= least else 0

    def _wait(self, *, full: bool) -> None:
        self._wanted = self._silence if full else self._token
        self.silent = self._wanted > self._token
        self.due = self._gone + self._wanted
