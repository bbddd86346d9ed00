"""Files of the world of MCP, read as they are: clients' configurations, and what servers offer, as it came over the wire.

1. Claude Desktop and Claude Code write `mcpServers`, Cursor too; VS Code writes `servers`, and comments and trailing commas,
   which are read as spaces. What a file is goes by its name: one that holds other settings of a client is judged by its
   servers alone. Other forms are put into this one (`mcp_clients`).
2. What a server offers is a `tools/list` answer: the whole message, its result, pages of either, a list of tools, or one tool.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Literal

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates.tools import Config, Offered
from drillmaster.intake.mcp_clients import servers_in
from drillmaster.strict import shown

__all__ = ["CAP_BYTES", "CONFIGS", "config_of", "is_config", "leads_to_config", "lies_at", "offered_of", "plain_json"]

CAP_BYTES = 8 << 20
CONFIGS = (
    ".mcp.json",
    "mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    "claude_desktop_config.json",
    ".claude/mcp.json",
    ".claude.json",
    ".roo/mcp.json",
    ".kiro/settings/mcp.json",
    ".amazonq/mcp.json",
    ".gemini/settings.json",
    ".windsurf/mcp_config.json",
    "mcp_config.json",
    "mcp-config.json",
    "mcp_settings.json",
    "cline_mcp_settings.json",
    "mcp-servers.json",
    "mcp_servers.json",
    ".mcp.jsonc",
    "mcp.jsonc",
    ".qwen/settings.json",
    ".augment/settings.json",
    ".amazonq/cli-agents/*.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude-plugin/plugin.json",
    "gemini-extension.json",
    ".vscode/settings.json",
    "*.code-workspace",
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
    ".zed/settings.json",
    ".amp/settings.json",
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    "crush.json",
    ".crush.json",
    ".codex/config.toml",
    ".continue/config.yaml",
    ".continue/config.json",
    ".continue/mcpServers/*.yaml",
    ".continue/mcpServers/*.yml",
    ".continue/mcpServers/*.json",
    ".goose/config.yaml",
    "librechat.yaml",
)
"""Where clients look, from the root of a repository. From `.qwen` on the file holds other settings of the client too."""
_FOLDED = frozenset(one.casefold() for one in CONFIGS)
_PLAIN = frozenset(one for one in _FOLDED if "*" not in one)
_PATTERNS = tuple(one for one in _FOLDED if "*" in one)
_SETTINGS = frozenset(one.casefold() for one in CONFIGS[CONFIGS.index(".qwen/settings.json") :])
_SHARED = frozenset({"claude_desktop_config.json", ".claude.json", "settings.json", "settings.local.json"})
_COMMENTS = (".jsonc", ".code-workspace")
_TELLING = (b"mcp", b"servers", b"extensions", b"\\u")
_COMMENTED = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


def is_config(path: str) -> bool:
    """Whether a path is one where a client looks, in whatever folder; some systems do not mind the case."""
    parts = path.casefold().split("/")
    return any(_among("/".join(parts[-depth:]), _PLAIN, _PATTERNS) for depth in (1, 2, 3))


def lies_at(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one where a client looks from one of these folders, "" for the root."""
    plain = path.casefold()
    for folder in folders:
        here = f"{folder.strip('./').casefold()}/" if folder.strip("./") else ""
        if plain.startswith(here) and _among(plain[len(here) :], _PLAIN, _PATTERNS):
            return True
    return False


def _among(path: str, plain: frozenset[str], patterns: tuple[str, ...]) -> bool:
    return path in plain or any(fnmatchcase(path, one) and path.count("/") == one.count("/") for one in patterns)


def leads_to_config(path: str) -> bool:
    """Whether a folder of that path would hold a client's configuration: a link in its place could bring one in unseen."""
    parts = path.casefold().split("/")
    return any(one.startswith("/".join(parts[-depth:]) + "/") for one in _FOLDED for depth in (1, 2))


def config_of(place: str, data: bytes) -> Config:
    """Read a client's configuration. Raises Problem."""
    path = PurePosixPath(place)
    parts = place.replace("\\", "/").casefold().split("/")
    is_settings = any(
        _among("/".join(parts[-depth:]), _SETTINGS, tuple(one for one in _SETTINGS if "*" in one))
        for depth in (1, 2, 3)
    )
    fmt: Literal["json", "yaml", "toml"] = "json"
    if path.suffix in (".toml", ".yaml", ".yml"):
        is_settings, fmt = True, "toml" if path.suffix == ".toml" else "yaml"
    elif is_settings or ".vscode" in path.parts or path.suffix in _COMMENTS:
        data = plain_json(data)
    if is_settings and not any(word in data.lower() for word in _TELLING):
        return Config(
            place=place, value={}, shared=True
        )  # settings that say nothing of servers are nothing to this gate
    value = strict.load(data, place=place, fmt=fmt, cap_bytes=CAP_BYTES)
    if is_settings or path.name.casefold() in _SHARED:
        return Config(place=place, value=servers_in(value), shared=True)
    return Config(place=place, value=value)


def plain_json(data: bytes) -> bytes:
    """Turn comments and trailing commas into spaces; every other character stays where it was."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data  # the loader says what is wrong with it
    text = _COMMENTED.sub(lambda hit: hit[1] or re.sub(r"[^\n]", " ", hit[0]), text)
    return _COMMA.sub(lambda hit: hit[1] or " ", text).encode()


def offered_of(place: str, data: bytes, server: str) -> tuple[Offered, ...]:
    """Read what a server offers. Raises Problem where the file is none of the forms of rule 2."""
    value = strict.load(data, place=place, fmt="json", cap_bytes=CAP_BYTES)
    tools = _tools(value, place)
    if not tools:
        raise Problem(
            place,
            found="no tool in it",
            wanted="an answer to tools/list with tools in it",
            remedy="ask the server again, and keep its whole answer",
        )
    return tuple(Offered(place=place, server=server, tool=one) for one in tools)


def _tools(value: Any, place: str) -> list[Any]:
    if isinstance(value, list):
        if all(isinstance(one, dict) and ("tools" in one or "result" in one) for one in value) and value:
            return [tool for one in value for tool in _tools(one, place)]
        return value
    if isinstance(value, dict):
        result = value.get("result")
        if "jsonrpc" in value and isinstance(result, dict):
            return _tools(result, place)
        if isinstance(value.get("tools"), list):
            if value.get("nextCursor"):
                raise Problem(
                    f"{place}: /nextCursor",
                    found="a page that has a next one",
                    wanted="the whole list",
                    remedy="ask for the next page too, and keep all of them in one list",
                )
            return list(value["tools"])
        if "name" in value and "inputSchema" in value:
            return [value]
    raise Problem(
        place,
        found=shown(value),
        wanted="an answer to tools/list, or a list of tools",
        remedy="ask the server again, and keep its whole answer",
    )
