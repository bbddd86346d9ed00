"""What a drill may still spend at the real endpoint. No socket, no clock.

1. A request is counted as it goes upstream, so that the cap on requests is never passed by one.
2. What it costs in tokens is known at its end. One that is under way may cost as much as the dearest so far, so nothing more
   begins where those under way could use the cap up; before anything has ended nobody knows, and all that is under way then
   may pass it.
3. What is refused here is answered by the proxy and is no failure of the endpoint's: whoever owns the drill stops it.
"""

__all__ = ["Purse"]


class Purse:
    """One proxy's. One that replaces a killed proxy begins anew, so that each kill may cost the cap once more."""

    __slots__ = ("_dearest", "_max_requests", "_max_tokens", "_under_way", "refused", "requests", "tokens")

    def __init__(self, max_requests: int | None, max_tokens: int | None) -> None:
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self._under_way = 0
        self._dearest = 0
        self.requests = 0
        self.tokens = 0
        self.refused = 0
        """Requests that did not go upstream."""

    def begin(self) -> bool:
        """Whether one more may go upstream; if so it is counted, and `end` is owed."""
        spent = self._max_requests is not None and self.requests >= self._max_requests
        if self._max_tokens is not None:
            coming = self._under_way * self._dearest
            spent = spent or self.tokens + coming >= self._max_tokens
        if spent:
            self.refused += 1
            return False
        self.requests += 1
        self._under_way += 1
        return True

    def end(self, tokens: int) -> None:
        """One that had begun is over, and cost so much."""
        self._under_way -= 1
        self.tokens += tokens
        self._dearest = max(self._dearest, tokens)
