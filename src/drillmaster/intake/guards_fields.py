"""The fields of limits and facts in words: name, what kind of value, whether it has to be given, and what its source says of it."""

import ast
import inspect
import itertools
import textwrap
import typing
from typing import Any

import msgspec

__all__ = ["Field", "fields_of"]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field. `default` is JSON; "" where it has to be given."""

    name: str
    type: str
    needed: bool
    said: str
    default: str = ""


def fields_of(owner: Any) -> list[Field]:
    """List a type's fields; of a choice between types, those of all."""
    return [one for kind in typing.get_args(owner) or (owner,) for one in _fields(kind)]


def _fields(kind: Any) -> list[Field]:
    said = _said(kind)
    return [
        Field(
            name=field.encode_name,
            type=_in_words(field.type),
            needed=field.required,
            said=said.get(field.name, ""),
            default="" if field.required else _default(field),
        )
        for field in msgspec.structs.fields(kind)
    ]


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return msgspec.json.encode(value).decode()


def _said(kind: Any) -> dict[str, str]:
    """Read the string below each field; nothing where a program was installed without its source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = next((node.body for node in tree.body if isinstance(node, ast.ClassDef)), [])
    said = {}
    for node, below in itertools.pairwise(body):
        of_field = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if of_field and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            said[node.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]  # it is a name
    return said


def _in_words(hint: Any) -> str:
    """Say what kind of value a field takes, as JSON Schema has it."""
    schema = msgspec.json.schema(hint)
    words: list[str] = []
    for one in (schema, *schema.get("anyOf", ())):
        if "enum" in one or "const" in one:
            words += [f"`{word}`" for word in one.get("enum", [one.get("const")])]
        elif "type" in one:
            words.append(one["type"] + _bounds(one))
        elif "$ref" in one:
            words.append("object")
    return " or ".join(dict.fromkeys(words)) or "value"


def _bounds(schema: dict[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    return f" of at least {least:,}" if least is not None else f" of at most {most:,}" if most is not None else ""
