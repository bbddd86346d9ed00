"""How a law's question gets to a server and its answer back: the carriers' texts, and values by their kind."""

import importlib.resources
from typing import Any

import msgspec

from drillmaster.rules import AnyLaw
from drillmaster.stores import Unavailable

__all__ = ["Telling", "scripts", "words"]

_FLAGS: dict[Any, bool] = {b"t": True, b"f": False, 1: True, 0: False}
"""As PostgreSQL writes them, and as Redis counts."""


_IF_PREPARED = """\
if redis.call('EXISTS', 'drillmaster:prepared') == 0 then
  return redis.error_reply('NOTPREPARED it is not prepared, or came back without its data')
end
"""


def scripts(form: str) -> dict[str, str]:
    """Give the carriers of one form, `lua` or `sql`: a law's name and its text.

    Each of `lua` looks for the mark first: what was emptied under a connection has seen no token and spent nothing.
    """
    laws = importlib.resources.files(__package__) / "laws"
    files = sorted((one for one in laws.iterdir() if one.name.endswith(f".{form}")), key=lambda one: one.name)
    begin = _IF_PREPARED if form == "lua" else ""
    return {one.name.removesuffix(f".{form}"): begin + one.read_text(encoding="utf-8") for one in files}


def words(question: Any) -> list[str | None]:
    """Give a question's fields in their order, as texts; None stays None, and a tuple of structs is `1,2;3,4`."""
    return [_word(getattr(question, name)) for name in question.__struct_fields__]


def _word(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    if isinstance(value, tuple):
        return ";".join([",".join([word or "" for word in words(one)]) for one in value])
    return str(int(value)) if isinstance(value, bool | int) else str(value)


class Telling:
    """Reads a law's answer from what a server sent for each field, in their order. Texts of numbers count as numbers."""

    def __init__(self, law: AnyLaw) -> None:
        fields = msgspec.structs.fields(law.told)
        self._told = law.told
        self._names = tuple(field.name for field in fields)
        self._kinds = tuple(_kind_of(field.type) for field in fields)

    def read(self, row: Any, place: str) -> Any:
        """Raises Unavailable where the answer is none of this law."""
        try:
            if len(row) != len(self._names):
                raise ValueError(f"{len(row)} values")
            values = {
                name: None if value is None else kind(value)
                for name, kind, value in zip(self._names, self._kinds, row, strict=True)
            }
            return msgspec.convert(values, self._told)
        except (TypeError, ValueError) as error:
            raise Unavailable(
                place,
                found=f"an answer that is none of this law ({type(error).__name__})",
                wanted="a store prepared by this version",
                remedy="drillmaster store prepare URL",
            ) from None


def _kind_of(hint: Any) -> Any:
    text = str(hint)
    return _flag if hint is bool else int if "int" in text else _text


def _flag(value: Any) -> bool:
    found = _FLAGS.get(value)
    if found is None:
        raise ValueError("no flag")
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
