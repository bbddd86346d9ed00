"""A fault's parameters as its entry declares them: for people, as a JSON Schema, and as examples that work.

All of it is read from the entry's fields and their `Meta`; nothing is said a second time.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from drillmaster.errors import Problem
from drillmaster.faults import Fault, make

__all__ = ["Parameter", "filled", "parameters", "parse", "schema"]

_UNITS: tuple[tuple[str, str], ...] = (
    ("bytes_per_s", "bytes a second"),
    ("_per_s", "a second"),
    ("per_s", "a second"),
    ("_bytes", "bytes"),
    ("bytes", "bytes"),
    ("_events", "events"),
    ("_ms", "ms"),
    ("_s", "s"),
)
_WORDS = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}
_MAX_WORD_CHARS = 2_000


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter, in words."""

    name: str
    kind: str
    """What it takes: a whole number, a number, text, true or false, or the words to choose from."""
    unit: str
    """From its name; empty where it has none."""
    bounds: str
    default: str
    """As JSON; empty: it must be given."""
    example: str
    """As JSON; empty: there is none."""
    description: str


def schema(kind: type[Fault]) -> dict[str, Any]:
    """The JSON Schema of `params` for this fault."""
    tag = str(kind.__struct_config__.tag)
    (found,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = str(found["$ref"]).rpartition("/")[2]
    shape = copy.deepcopy(parts[name])
    shape["properties"].pop("type", None)
    shape["required"] = [field for field in shape.get("required", ()) if field != "type"]
    if not shape["required"]:
        del shape["required"]
    shape.pop("description", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **shape, "title": f"params of {tag}"}


def parameters(kind: type[Fault]) -> tuple[Parameter, ...]:
    """The parameters of a fault, in the entry's own order."""
    shape = schema(kind)
    required = set(shape.get("required", ()))
    found = []
    for name, part in shape["properties"].items():
        merged = _merged(part)
        found.append(
            Parameter(
                name=name,
                kind=_kind(part),
                unit=next((unit for end, unit in _UNITS if name.endswith(end)), ""),
                bounds=_bounds(merged),
                default="" if name in required else _json(part.get("default")),
                example=_json(merged["examples"][0]) if merged.get("examples") else "",
                description=re.sub(r"\bNone\b", "null", str(merged.get("description", ""))),
            )
        )
    return tuple(found)


def filled(tag: str, kind: type[Fault], params: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`params` with the entry's examples for what must be given and was not; which names those are. Raises Problem."""
    shape = schema(kind)
    examples = {
        name: merged["examples"][0]
        for name, part in shape["properties"].items()
        if (merged := _merged(part)).get("examples") and name not in params
    }
    must = {name: examples[name] for name in shape.get("required", ()) if name in examples}
    try:
        make(tag, {**params, **must})
    except Problem as problem:
        try:
            make(tag, {**params, **examples})
        except Problem:
            raise _nearer(tag, kind, params, problem) from None
        return {**params, **examples}, tuple(examples)
    return {**params, **must}, tuple(must)


def _nearer(tag: str, kind: type[Fault], params: Mapping[str, Any], problem: Problem) -> Problem:
    """The same problem at the parameter that has it, where one was given that has it."""
    name = problem.found.partition("=")[0]
    one = next((one for one in parameters(kind) if one.name == name and name in params), None)
    if one is None:
        return problem
    if not problem.wanted.startswith(f"{one.name} as "):  # it says more than the schema does
        return Problem(f"--param {one.name}", found=problem.found, wanted=problem.wanted, remedy=problem.remedy)
    takes = ", ".join(part for part in (one.kind, one.unit, one.bounds) if part)
    return Problem(
        f"--param {one.name}",
        found=_json(params[one.name])[:80],
        wanted=takes,
        remedy=f"see: drillmaster fault show {tag}",
    )


def parse(tag: str, kind: type[Fault], words: tuple[str, ...]) -> dict[str, Any]:
    """Read `NAME=VALUE` words. A value is JSON where the parameter takes that, and else text. Raises Problem."""
    from drillmaster.strict import near

    known = schema(kind)["properties"]
    params: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        place = f"--param {name[:40]}"
        if not equals:
            raise Problem(place, found="no value", wanted="NAME=VALUE", remedy=f"write --param {name[:40]}=...")
        if name not in known:
            meant = near(name, known)
            raise Problem(
                place,
                found="no parameter of that name",
                wanted=f"one of {', '.join(known)}" if known else f"none: {tag} has no parameters",
                remedy=f"did you mean {meant}?" if meant else f"see: drillmaster fault show {tag}",
            )
        if name in params:
            raise Problem(place, found="two values", wanted="one", remedy="leave one out")
        if len(text) > _MAX_WORD_CHARS:
            raise Problem(place, found=f"{len(text)} characters", wanted="a value", remedy="shorten it")
        params[name] = _value(text, known[name])
    return params


def _value(text: str, part: dict[str, Any]) -> Any:
    kinds = {str(branch.get("type", "")) for branch in part.get("anyOf", (part,))}
    if "string" in kinds or "enum" in part or any("enum" in branch for branch in part.get("anyOf", ())):
        return None if text == "null" and "null" in kinds else text
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text  # the entry says what it wanted


def _merged(part: dict[str, Any]) -> dict[str, Any]:
    """What a property says, that of the branch that is not null included."""
    said = dict(part)
    for branch in part.get("anyOf", ()):
        if branch.get("type") != "null":
            said.update(branch)
    return said


def _kind(part: dict[str, Any]) -> str:
    words = []
    for branch in part.get("anyOf", (part,)):
        kind = str(branch.get("type", "anything"))
        words.append(", ".join(map(str, branch["enum"])) if "enum" in branch else _WORDS.get(kind, kind))
    return " or ".join(words)


def _bounds(said: dict[str, Any]) -> str:
    low, above, high = said.get("minimum"), said.get("exclusiveMinimum"), said.get("maximum")
    words = []
    if low is not None and high is not None:
        words.append(f"{_number(low)} to {_number(high)}")
    elif low is not None:
        words.append(f"at least {_number(low)}")
    elif above is not None:
        words.append(f"above {_number(above)}" + ("" if high is None else f", at most {_number(high)}"))
    elif high is not None:
        words.append(f"at most {_number(high)}")
    if said.get("maxLength") is not None:
        words.append(f"{said.get('minLength', 0)} to {said['maxLength']} characters")
    if said.get("pattern"):
        words.append(f"like {said['pattern']}")
    return ", ".join(words)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def _json(value: object) -> str:
    if isinstance(value, float) and value == int(value):
        value = int(value)
    return msgspec.json.encode(value).decode()
