"""Configurations of clients that do not write `mcpServers` at the top of a JSON file, put into that form.

1. Where a client keeps its servers is a path of names in its file: VS Code `mcp.servers` (in a workspace below `settings`, in a
   container below `customizations.vscode`), Zed `context_servers`, Codex `mcp_servers` in TOML, Continue `mcpServers` as a list in
   YAML, OpenCode and Crush `mcp`, Goose `extensions`, Amp `amp.mcpServers`, Claude Code `projects.*.mcpServers`.
2. A field of another name is given the one it has elsewhere. What is not known here stays, and the gate says so.
3. Other settings of the file are the client's own affair.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["servers_in"]

_PLACES: tuple[tuple[str, ...], ...] = (
    ("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp", "mcpServers"), ("settings", "mcp", "servers"),
    ("settings", "mcpServers"), ("customizations", "vscode", "mcp", "servers"),
    ("customizations", "vscode", "settings", "mcp", "servers"), ("context_servers",), ("mcp_servers",), ("amp.mcpServers",),
    ("mcp.servers",), ("projects", "*", "mcpServers"), ("settings", "context_servers"),
)  # fmt: skip  # paths of names
_NAMES: dict[str, str] = {
    "environment": "env", "envs": "env", "cmd": "command", "uri": "url", "http_headers": "headers", "httpUrl": "url",
    "serverUrl": "url",
}  # fmt: skip  # pairs
_HARMLESS = frozenset(
    {
        "source", "settings", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "enabled_tools", "disabled_tools",
        "required", "bearer_token_env_var", "bundled", "env_vars", "env_keys", "available_tools", "disabledTools", "includeTools",
        "excludeTools", "requestTimeout", "connectionTimeout", "chatMenu", "serverInstructions", "iconPath",
    }
)  # fmt: skip  # words, a line at a time
_TYPES = {"remote": "http", "builtin": None, "streamable_http": "http"}


def servers_in(value: Any) -> dict[str, Any]:
    """Gather the servers of a client's settings as `{"mcpServers": {NAME: ENTRY}}`; what is no object stays, to be named."""
    if not isinstance(value, dict):
        return {"mcpServers": value}
    found: dict[str, Any] = {}
    for place, group in _groups(value):
        if isinstance(group, list):
            group = {
                str(one.get("name", at)) if isinstance(one, dict) else str(at): one for at, one in enumerate(group)
            }
        if not isinstance(group, dict):
            return {"mcpServers": group}
        for name, entry in group.items():
            key = name if name not in found else f"{place}/{name}"
            found[key] = _entry(entry)
    return {"mcpServers": found}


def _groups(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for place in _PLACES:
        for group in _at(value, place):
            yield ".".join(place), group
    for name in (
        "mcp",
        "extensions",
    ):  # OpenCode, Crush and Goose: each entry is a server, or something of the client's own
        group = value.get(name)
        if isinstance(group, dict) and not group.keys() & {"servers", "mcpServers"}:
            yield name, {key: one for key, one in group.items() if _starts(one)}


def _at(value: Any, place: tuple[str, ...]) -> Iterator[Any]:
    if not place:
        yield value
    elif isinstance(value, dict):
        for name in value if place[0] == "*" else [place[0]]:
            if name in value:
                yield from _at(value[name], place[1:])


def _starts(entry: Any) -> bool:
    return isinstance(entry, dict) and bool(entry.keys() & {"command", "cmd", "url", "uri", "args"})


def _entry(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    made: dict[str, Any] = {}
    field: str
    for field, one in entry.items():
        if field in _HARMLESS:
            continue
        name = _NAMES.get(field, field)
        made[field if name in entry and name != field else name] = one
    command = made.get("command")
    if isinstance(command, dict):  # Zed's older form
        made.update({("command" if key == "path" else key): one for key, one in command.items()})
        if "path" not in command:
            made["command"] = None
    elif isinstance(command, list):  # OpenCode's: all words in one list
        made["command"] = command[0] if command else None
        made["args"] = [*command[1:], *(made["args"] if isinstance(made.get("args"), list) else [])]
    kind = made.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        made["type"] = _TYPES[kind]
    return {name: one for name, one in made.items() if not (one is None and name in ("type", "env", "headers", "cwd"))}
