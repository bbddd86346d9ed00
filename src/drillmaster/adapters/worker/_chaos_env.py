"""Toggles from the environment, for a worker without a flag server.

`DRILLMASTER_FLAG_toolTimeout=on`, with the registry's path in DRILLMASTER_FLAGS. A value is one of `on`, `true`, `1`; `off`,
`false`, `0`; `share=0.3`, `first=1`, `every=3`. Any other text is refused at start-up, and so is a name that the registry does
not have. A flag goes off after its `auto_off_s` here too, and after its deadline it does not go on.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from drillmaster.errors import Problem
from drillmaster.friday.flags import Aim, Registered, last_instant_ns, load_registry, plain, shaped, unknown_flag

__all__ = ["PREFIX", "Told", "read", "toggles"]

PREFIX = "DRILLMASTER_FLAG_"
_ON = frozenset({"on", "true", "1"})
_OFF = frozenset({"off", "false", "0"})
_SHARE = re.compile(r"share=(0\.[0-9]{1,6}|1(?:\.0)?)")
_COUNT = re.compile(r"(first|every)=([1-9][0-9]{0,5})")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment says, shaped as a server's answer."""

    known: dict[str, str]
    on: list[dict[str, Any]]
    killed: list[str]
    seed: int = 1


def toggles(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are toggles, by their whole name."""
    return {name: value for name, value in environment.items() if name.startswith(PREFIX)}


def read(given: Mapping[str, str], environment: Mapping[str, str]) -> Told:
    """Read the toggles against the registry. Raises Problem."""
    path = environment.get("DRILLMASTER_FLAGS", "")
    if not path:
        raise Problem(
            f"environment: {next(iter(given))}",
            found="a toggle and no DRILLMASTER_FLAGS",
            wanted="the registry that says what the flag does",
            remedy="set DRILLMASTER_FLAGS to the path of flags.yaml",
        )
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # as the environment names it
            data = file.read()
    except OSError as error:
        raise Problem(
            f"DRILLMASTER_FLAGS={path}",
            found=error.strerror or "an error",
            wanted="a registry",
            remedy="name the path of flags.yaml",
        ) from None
    registry = load_registry(data, place=path)
    flags = registry.by_name
    on: list[dict[str, Any]] = []
    killed: list[str] = []
    for variable, text in given.items():
        name = variable.removeprefix(PREFIX)
        flag = flags.get(name)
        if flag is None:
            raise unknown_flag(name, flags, place=f"environment: {variable}")
        aim = _aim(variable, text, flag)
        if aim is None:
            continue
        if flag.kind == "kill":
            killed.append(name)
            continue
        if flag.deadline is not None and time.time_ns() >= (last_instant_ns(flag.deadline) or 0):
            raise Problem(
                f"environment: {variable}",
                found=f"a flag whose deadline {flag.deadline} has passed",
                wanted="one that may still be switched on",
                remedy=f"unset it, or ask {flag.owner}",
            )
        told = {field: value for field, value in msgspec.structs.asdict(aim).items() if value is not None}
        shape = plain(shaped(flag, {}, place=path))
        on.append({"flag": name, "kind": flag.kind, "window": "", "params": shape, "left_s": flag.auto_off_s, **told})
    return Told(known={flag.name: flag.kind for flag in registry.flags}, on=on, killed=killed)


def _aim(variable: str, text: str, flag: Registered) -> Aim | None:
    """Whom a toggle's flag meets; None: it is off. Raises Problem."""
    if text in _OFF:
        return None
    if text in _ON:
        return flag.aim
    if flag.kind != "kill":
        if (share := _SHARE.fullmatch(text)) is not None and float(share[1]) > 0:
            return Aim(share=float(share[1]))
        if (count := _COUNT.fullmatch(text)) is not None:
            return Aim(first=int(count[2])) if count[1] == "first" else Aim(every=int(count[2]))
    raise Problem(
        f"environment: {variable}",
        found=repr(text[:40]),
        wanted="on, off, true, false, 1, 0" + ("" if flag.kind == "kill" else ", share=0.3, first=1 or every=3"),
        remedy=f"{variable}=off",
    )
