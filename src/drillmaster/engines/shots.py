"""What the HTTP engine sends: requests ready to go on the wire, and the order in which they are drawn.

1. Every payload comes once before one comes again: so many passes through the set, and the mix is exact. In turn, each pass has
   the set's order; shuffled, one of its own, which is a function of seed and pass alone.
2. A shuffled place is computed and not looked up: an order of 100,000 that is laid out at once is a pause of the client.
"""

import hashlib

from drillmaster.engines import Shot

__all__ = ["Deck", "Shots", "ShuffledShots"]


class Deck:
    """The order in which a set of so many is drawn."""

    def __init__(self, size: int, seed: int | None) -> None:
        """`seed` None: in turn."""
        self._size = size
        self._seed = seed
        bits = max(2, (size - 1).bit_length())
        self._mask = (1 << bits) - 1
        self._half = (bits + 1) // 2
        self._pass = -1
        self._keys: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self._size

    def place(self, number: int) -> int:
        """Which of the set the draw of this number is."""
        nth, at = divmod(number, self._size)
        if self._seed is None:
            return at
        if nth != self._pass:
            drawn = hashlib.sha256(f"{self._seed}/payloads/{nth}".encode()).digest()
            self._keys = tuple(int.from_bytes(drawn[byte : byte + 4], "little") for byte in range(0, 32, 4))
            self._pass = nth
        # Each step maps the numbers of so many bits onto themselves, so all of them do; what falls outside the set is mapped
        # on until it is within.
        mask, half = self._mask, self._half
        a, b, c, d, e, f, g, h = self._keys
        while True:
            at = (at * (a | 1) + b) & mask
            at ^= at >> half
            at = (at * (c | 1) + d) & mask
            at ^= at >> half
            at = (at * (e | 1) + f) & mask
            at ^= at >> half
            at = (at * (g | 1) + h) & mask
            if at < self._size:
                return at

    def aligned(self, number: int) -> int:
        """The number with which the next pass begins: a step that has whole passes then has each payload as often.

        In turn, any stretch of that length has, and no number is left out.
        """
        return number if self._seed is None else -(-number // self._size) * self._size


class Shots:
    """Requests ready to be sent: rendered once each, or at each call where a payload names the call."""

    def __init__(self, shot: Shot) -> None:
        fields = "".join(f"{name}: {value}\r\n" for name, value in shot.headers.items())
        self._line = f"{shot.method} {shot.target}".encode("latin-1")
        self._join = b"&" if "?" in shot.target else b"?"
        self._rest = f" HTTP/1.1\r\nHost: {shot.authority}\r\n{fields}".encode("latin-1")
        self._bodies = [payload.encode().split(b"{n}") for payload in shot.payloads]
        """Each cut where the call's number goes."""
        self._bare = shot.method in ("GET", "HEAD")
        self._ready = [
            (at, *self._render(pieces[0])) if len(pieces) == 1 else None for at, pieces in enumerate(self._bodies)
        ]
        none: list[bytes] = []
        self._forms = [(0, 0, none)] * len(self._bodies)
        """Of a payload that names the call, what `_form` gave last: most numbers that follow each other are as long."""

    def place(self, number: int) -> int:
        """Which payload the call of this number has."""
        return number % len(self._ready)

    def aligned(self, number: int) -> int:
        """The number with which a step begins, from this one on."""
        return number

    def take(self, number: int) -> tuple[int, int, bytes]:
        """Which payload, how many bytes of body, and all that is sent."""
        return self.ready(number % len(self._ready), number)

    def ready(self, at: int, number: int) -> tuple[int, int, bytes]:
        """The same of the payload at that place, whose number is given."""
        ready = self._ready[at]
        if ready is not None:
            return ready
        digits = b"%d" % number
        long, up, pieces = self._forms[at]
        if len(digits) != long:
            long, up, pieces = self._forms[at] = self._form(self._bodies[at], len(digits))
        return at, up, digits.join(pieces)

    def _form(self, pieces: list[bytes], digits: int) -> tuple[int, int, list[bytes]]:
        """All that is sent for numbers of so many digits, cut where the number goes, behind these and the bytes of body."""
        up, before, behind = self._around(sum(map(len, pieces)) + digits * (len(pieces) - 1))
        return digits, up, [before + pieces[0], *pieces[1:-1], pieces[-1] + behind]

    def _around(self, size: int) -> tuple[int, bytes, bytes]:
        """How many bytes of body a payload of that size is, and what is sent before and behind it."""
        if self._bare:
            return 0, self._line + self._join if size else self._line, b"%b\r\n" % self._rest
        return size, b"%b%bContent-Length: %d\r\n\r\n" % (self._line, self._rest, size), b""

    def _render(self, body: bytes) -> tuple[int, bytes]:
        up, before, behind = self._around(len(body))
        return up, before + body + behind


class ShuffledShots(Shots):
    """The same, each pass in an order of its own."""

    def __init__(self, shot: Shot, seed: int) -> None:
        super().__init__(shot)
        self.deck = Deck(len(shot.payloads), seed)

    def place(self, number: int) -> int:
        return self.deck.place(number)

    def aligned(self, number: int) -> int:
        return self.deck.aligned(number)

    def take(self, number: int) -> tuple[int, int, bytes]:
        return self.ready(self.deck.place(number), number)
