"""What the HTTP engine sends: requests ready to go on the wire."""

from drillmaster.engines import Shot

__all__ = ["Shots"]


class Shots:
    """Requests ready to be sent: rendered once each, or at each call where a payload names the call."""

    def __init__(self, shot: Shot) -> None:
        fields = "".join(f"{name}: {value}\r\n" for name, value in shot.headers.items())
        self._opening = f"{shot.method} {shot.target} HTTP/1.1\r\nHost: {shot.authority}\r\n{fields}".encode("latin-1")
        self._bodies = [payload.encode().split(b"{n}") for payload in shot.payloads]
        """Each cut where the call's number goes."""
        self._bare = shot.method in ("GET", "HEAD")
        self._ready = [
            (at, *self._render(pieces[0])) if len(pieces) == 1 else None for at, pieces in enumerate(self._bodies)
        ]

    def take(self, number: int) -> tuple[int, int, bytes]:
        """Which payload, how many bytes of body, and all that is sent."""
        at = number % len(self._ready)
        ready = self._ready[at]
        if ready is not None:
            return ready
        return (at, *self._render((b"%d" % number).join(self._bodies[at])))

    def _render(self, body: bytes) -> tuple[int, bytes]:
        if self._bare:
            return 0, self._opening + b"\r\n"
        return len(body), b"%bContent-Length: %d\r\n\r\n%b" % (self._opening, len(body), body)
