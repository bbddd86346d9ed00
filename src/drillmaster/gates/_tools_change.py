"""What came of a change, and whether what servers offer is what was pinned: reasons, by the check that each belongs to.

1. A pin covers the whole JSON of a tool as it came over the wire (RFC 8785, so that order is nothing): description,
   annotations and fields nobody knows yet among it.
2. A contract lets in what the server's own schema knows, and less. What the server cannot take, or wants and is never
   given, is a contract for another tool.
3. What the allow-list or a client's configuration gained against the base (a privilege, a server, a URL, a command, another
   schema) has a person behind it: by signatures that held, or by the lane. A free lane touches neither file.
4. A privilege more takes two people.
5. Who is named in a contract that is new, or another than before, is one of those who signed the list. (In the article's form the
   name is a label, which nothing ties to a key.)
"""

from collections.abc import Iterator
from typing import Any

from drillmaster.errors import Problem
from drillmaster.gates._tools_contract import Reason, contradictions, named, of_words
from drillmaster.gates._tools_evidence import Limits, Listing, Offered, Tools, servers_of
from drillmaster.rules import names
from drillmaster.rules.schema_open import properties
from drillmaster.strict import digest, shown

__all__ = ["changes", "expansions", "of_live", "of_new_names", "of_offered", "vouched"]


def vouched(evidence: Tools) -> bool:
    """Whether a person stands behind what is new: rule 3."""
    return evidence.signing == "held" or (evidence.lane is not None and evidence.lane.name == "human")


def of_new_names(evidence: Tools, signers: tuple[str, ...]) -> Iterator[Reason]:
    """Hold who is named in new and changed contracts against who signed: rule 5. Who may be named at all is told elsewhere."""
    before = evidence.before
    if evidence.signing != "held" or before is None or before.missing or not evidence.listing.ours:
        return
    known = [one for one in before.tools if isinstance(one, dict)]
    for tool in evidence.listing.tools:
        said = tool.get("signed_by") if isinstance(tool, dict) else None
        if said in signers and tool not in known and said not in evidence.signers:
            held = ", ".join(evidence.signers) or "nobody"
            yield Reason(
                "signed-by-stranger", named(tool), f"signed_by {shown(said)}, and the list is signed by {held}"
            )


def of_offered(evidence: Tools, gate: Limits) -> Iterator[Reason]:
    """Compare what servers offer, from files or live, with the allow-list."""
    listing = evidence.listing
    offered = [*evidence.offered]
    if evidence.live is not None:
        offered += [Offered(place="live", server=evidence.live.server, tool=one) for one in evidence.live.tools]
    met: set[tuple[str, str]] = set()
    index = _Index(listing)
    looks = {names.look(named(one)): named(one) for one in listing.tools}
    origins: dict[str, str] = {}
    for one in offered:
        if not isinstance(one.tool, dict):
            yield Reason("tool-added", one.place, f"{shown(one.tool)} among the tools")
            continue
        name = named(one.tool)
        who = f"{one.server or one.place}: {name}"
        for fault in names.name_faults(one.tool.get("name")):
            yield Reason("tool-name", who, fault.found)
        yield from of_words({key: value for key, value in one.tool.items() if key != "name"}, who)
        entry = index.entry(one.server, name)
        if entry is None:
            like = looks.get(names.look(name))
            if like is not None and like != name:
                yield Reason("tool-twice", who, f"it looks like {shown(like)} of the allow-list, and is another")
            elif not _withheld(listing, one.server, name):
                yield Reason("tool-added", who, "offered, and neither allowed nor withheld")
            continue
        if not listing.ours and origins.setdefault(name, one.server or one.place) != (one.server or one.place):
            yield Reason("tool-twice", who, f"the name of a tool that {origins[name]} offers")
        if (one.server, name) in met and evidence.live is None:
            yield Reason("tool-twice", who, "offered twice")
        met.add((one.server, name))
        yield from _pinned(entry, one.tool, who, listing.ours)
        yield from _fits(entry, one.tool, who)
        said = entry.get("privileges")
        texts = [text for text in said if isinstance(text, str)] if isinstance(said, list) else []
        yield from contradictions(one.tool, texts, who, gate)
    yield from _removed(listing, offered, met)


