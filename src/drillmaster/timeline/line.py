"""One line: the stamp in front, no secret in it that we know the look of, and no more than 4 kB."""

from typing import Any

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.screen import screen_argv, screen_text

__all__ = ["LINE_CAP_BYTES", "Stamps", "compose", "encode", "fit", "screened"]

LINE_CAP_BYTES = 4096
"""The longest line we write, newlines included."""

encode = msgspec.json.Encoder().encode  # NaN and infinities become null

_SHORTEST_CHARS = 32
_TOO_SHORT_CHARS = 12  # for a secret that has a shape; shorter ones are known by the name before them
_OUR_OWN = frozenset({"attempt", "id", "key", "nonce", "trace", "window"})  # made or matched by our own code


class Stamps:
    """Wall times as the start of a line. The part up to the second is remembered: lines of one second share it."""

    def __init__(self) -> None:
        self._second: tuple[int, bytes] = (-1, b"")

    def opening(self, wall_ns: int) -> bytes:
        """Give `{"t":"2026-11-29T12:00:00.123456Z","event":`."""
        second, rest_ns = divmod(wall_ns, 1_000_000_000)
        known = self._second
        return b'%b.%06dZ","event":' % (known[1] if known[0] == second else self._turn(second), rest_ns // 1000)

    def line(self, wall_ns: int, event: bytes, ns: int, fields: bytes) -> bytes:
        """Give a whole line of an event's name and of fields that are JSON already."""
        second, rest_ns = divmod(wall_ns, 1_000_000_000)
        known = self._second
        opening = known[1] if known[0] == second else self._turn(second)
        return b'%b.%06dZ","event":%b,"ns":%d,%b\n' % (opening, rest_ns // 1000, event, ns, fields[1:])

    def _turn(self, second: int) -> bytes:
        opening = b'{"t":"' + rfc3339(second * 1_000_000_000, digits=0)[:-1].encode()
        self._second = (second, opening)  # replaced as one pair, so that threads never mix two of them
        return opening


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


def compose(opening: bytes, fields: dict[str, Any]) -> bytes:
    """Put a line of somebody's own fields together: screened, at most 4 kB with a newline at each end.

    The line is screened whole, so that `"token":"..."` is seen for what it is, and a key in the place of a name or of the
    event as well; only where something was found, which is rare, its parts are taken one by one.
    """
    body = encode(fields)
    text = (opening + body).decode()
    if screen_text(text) is not text:
        opening = screen_text(opening.decode()).encode()
        fields = _screened_fields(fields)
        body = encode(fields)
    if len(opening) + len(body) + 3 > LINE_CAP_BYTES:
        body = encode(fit(fields, LINE_CAP_BYTES - len(opening) - 3))
    return opening + (b"," + body[1:] if len(body) > 2 else b"}") + b"\n"


def screened(fields: dict[str, Any]) -> dict[str, Any]:
    """Screen the texts among our own fields, one by one; the same object where there is nothing to hide."""
    clean: dict[str, Any] | None = None
    for name, value in fields.items():
        kind = type(value)
        if kind is str:
            if len(value) <= _TOO_SHORT_CHARS or name in _OUR_OWN:
                continue
            better: Any = screen_text(value)
        elif kind is dict or kind is list or kind is tuple:
            better = _screened_by_name(name, value)
        else:
            continue
        if better is not value:
            clean = clean or dict(fields)
            clean[name] = better
    return clean or fields


def _screened_fields(fields: dict[Any, Any]) -> dict[str, Any]:
    """Screen names and values. Two names that are keys stay two."""
    clean: dict[str, Any] = {}
    for name, value in fields.items():
        kept = screen_text(str(name))
        while kept in clean:
            kept += "_"
        clean[kept] = _screened_by_name(str(name), value)
    return clean


def _screened_by_name(name: str, value: Any) -> Any:
    match value:
        case str():
            # As `name="value"`, so that a telling name tells; what is cut off again is what was put in front.
            front = f'{name}="'
            said = screen_text(f'{front}{value}"')
            if said.startswith(front) and said.endswith('"'):
                return said[len(front) : -1]
            return screen_text(value)
        case dict():
            return _screened_fields(value)
        case list() | tuple() if value and all(type(word) is str for word in value):
            # A command's words, perhaps: one may say what the next one is.
            return [_screened_by_name(name, word) for word in screen_argv(value)]
        case list() | tuple():
            return [_screened_by_name(name, inner) for inner in value]
    return value
