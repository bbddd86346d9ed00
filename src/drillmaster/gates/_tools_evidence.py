"""What the gate `tools` looks at: an allow-list, what clients are configured with, what servers offer, and whose it all is.

Values that came from JSON are kept as they were read, wrong types and all: what is wrong with them is for the gate to say.
"""

from typing import Any, Literal, Protocol

import msgspec

from drillmaster.changes import Lane
from drillmaster.rules.argv import Listed
from drillmaster.strict import canonical, shown

__all__ = [
    "Config",
    "FileFact",
    "Limits",
    "Listing",
    "Live",
    "Offered",
    "ServerEntry",
    "Tools",
    "article_hash",
    "servers_of",
]

KIND = "tool-allowlist"


class Limits(Protocol):
    """Of the gate's limits those by which single contracts and servers are judged."""

    @property
    def signers(self) -> tuple[str, ...]: ...
    @property
    def privileges(self) -> dict[str, Literal["reads", "writes"]]: ...
    @property
    def max_privileges(self) -> int: ...
    @property
    def urls(self) -> tuple[str, ...]: ...
    def listed(self) -> Listed: ...


class FileFact(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it lies there. `mode` and `uid` None: nobody looked, as with a file of a commit."""

    kind: Literal["file", "link", "absent", "other"]
    mode: int | None = None
    uid: int | None = None
    sha256: str = ""
    above: tuple[tuple[int, int], ...] = ()
    """Mode and owner of each folder on the way to it, and of each link among them, the nearest first."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """One version of the allow-list: the value of its JSON, or why there is none."""

    place: str
    value: Any = None
    missing: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is in our form, with servers and pins, or in the article's."""
        return isinstance(self.value, dict) and "kind" in self.value

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Its entries that are objects."""
        said = self.value.get("tools") if isinstance(self.value, dict) else None
        return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []

    @property
    def servers(self) -> list[dict[str, Any]]:
        said = self.value.get("servers") if isinstance(self.value, dict) else None
        return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []

    def server(self, name: str) -> dict[str, Any] | None:
        return next((one for one in self.servers if one.get("name") == name), None)

    def commands(self) -> list[list[str]]:
        """Every command of it that is a list of texts."""
        said = [one.get("command") for one in (*self.tools, *self.servers)]
        return [one for one in said if isinstance(one, list) and one and all(isinstance(word, str) for word in one)]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is configured with, as it was read: `.mcp.json`, `.cursor/mcp.json`, `.vscode/mcp.json` and the like.

    `shared`: the file holds other settings of the client too, which are its own affair.
    """

    place: str
    value: Any
    shared: bool = False


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a client's configuration."""

    place: str
    name: str
    value: Any


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as a server offers it: the JSON that came over the wire, whole. `server` "": the file does not say."""

    place: str
    tool: Any
    server: str = ""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said that was started for this: its tools, and its tools when it was asked again."""

    server: str
    tools: tuple[Any, ...]
    again: tuple[Any, ...]


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `before` None: there is no base to compare with. `signers` are people whose signature held."""

    listing: Listing
    now_ns: int
    file: FileFact | None = None
    committed: str = ""
    """Digest of the list as it was committed, where the file is the one on the disk; "": there is no commit to ask."""
    signing: Literal["held", "not demanded", "refused"] = "not demanded"
    signing_why: str = ""
    signers: tuple[str, ...] = ()
    configs: tuple[Config, ...] = ()
    offered: tuple[Offered, ...] = ()
    programs: dict[str, FileFact] = {}
    before: Listing | None = None
    configs_before: tuple[Config, ...] = ()
    lane: Lane | None = None
    touched: tuple[str, ...] = ()
    """Of the files above, those that the change touches, and their signatures."""
    live: Live | None = None


def servers_of(config: Config) -> tuple[list[ServerEntry], list[str]]:
    """Give the servers of a client's configuration, and what of the file is no configuration of servers."""
    value, wrong = config.value, []
    if not isinstance(value, dict):
        return [], [f"{shown(value)}, where an object is wanted"]
    held = value.get("mcp") if isinstance(value.get("mcp"), dict) and config.shared else None
    found: list[ServerEntry] = []
    groups = [(key, where[key]) for where in (value, held or {}) for key in ("mcpServers", "servers") if key in where]
    for key, group in groups:
        if not isinstance(group, dict):
            wrong.append(f"/{key}: {shown(group)}, where an object is wanted")
            continue
        found += [ServerEntry(place=config.place, name=name, value=one) for name, one in group.items()]
    if not groups and not config.shared:
        wrong.append("neither mcpServers nor servers in it")
    if not config.shared:
        known = {"mcpServers", "servers", "inputs", "$schema", "sandbox", "globalShortcut", "imports"}
        wrong += [f"the field {shown(name)}" for name in value if name not in known]
    return found, wrong


def article_hash(tool: dict[str, Any]) -> str:
    """Give `schema_hash` as the article's script computes it: SHA-256 over JSON with sorted names, without three fields.

    Names that are whole numbers come first and by size, since that is how JavaScript keeps them. Raises Problem for what
    `strict.canonical` refuses.
    """
    import hashlib

    body = {name: value for name, value in tool.items() if name not in ("origin", "signed_by", "schema_hash")}
    return hashlib.sha256(_sorted(body)).hexdigest()


def _sorted(value: Any) -> bytes:
    if isinstance(value, dict):
        parts = [canonical(name) + b":" + _sorted(value[name]) for name in sorted(value, key=_order)]
        return b"{" + b",".join(parts) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(_sorted, value)) + b"]"
    return canonical(value)


def _order(name: str) -> tuple[int, int, bytes]:
    is_index = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0") and int(name[:11]) < 2**32 - 1
    if is_index and len(name) <= 10:
        return 0, int(name), b""
    return 1, 0, name.encode("utf-16-be", "surrogatepass")
