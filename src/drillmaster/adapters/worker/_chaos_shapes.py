"""What a decorated function is made of: its gate, and a wrapper with the very parameters of what they wrap.

A wrapper that takes `*args, **kwargs` makes a tuple and a dict for each call, which costs more than all the rest of it. So
the wrapper of a Python function is written for its parameters, once, and compiled; what is no Python function gets the
general one. Names in it are those of a function that was compiled before, and ours.

A call under a capability is counted before it looks at the gate: whoever kills first shuts the gate and then counts, so no
call is missed by both.

Nothing delegates to an asynchronous generator, so a wrapper that is one pays for each item. This one is a plain function that
hands out the function's own, and its code says of itself what calling it gives, for those who ask `inspect`: CPython makes a
generator where the code begins with the instruction for it, and reads the flag for nothing else.
"""

import functools
import inspect
import itertools
import keyword
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

__all__ = ["Forced", "Gate", "Gates", "shaped"]

Kind = Literal["plain", "coroutine", "generator", "asynchronous generator"]
_OURS = frozenset({"_dm_function", "_dm_gate", "_dm_meet", "_dm_begin", "_dm_end"})


class Forced:
    """What a flag forces on one call; `raises` of the decorator may make its own client's error of it."""

    __slots__ = ("flag", "kind", "message", "status")

    def __init__(self, flag: str, kind: str, message: str, status: int | None) -> None:
        self.flag = flag
        self.kind = kind
        """`timeout`, `error` or `kill`."""
        self.message = message
        self.status = status


class Gate:
    """What one decorated function looks at."""

    __slots__ = ("__weakref__", "base", "begun", "capability", "ended", "flags", "limit_s", "name", "off", "raises")

    def __init__(
        self,
        flags: tuple[str, ...],
        capability: str,
        limit_s: float | None,
        raises: Callable[[Forced], BaseException | None] | None,
        name: str,
    ) -> None:
        self.off = False
        """Whether there is nothing to ask. Not before the state is known for the first time."""
        self.flags = flags
        self.capability = capability
        self.limit_s = limit_s
        self.raises = raises
        self.name = name
        self.begun = itertools.count()
        self.ended = itertools.count()
        self.base = 0

    def running(self) -> int:
        """How many calls are under way; counted where there is a capability."""
        # A count's next number is in its text; asking it for the number would take one.
        begun, ended = int(repr(self.begun)[6:-1]), int(repr(self.ended)[6:-1])
        return max(0, begun - ended - self.base)


class Gates:
    """Those of all functions that are still there: one may decorate closures for as long as a process lives."""

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Gate]] = {}

    def add(self, gate: Gate) -> None:
        key = id(gate)
        self._refs[key] = weakref.ref(gate, lambda ref: self._refs.pop(key, None) and None)

    def __iter__(self) -> Iterator[Gate]:
        for ref in tuple(self._refs.values()):
            gate = ref()
            if gate is not None:
                yield gate


def shaped(function: Callable[..., Any], kind: Kind, gate: Gate, meet: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function: call it where the gate is off, and `meet` where it is not."""
    code = getattr(function, "__code__", None) if isinstance(function, types.FunctionType) else None
    parameters = _parameters(code) if code is not None else None
    known = parameters or (("*args", "**kwargs"), ("*args",), ("**kwargs",))
    make = _make(kind, bool(gate.capability), *known)
    wrapper: Callable[..., Any] = make(function, gate, meet, gate.begun.__next__, gate.ended.__next__)
    if parameters is not None:
        assert isinstance(function, types.FunctionType)
        wrapper.__defaults__ = function.__defaults__
        wrapper.__kwdefaults__ = function.__kwdefaults__
    return functools.wraps(function)(wrapper)


def _says_asynchronous(code: types.CodeType) -> types.CodeType:
    """The code of `make` around a wrapper that `inspect.isasyncgenfunction` takes for what it stands for."""
    inner = tuple(
        one.replace(co_flags=one.co_flags | inspect.CO_ASYNC_GENERATOR) if isinstance(one, types.CodeType) else one
        for one in code.co_consts
    )
    return code.replace(co_consts=inner)


_Words = tuple[str, ...]


def _parameters(code: types.CodeType) -> tuple[_Words, _Words, _Words] | None:
    """How the parameters are declared, and how they are passed on, by place and by name; None where that cannot be written."""
    names = code.co_varnames
    by_place, by_name = names[: code.co_argcount], names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    at = code.co_argcount + code.co_kwonlyargcount
    declared: list[str] = list(by_place)
    if code.co_posonlyargcount:
        declared.insert(code.co_posonlyargcount, "/")
    placed, named = list(by_place), [f"{name}={name}" for name in by_name]
    used = [*by_place, *by_name]
    if code.co_flags & inspect.CO_VARARGS:
        declared.append(f"*{names[at]}")
        placed.append(f"*{names[at]}")
        used.append(names[at])
        at += 1
    elif by_name:
        declared.append("*")
    declared += by_name
    if code.co_flags & inspect.CO_VARKEYWORDS:
        declared.append(f"**{names[at]}")
        named.append(f"**{names[at]}")
        used.append(names[at])
    if any(not name.isidentifier() or keyword.iskeyword(name) or name in _OURS for name in used):
        return None
    return tuple(declared), tuple(placed), tuple(named)


@functools.lru_cache(256)
def _make(
    kind: Kind, counted: bool, declared: _Words, placed: _Words, named: _Words
) -> Callable[..., Callable[..., Any]]:
    call = f"_dm_function({', '.join((*placed, *named))})"
    given = f"({''.join(f'{word}, ' for word in placed)})"
    meet = f"_dm_meet(_dm_gate, _dm_function, {given}, dict({', '.join(named)}))"
    before, define = {"coroutine": ("await ", "async def"), "generator": ("yield from ", "def")}.get(kind, ("", "def"))
    body = [
        "if _dm_gate.off:",
        f"    return ({before}{call})",
        f"return ({before}{meet})",
    ]
    if counted and kind == "asynchronous generator":
        body = body[2:]  # its items are looked at one by one, and it is counted from the first to the last
    elif counted:
        body = ["_dm_begin()", "try:", *(f"    {line}" for line in body), "finally:", "    _dm_end()"]
    lines = [
        "def make(_dm_function, _dm_gate, _dm_meet, _dm_begin, _dm_end):",
        f"    {define} wrapper({', '.join(declared)}):",
        *(f"        {line}" for line in body),
        "    return wrapper",
    ]
    space: dict[str, Any] = {}
    exec(compile("\n".join(lines), "<chaos>", "exec"), space)  # noqa: S102  # a template of ours around names that were compiled
    made: types.FunctionType = space["make"]
    if kind == "asynchronous generator":
        return types.FunctionType(_says_asynchronous(made.__code__), space)
    return made
