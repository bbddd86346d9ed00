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
_ROOT = "urn:drillmaster:contract"


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
        draft = _draft(root, place, pointer)
        options: dict[str, Any] = {"offline": True, "pattern_options": self._rs.RegexOptions()}
        try:
            if not pointer:
                return self._rs.validator_for(root, **options)
            if draft is None:
                # Of the whole document only what the pointer names is asked for, and its references hold as they stand.
                named = self._rs.validator_cls_for(root) if isinstance(root, dict) else self._rs.Draft202012Validator
                draft = named.__name__.removesuffix("Validator")
            whole = _plain(root) if draft == "Draft4" and "openapi" in root else root
            options["registry"] = self._rs.Registry([(_ROOT, whole)], draft=getattr(self._rs, draft))
            return getattr(self._rs, f"{draft}Validator")({"$ref": f"{_ROOT}#{_escaped(pointer)}"}, **options)
        except (ValueError, RuntimeError, TypeError, self._rs.ValidationError, self._rs.ReferencingError) as error:
            raise self._cannot(place, pointer, error) from None

    def _cannot(self, place: str, pointer: str, error: Exception) -> Problem:
        return Problem(
            f"{place}{pointer and '#' + pointer}",
            found=f"a schema that cannot be used: {str(error).splitlines()[0][:120]}" if str(error) else "no schema",
            wanted="a JSON Schema whose references lead within the document",
            remedy="mend the schema",
        )


def _draft(root: Any, place: str, pointer: str) -> str | None:
    """Say which draft a document's schemas are of, where the document says it; raise Problem where no schema is named."""
    target = root
    for word in pointer.split("/")[1:]:
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
        return "Draft4" if str(root["openapi"]).startswith("3.0") else "Draft202012"
    return None


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
