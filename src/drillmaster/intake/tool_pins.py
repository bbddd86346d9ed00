"""A first allow-list from what servers offer, and an old one against what they offer now; what a person answers for stays blank.

1. Origin, signer and privileges are never filled in: not from a name, not from a description, not from a hint.
2. A contract whose tool is as it was pinned stays as it is. One whose tool changed gets the new pin and loses its origin and
   signer: a person has to read it again. A tool that is no longer offered stays, and is told.
3. The schema is the server's own, with every object closed. What cannot be closed so is left for a person, and the gate
   names it.
"""

from collections.abc import Sequence
from typing import Any

from drillmaster.gates._tools_evidence import KIND, Listing
from drillmaster.gates.tools import Offered
from drillmaster.strict import digest, shown

__all__ = ["pinned"]


def pinned(offered: Sequence[Offered], old: Listing | None) -> tuple[dict[str, Any], list[str]]:
    """Give an allow-list in our form, and a line for each tool of what became of it. Raises Problem for JSON without a digest."""
    servers: list[dict[str, Any]] = [dict(one) for one in old.servers] if old is not None and old.ours else []
    known = {str(one.get("name")) for one in servers}
    tools: list[dict[str, Any]] = [dict(one) for one in old.tools] if old is not None and old.ours else []
    by_name = {(str(one.get("server")), str(one.get("name"))): one for one in tools}
    said: list[str] = []
    seen: set[tuple[str, str]] = set()
    for one in offered:
        if not isinstance(one.tool, dict):
            said.append(f"{one.place}: left out {shown(one.tool)}, which is no tool")
            continue
        if one.server not in known:
            known.add(one.server)
            servers.append({"name": one.server, "command": []})
        name = one.tool.get("name")
        key, pin = (one.server, str(name)), digest(one.tool)
        seen.add(key)
        entry = by_name.get(key)
        if entry is None:
            entry = {
                "name": name,
                "server": one.server,
                "origin": "",
                "signed_by": "",
                "privileges": [],
                "inputSchema": _closed(one.tool.get("inputSchema")),
                "wire_sha256": pin,
            }
            tools.append(entry)
            by_name[key] = entry
            said.append(
                f"{one.server}: {shown(name)}: new; origin, signed_by and privileges are for a person to fill in"
            )
        elif entry.get("wire_sha256") == pin:
            said.append(f"{one.server}: {shown(name)}: as it was")
        else:
            entry.update(origin="", signed_by="", wire_sha256=pin)
            entry.pop("schema_hash", None)
            said.append(
                f"{one.server}: {shown(name)}: changed; origin and signed_by are blank until a person has read it"
            )
    asked = {one.server for one in offered}
    said += [
        f"{server}: {shown(name)}: no longer offered; take its contract out"
        for server, name in by_name
        if server in asked and (server, name) not in seen
    ]
    return {"kind": KIND, "version": 1, "servers": servers, "tools": tools}, said


def _closed(schema: Any) -> Any:
    """Close every object that says what it has, wherever it stands."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for word, inner in schema.items():
        if word in ("properties", "patternProperties", "$defs", "definitions") and isinstance(inner, dict):
            made[word] = {name: _closed(one) for name, one in inner.items()}
        elif word in ("enum", "const", "default", "examples", "required"):
            made[word] = inner
        else:
            made[word] = _closed(inner)
    if (
        schema.get("type") == "object"
        and "additionalProperties" not in schema
        and "unevaluatedProperties" not in schema
    ):
        made["additionalProperties"] = False
    return made
