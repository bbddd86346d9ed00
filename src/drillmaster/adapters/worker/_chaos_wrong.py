"""A wrong answer: a value in place of a call, or what a call returned with one place of it changed.

What is changed is a copy: the tool's own value is left alone. Text that is JSON is changed as what it says and is text
again. A place that is not there, or is no number where one is multiplied, leaves the answer as it is; that is counted as
missed, and never as met.
"""

import copy
import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drillmaster.adapters.worker._chaos_client import Live

__all__ = ["NoPlace", "Wrong", "changed"]


class NoPlace(Exception):
    """There is nothing to change there."""


class Wrong:
    """What one flag makes of answers."""

    def __init__(self, live: "Live", params: dict[str, Any]) -> None:
        self._live = live
        self._change: dict[str, Any] | None = params.get("change")
        self._value = params.get("value")
        self._mission = ""

    def for_(self, mission: str) -> "Wrong":
        """The same, for a call of this mission."""
        own = copy.copy(self)
        own._mission = mission
        return own

    @property
    def replaces(self) -> bool:
        """Whether the tool is not asked at all."""
        return self._change is None

    @property
    def value(self) -> Any:
        """In place of an answer; the caller's own to change."""
        return copy.deepcopy(self._value)

    def count(self) -> None:
        self._live.count(self._mission)

    def of(self, answer: Any) -> Any:
        """The wrong answer for a right one."""
        if self._change is None:
            self.count()
            return self.value
        try:
            wrong = changed(answer, self._change)
        except NoPlace:
            self._live.count(self._mission, missed=True)
            return answer
        self.count()
        return wrong


def changed(answer: Any, change: dict[str, Any]) -> Any:
    """A copy of an answer with the change made. Raises NoPlace."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in change["at"].split("/")[1:]]
    if change.get("multiply") is not None:
        factor = change["multiply"]
        return _at(answer, steps, lambda value: _number(value, lambda a, b: a * b, factor))
    if change.get("add") is not None:
        amount = change["add"]
        return _at(answer, steps, lambda value: _number(value, lambda a, b: a + b, amount))
    return _at(answer, steps, lambda value: copy.deepcopy(change["put"]))


def _number(value: Any, make: Callable[[Any, Any], Any], by: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise NoPlace
    if isinstance(value, Decimal):
        return make(value, Decimal(str(by)))
    made = make(value, by)
    return int(made) if isinstance(value, int) and made == int(made) else made


def _at(value: Any, steps: list[str], make: Callable[[Any], Any]) -> Any:
    if isinstance(value, str | bytes) and steps:
        return _in_text(value, steps, make)
    if not steps:
        return make(value)
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if step not in value:
            raise NoPlace
        return {**value, step: _at(value[step], rest, make)} if type(value) is dict else _item(value, step, rest, make)
    if isinstance(value, list | tuple):
        names = getattr(value, "_fields", None)
        if names is not None and step in names:
            return value._replace(**{step: _at(getattr(value, step), rest, make)})  # type: ignore[union-attr]  # a namedtuple
        if not step.isdecimal() or int(step) >= len(value):
            raise NoPlace
        items = [*value[: int(step)], _at(value[int(step)], rest, make), *value[int(step) + 1 :]]
        return value._make(items) if names is not None else type(value)(items)  # type: ignore[union-attr]  # likewise
    if step.startswith("_") or not hasattr(value, step) or callable(getattr(value, step)):
        raise NoPlace
    return _attribute(value, step, _at(getattr(value, step), rest, make))


def _item(value: Any, step: str, rest: list[str], make: Callable[[Any], Any]) -> Any:
    own = copy.copy(value)
    own[step] = _at(value[step], rest, make)
    return own


def _attribute(value: Any, name: str, inner: Any) -> Any:
    """A copy of an object with one attribute changed, frozen ones too."""
    own = copy.copy(value)
    try:
        object.__setattr__(own, name, inner)
    except (AttributeError, TypeError):
        import msgspec

        if not isinstance(value, msgspec.Struct):
            raise NoPlace from None
        return msgspec.structs.replace(value, **{name: inner})
    return own


def _in_text(value: str | bytes, steps: list[str], make: Callable[[Any], Any]) -> Any:
    try:
        inner = json.loads(value)
    except (ValueError, RecursionError):
        raise NoPlace from None
    if not isinstance(inner, dict | list):
        raise NoPlace
    text = json.dumps(_at(inner, steps, make), ensure_ascii=False)
    return text.encode() if isinstance(value, bytes) else text