class _Index:
    """The contracts of a list, found by server and name without going through all of them."""

    def __init__(self, listing: Listing) -> None:
        self._ours = listing.ours
        self._by_name: dict[str, list[dict[str, Any]]] = {}
        for one in listing.tools:
            self._by_name.setdefault(named(one), []).append(one)

    def entry(self, server: str, name: str) -> dict[str, Any] | None:
        """Give the first contract of that name; `server` "": of whatever server."""
        for one in self._by_name.get(name, ()):
            if one.get("name") == name and (not self._ours or not server or one.get("server", server) == server):
                return one
        return None


def _withheld(listing: Listing, server: str, name: str) -> bool:
    said = (listing.server(server) or {}).get("withheld") if listing.ours else None
    return isinstance(said, list) and name in said


def _pinned(entry: dict[str, Any], tool: dict[str, Any], who: str, ours: bool) -> Iterator[Reason]:
    if not ours:
        return
    pin = entry.get("wire_sha256")
    if not isinstance(pin, str) or not pin:
        yield Reason("pin-changed", who, f"wire_sha256 {shown(pin)}" if pin is not None else "no wire_sha256")
        return
    try:
        found = digest(tool)
    except Problem as problem:
        yield Reason("pin-changed", who, f"a descriptor that has no digest: {problem.found}")
        return
    if found != (pin if pin.startswith("sha256:") else f"sha256:{pin}"):
        yield Reason("pin-changed", who, f"pinned {pin.removeprefix('sha256:')[:12]}, offered {found[7:19]}")


def _fits(entry: dict[str, Any], tool: dict[str, Any], who: str) -> Iterator[Reason]:
    wire, allowed = tool.get("inputSchema"), entry.get("inputSchema")
    if not isinstance(wire, dict):
        yield Reason("overlay", who, f"the server's inputSchema is {shown(wire)}")
        return
    if wire.get("type") != "object":
        yield Reason("overlay", who, f"the server's inputSchema has type {shown(wire.get('type'))}")
        return
    for word, kind in (("properties", dict), ("required", list)):
        if word in wire and not isinstance(wire[word], kind):
            yield Reason("overlay", who, f"the server's {word} is {shown(wire[word])}")
    if "description" in tool and not isinstance(tool["description"], str):
        yield Reason("overlay", who, f"the server's description is {shown(tool['description'])}")
    known, let_in = properties(wire), properties(allowed)
    more = sorted(let_in - known) if known else []
    if more:
        yield Reason("overlay", who, f"the contract has {shown(more[0])}, which the server does not know")
    wanted = wire.get("required")
    needed = [one for one in wanted if isinstance(one, str)] if isinstance(wanted, list) else []
    given = allowed.get("required") if isinstance(allowed, dict) else None
    missing = [one for one in needed if not isinstance(given, list) or one not in given]
    if missing:
        yield Reason("overlay", who, f"the server requires {shown(missing[0])}, and the contract does not")


def _removed(listing: Listing, offered: list[Offered], met: set[tuple[str, str]]) -> Iterator[Reason]:
    if not offered:
        return
    asked = {one.server for one in offered}
    names_met = {name for _, name in met}
    names_anywhere = {name for where, name in met if not where}
    for entry in listing.tools:
        server = str(entry.get("server", "")) if listing.ours else ""
        if listing.ours and server not in asked and "" not in asked:
            continue  # nothing of that server was looked at
        name = named(entry)
        found = name in (names_anywhere if server else names_met) or (server, name) in met
        if not found and (listing.ours or "" in asked):
            yield Reason("tool-removed", named(entry), "allowed, and no longer offered")


