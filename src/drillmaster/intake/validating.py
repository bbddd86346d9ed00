"""Examples against schemas, by `jsonschema-rs`, which is not asked to fetch anything.

1. The schema is the document, or what a pointer names in it; the document's own references hold in both.
2. An OpenAPI document says by its version which draft its schemas are. What `nullable` means is said in plain words of
   JSON Schema first.
3. A schema that is no schema, a reference to another address, a pattern that runs away: a Problem, never "it fits".
"""

from typing import Any

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.intake import format_of
from drillmaster.rules.schema_break import document_kind

__all__ = ["MISSING", "Validators"]

MISSING = "no jsonschema-rs, which tries the examples: pip install 'drillmaster[contracts]'"


class Validators:
    """Schemas compiled once each. Raises ImportError where the library is not there."""

    def __init__(self) -> None:
        import jsonschema_rs

        self._rs: Any = jsonschema_rs
        self._known: dict[tuple[str, str], Any] = {}

    def fault(self, data: bytes, place: str, pointer: str, value: Any) -> str:
        """Say why a value does not fit; empty: it fits. Raises Problem where that cannot be told."""
        key = (place, pointer)
        if key not in self._known:
            self._known[key] = self._compiled(data, place, pointer)
        try:
            for error in self._known[key].iter_errors(value):
                # The library's own message repeats the value, which may be a consumer's real one.
                at = "".join(f"/{step}" for step in error.instance_path)
                return f"{at or 'the whole'} breaks {'/'.join(str(step) for step in error.schema_path)[-80:]}"
        except (ValueError, RuntimeError, self._rs.ReferencingError) as error:
            raise self._cannot(place, pointer, error) from None
        return ""

    def _compiled(self, data: bytes, place: str, pointer: str) -> Any:
        root = strict.load(data, place=place, fmt=format_of(place))
        schema, draft = _schema(root, place, pointer)
        options = {"offline": True, "retriever": _refuse, "pattern_options": self._rs.RegexOptions()}
        try:
            if draft is None:
                return self._rs.validator_for(schema, **options)
            return getattr(self._rs, f"{draft}Validator")(schema, **options)
        except (ValueError, RuntimeError, TypeError, self._rs.ValidationError, self._rs.ReferencingError) as error:
            raise self._cannot(place, pointer, error) from None

    def _cannot(self, place: str, pointer: str, error: Exception) -> Problem:
        return Problem(
            f"{place}{pointer and '#' + pointer}",
            found=f"a schema that cannot be used: {str(error).splitlines()[0][:120]}" if str(error) else "no schema",
            wanted="a JSON Schema whose references lead within the document",
            remedy="mend the schema",
        )


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri[:80]} is not fetched")


def _schema(root: Any, place: str, pointer: str) -> tuple[Any, str | None]:
    """Give the schema that a pointer names, with the document's definitions beside it, and the draft it is of."""
    target = root
    for word in pointer.split("/")[1:] if pointer else ():
        name = word.replace("~1", "/").replace("~0", "~")
        try:
            target = target[int(name)] if isinstance(target, list) else target[name]
        except (LookupError, ValueError, TypeError):
            target = None
            break
    kind = document_kind(root)
    if pointer and (not pointer.startswith("/") or not isinstance(target, dict | bool)):
        raise Problem(
            place,
            found=f"no schema at {pointer[:80]!r}",
            wanted="a JSON pointer to one",
            remedy="mend `schema` in the manifest",
        )
    if kind in ("openapi", "tools", "swagger") and not pointer:
        raise Problem(
            place,
            found=f"{kind}, which holds many schemas",
            wanted="a pointer to one",
            remedy="add `schema`, such as /components/schemas/Order, to the fixture",
        )
    if kind == "openapi":
        old = str(root["openapi"]).startswith("3.0")
        whole = _plain(root) if old else root
        return {"$ref": f"#{_escaped(pointer)}", **_beside(whole)}, "Draft4" if old else "Draft202012"
    if not pointer:
        return root, None
    if isinstance(root, list):
        return target, None
    schema = {"$ref": f"#{_escaped(pointer)}", **_beside(root)}
    if isinstance(target, dict) and kind == "tools":
        return ({"$schema": target["$schema"], **schema} if "$schema" in target else schema), None
    return schema, None


def _beside(root: Any) -> dict[str, Any]:
    return {name: one for name, one in root.items() if name != "$ref"} if isinstance(root, dict) else {}


def _escaped(pointer: str) -> str:
    from urllib.parse import quote

    return quote(pointer, safe="/~")


def _plain(value: Any) -> Any:
    """Say `nullable` of OpenAPI 3.0 in plain JSON Schema."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    said = {name: _plain(one) for name, one in value.items()}
    if said.pop("nullable", None) is True and isinstance(said.get("type"), str):
        said["type"] = [said["type"], "null"]
        if isinstance(said.get("enum"), list) and None not in said["enum"]:
            said["enum"] = [*said["enum"], None]
    return said
