"""What a drill may still spend at the real endpoint. No socket, no clock.

1. A request is counted as it goes upstream, so that the cap on requests is never passed by one.
2. What it costs in tokens is known at its end. One that is under way may cost as much as the dearest so far, so nothing more
   begins where those under way could use the cap up; before anything has ended nobody knows, and all that is under way then
   may pass it.
3. What is refused here is answered by the proxy and is no failure of the endpoint's: whoever owns the drill stops it.
4. What was spent outlives a proxy that is killed: it stands in a `Ledger`, memory of the drill's own, from the moment it is
   counted. Whoever replaces that proxy goes on with it; what was under way at the kill has cost as much as the dearest.
"""

import mmap

__all__ = ["LEDGER_BYTES", "Ledger", "Purse"]

LEDGER_BYTES = 32
_REQUESTS, _TOKENS, _UNDER_WAY, _DEAREST = range(4)


class Ledger:
    """Four numbers in shared memory, or in memory of this process alone."""

    __slots__ = ("numbers",)

    def __init__(self, fd: int | None = None) -> None:
        """`fd` is a file of `LEDGER_BYTES`, zero at first, that its owner keeps; None: nobody else needs it."""
        page = bytearray(LEDGER_BYTES) if fd is None else mmap.mmap(fd, LEDGER_BYTES)
        self.numbers = memoryview(page).cast("q")


class Purse:
    """What one drill spends. One proxy at a time has it."""

    __slots__ = ("_max_requests", "_max_tokens", "_spent", "refused")

    def __init__(self, max_requests: int | None, max_tokens: int | None, ledger: Ledger | None = None) -> None:
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self._spent = spent = (ledger or Ledger()).numbers
        spent[_TOKENS] += spent[_UNDER_WAY] * spent[_DEAREST]
        spent[_UNDER_WAY] = 0
        self.refused = 0
        """Requests that did not go upstream."""

    @property
    def requests(self) -> int:
        """How many went upstream, whoever counted them."""
        return self._spent[_REQUESTS]

    @property
    def tokens(self) -> int:
        """What those that are over cost."""
        return self._spent[_TOKENS]

    def begin(self) -> bool:
        """Whether one more may go upstream; if so it is counted, and `end` is owed."""
        spent = self._spent
        over = self._max_requests is not None and spent[_REQUESTS] >= self._max_requests
        if self._max_tokens is not None:
            coming = spent[_UNDER_WAY] * spent[_DEAREST]
            over = over or spent[_TOKENS] + coming >= self._max_tokens
        if over:
            self.refused += 1
            return False
        spent[_REQUESTS] += 1
        spent[_UNDER_WAY] += 1
        return True

    def end(self, tokens: int) -> None:
        """One that had begun is over, and cost so much."""
        spent = self._spent
        spent[_UNDER_WAY] -= 1
        spent[_TOKENS] += tokens
        spent[_DEAREST] = max(spent[_DEAREST], tokens)