def of_live(evidence: Tools) -> Iterator[Reason]:
    """Say what a server answered the second time that it did not the first."""
    live = evidence.live
    if live is None:
        return
    try:
        first, again = sorted(map(digest, live.tools)), sorted(map(digest, live.again))
    except Problem as problem:
        yield Reason("live-steady", live.server, f"an answer that has no digest: {problem.found}")
        return
    if first != again:
        yield Reason("live-steady", live.server, f"{len(live.tools)} tools, and when it was asked again others")


def expansions(evidence: Tools, gate: Limits) -> list[Reason]:
    """Privileges that the allow-list gained: rule 4. The first list of all gains nothing."""
    before = evidence.before
    if before is None or before.missing:
        return []
    granted = {one for tool in before.tools for one in _texts(tool)}
    index = _Index(before)
    found = []
    for tool in evidence.listing.tools:
        old = index.entry(str(tool.get("server", "")), named(tool))
        for one in _texts(tool):
            kind = gate.privileges.get(one)
            if old is not None and one not in _texts(old):
                found.append(Reason("privilege-expansion", named(tool), f"{one}, which it did not have"))
            elif old is None and (kind != "reads" or one not in granted):
                found.append(Reason("privilege-expansion", named(tool), f"{one}, with a new tool"))
    return found


def _texts(tool: dict[str, Any]) -> list[str]:
    said = tool.get("privileges")
    return [one for one in said if isinstance(one, str)] if isinstance(said, list) else []


def changes(evidence: Tools) -> dict[str, list[Reason]]:
    """What is new against the base, by the check that wants a person behind it."""
    found: dict[str, list[Reason]] = {"schema-origin": [], "command-changed": [], "server-added": [], "url-changed": []}
    before = evidence.before
    if before is None:
        return found
    index = _Index(before)
    for tool in evidence.listing.tools:
        name = named(tool)
        old = index.entry(str(tool.get("server", "")), name) if not before.missing else None
        if old is None:
            found["schema-origin"].append(Reason("schema-origin", name, "a new tool"))
            continue
        if not _same(old.get("inputSchema"), tool.get("inputSchema")):
            found["schema-origin"].append(Reason("schema-origin", name, "another inputSchema", "origin_not_human"))
        if not _same(old.get("command"), tool.get("command")):
            found["command-changed"].append(Reason("command-changed", name, "another command"))
    now, then = _entries(evidence.configs), _entries(evidence.configs_before)
    listed_then = {str(one.get("name")): one for one in before.servers}
    for server in evidence.listing.servers:
        old = listed_then.get(str(server.get("name")))
        if old is None:
            found["server-added"].append(Reason("server-added", str(server.get("name")), "in the allow-list"))
        elif not _same(old.get("url"), server.get("url")):
            found["url-changed"].append(Reason("url-changed", str(server.get("name")), "another url in the allow-list"))
        elif not _same(old.get("command"), server.get("command")):
            found["command-changed"].append(Reason("command-changed", str(server.get("name")), "another command"))
    for (place, name), value in now.items():
        who = f"{place}: {name}"
        if (place, name) not in then:
            found["server-added"].append(Reason("server-added", who, "a new server"))
            continue
        old_value = then[place, name]
        if not isinstance(value, dict) or not isinstance(old_value, dict):
            if not _same(value, old_value):
                found["command-changed"].append(Reason("command-changed", who, "another entry"))
            continue
        if not _same(value.get("url"), old_value.get("url")):
            found["url-changed"].append(Reason("url-changed", who, "another URL"))
        rest = {key: one for key, one in value.items() if key != "url"}
        if not _same(rest, {key: one for key, one in old_value.items() if key != "url"}):
            found["command-changed"].append(Reason("command-changed", who, "another way to start or reach it"))
    return found


def _entries(configs: tuple[Any, ...]) -> dict[tuple[str, str], Any]:
    return {(one.place, one.name): one.value for config in configs for one in servers_of(config)[0]}


def _same(one: object, other: object) -> bool:
    try:
        return digest({"": one}) == digest({"": other})
    except Problem:
        return False
