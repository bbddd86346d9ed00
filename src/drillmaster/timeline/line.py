"""One line: the stamp in front, and no more than 4 kB."""

from typing import Any

import msgspec

from drillmaster.clock import rfc3339

__all__ = ["LINE_CAP_BYTES", "Stamps", "encode", "fit"]

LINE_CAP_BYTES = 4096
"""The longest line we write, newlines included."""

encode = msgspec.json.Encoder().encode  # NaN and infinities become null

_SHORTEST_CHARS = 32


class Stamps:
    """Wall times as the start of a line. The part up to the second is remembered: lines of one second share it."""

    def __init__(self) -> None:
        self._second: tuple[int, bytes] = (-1, b"")

    def opening(self, wall_ns: int) -> bytes:
        """Give `{"t":"2026-11-29T12:00:00.123456Z","event":`."""
        second, rest_ns = divmod(wall_ns, 1_000_000_000)
        known = self._second
        if known[0] != second:  # replaced as one pair, so that threads never mix two of them
            known = self._second = (second, b'{"t":"' + rfc3339(second * 1_000_000_000, digits=0)[:-1].encode())
        return known[1] + b'.%06dZ","event":' % (rest_ns // 1000)


def fit(fields: dict[str, Any], room_bytes: int) -> dict[str, Any]:
    """Shorten a line's fields until their JSON takes at most `room_bytes`: the longest first, each with a mark.

    Strings are clipped; a list or an object that is too long becomes its clipped text; what then still finds no room, a
    field with a gigantic name or one of hundreds, is left out and counted in `fields_left_out`.
    """
    fields = dict(fields)
    for _ in range(2 * len(fields) + 8):
        excess_bytes = len(encode(fields)) - room_bytes
        if excess_bytes <= 0:
            return fields
        sizes = {name: len(encode(value)) for name, value in fields.items()}
        name = max(sizes, key=sizes.__getitem__)
        value = fields[name]
        if not isinstance(value, str):
            value = encode(value).decode()
        if len(value) <= _SHORTEST_CHARS:
            break
        # A character is one to six bytes of JSON: keep what surely fits, and look again.
        keep = max(_SHORTEST_CHARS // 2, (sizes[name] - excess_bytes - 40) * len(value) // sizes[name])
        fields[name] = f"{value[:keep]}... ({len(value) - keep} characters clipped)"
    kept: dict[str, Any] = {}
    used_bytes = 40
    for name, value in fields.items():
        used_bytes += len(encode(name)) + len(encode(value)) + 2
        if used_bytes > room_bytes:
            break
        kept[name] = value
    return {**kept, "fields_left_out": len(fields) - len(kept)}
