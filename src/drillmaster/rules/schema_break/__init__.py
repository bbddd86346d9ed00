"""Breaking changes of a schema: who kept to the earlier version and is now refused, or misled.

1. It depends on who writes. In a *request* somebody else does, and what was accepted has to stay accepted: a field asked
   for, a value gone from a list, a tighter bound break a caller. In a *response* somebody else reads, and nothing may come
   that could not: a field that may be missing, a null, a value more break a reader. Of a plain JSON Schema nobody says
   which it is; it is both, unless its owner says one.
2. A field that is gone breaks both sides. A new name for it is a deletion and an addition.
3. More freedom for writers of requests breaks nobody; neither does a field more in a response, nor words for people
   (descriptions, examples, titles), nor another order, nor another way to spell the same (`$ref`, `allOf`, "or null").
4. What cannot be told (a changed pattern, a condition, choices beyond counting, a reference to another address) is
   *unclear* and counts as a break. Nothing is ever fetched.
   A `oneOf` is read as a choice: that two of its branches take the same value, and so none, is not looked for. A field
   that is named for the first time is a field more, also where an open object could have held another one of that name.
5. Each finding says who meets what, and where, with JSON pointers into both versions.

JSON Schema drafts 4 to 2020-12, tool lists (MCP, OpenAI, Anthropic), OpenAPI 3.0 and 3.1. Pure, and bounded: circles are
entered once, and a document beyond 20,000 pairs of schemas is unclear. What compares is imported when there is a document:
most changes touch none.
"""

from typing import Any, Literal

from drillmaster.rules.schema_break._breaks import BOTH, REQUEST, RESPONSE, Break, Level, Sides

__all__ = [
    "BOTH",
    "REQUEST",
    "RESPONSE",
    "Break",
    "DocumentKind",
    "Level",
    "Sides",
    "breaks",
    "document_kind",
    "references",
    "version_of",
]

DocumentKind = Literal["openapi", "swagger", "tools", "schema", "other"]

_SCHEMA_WORDS = frozenset({
    "$defs", "$id", "$ref", "$schema", "allOf", "anyOf", "const", "definitions", "enum", "items", "oneOf", "properties",
    "required",
})  # fmt: skip  # words, a line at a time
# In these every word that is compared means the same. Draft 4 knows neither `const` nor `contains`.
_EDITIONS = frozenset({
    "", "json-schema.org/draft-06/schema", "json-schema.org/draft-07/schema", "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema", "spec.openapis.org/oas/3.1/dialect/base",
})  # fmt: skip  # words, a line at a time
_WORDS = frozenset({"description", "summary", "title"})


def document_kind(root: Any) -> DocumentKind:
    """Say what a document is, by its own words."""
    from drillmaster.rules.schema_break._tools import listed_tools

    if isinstance(root, dict) and isinstance(root.get("openapi"), str):
        return "openapi"
    if isinstance(root, dict) and "swagger" in root:
        return "swagger"
    if listed_tools(root) is not None:
        return "tools"
    if isinstance(root, dict) and (root.keys() & _SCHEMA_WORDS or isinstance(root.get("type"), str | list)):
        return "schema"
    return "other"


def breaks(old: Any, new: Any, *, sides: Sides = BOTH, today: str = "") -> list[Break]:
    """Compare two versions of one document, decoded. `sides` is for a plain JSON Schema; the others say it themselves.

    `today` (`2026-11-30`) is what announced ends (`x-sunset`) are held against; "" ends nothing.
    """
    kinds = document_kind(old), document_kind(new)
    if kinds[0] != kinds[1]:
        says = f"the document was {kinds[0]} and is {kinds[1]}: whoever read it as it was cannot"
        return [Break(rule="document-kind-changed", level="break", says=says)]
    match kinds[1]:
        case "openapi":
            from drillmaster.rules.schema_break._openapi import openapi_breaks

            return [*_dialect(old, new, "jsonSchemaDialect"), *openapi_breaks(old, new, today=today)]
        case "tools":
            from drillmaster.rules.schema_break._tools import tool_breaks

            return tool_breaks(old, new, today=today)
        case "schema":
            from drillmaster.rules.schema_break._compare import Comparison
            from drillmaster.rules.schema_break._nodes import Document

            a, b = Document(old), Document(new)
            found = Comparison(a, b, today=today).schemas(a.node("", old), b.node("", new), sides, "")
            return [*_dialect(old, new, "$schema"), *found]
        case "swagger":
            if _bare(old) == _bare(new):
                return []
            says = "Swagger 2.0 is not compared; convert it to OpenAPI 3 to be told what breaks"
            return [Break(rule="not-compared", level="unclear", says=says)]
    return []


def _dialect(old: Any, new: Any, word: str) -> list[Break]:
    """Say where the same words mean something else: an old dialect does not know all of them, an unknown one any."""
    before, after = _edition(old.get(word)), _edition(new.get(word))
    if before == after or (before in _EDITIONS and after in _EDITIONS):
        return []
    says = f"the schema is to be read by {after or 'nothing that it names'} in place of {before or 'nothing that it named'}"
    return [Break(rule="dialect-changed", level="unclear", at=f"/{word}", was=f"/{word}", says=says)]


def _edition(named: Any) -> str:
    """Give the dialect that a document names, however it writes the address; "" for none, which is read as the newest."""
    text = named.strip().removesuffix("#").rstrip("/") if isinstance(named, str) else ""
    return text.removeprefix("https://").removeprefix("http://")[:80]


def _bare(value: Any) -> Any:
    """A document without words for people, where they are text."""
    if isinstance(value, dict):
        return {n: _bare(one) for n, one in value.items() if not (n in _WORDS and isinstance(one, str))}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def references(root: Any) -> list[Break]:
    """List the references of one document that lead out of it, or nowhere. A file beside it is a note."""
    from drillmaster.rules.schema_break._compare import unfollowed
    from drillmaster.rules.schema_break._nodes import Document

    found = Document(root).unresolved()
    return [unfollowed(one, one.at, shared=one.remote and "://" not in one.ref) for one in found]


def version_of(root: Any) -> str:
    """Give the version that a document says it has; "" for none."""
    if not isinstance(root, dict):
        return ""
    info = root.get("info")
    for value in (
        info.get("version") if isinstance(info, dict) and "openapi" in root else None,
        root.get("version"),
        root.get("x-version"),
        root.get("schemaVersion"),
        root.get("schema_version"),
    ):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
    import re

    for word in ("$id", "id"):
        name = root.get(word)
        if isinstance(name, str):
            found = re.findall(r"(?:^|[/._-])v?(\d+(?:\.\d+)*)(?=$|[/._#-])", name)
            marked = re.findall(r"(?:^|[/._-])(v\d+(?:\.\d+)*)(?=$|[/._#-])", name)
            if marked or found:
                return str((marked or found)[-1])
    return ""
