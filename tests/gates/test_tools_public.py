"""The gate on what public servers offer and what people configure: forms as they are in the wild, values of our own."""

import json
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.tools import ALLOWED, LIMITS, good, ours
from drillmaster.gates.tools import Listing, Offered, Tools
from drillmaster.intake.mcp_files import config_of, offered_of
from drillmaster.intake.tool_pins import pinned
from drillmaster.rules.argv import Program
from drillmaster.rules.schema_open import faults
from drillmaster.strict import digest

PIN = "@sha256:" + "c" * 64
ZERO = "0" * 64
GATE = msgspec.structs.replace(
    LIMITS,
    place="repository",
    programs=(
        Program(path="/usr/bin/npx", sha256=ZERO, called=("npx",)),
        Program(path="/usr/bin/uvx", sha256=ZERO, called=("uvx",)),
        Program(path="/usr/bin/docker", sha256=ZERO, called=("docker",)),
        Program(path="/usr/bin/python3", sha256=ZERO, called=("python3", "python")),
        Program(path="/usr/bin/node", sha256=ZERO, called=("node",)),
        Program(path="/srv/venv/bin/mcp-server-git", sha256=ZERO),
        Program(path="scripts/mcp_server.py", sha256=ZERO),
        Program(path="dist/index.js", sha256=ZERO),
    ),
    urls=("https://api.githubcopilot.com/mcp/", "https://learn.microsoft.com/api/mcp", "http://localhost:8080/mcp"),
)


def judged(text: str, place: str = ".mcp.json", *, listed: bool = True) -> set[str]:
    """What of a client's file is refused; `listed`: its commands are the allow-list's too."""
    config = config_of(place, text.encode())
    groups = config.value.get("mcpServers", config.value.get("servers", {}))
    commands = [
        [one["command"], *one.get("args", [])] for one in groups.values() if isinstance(one, dict) and "command" in one
    ]
    servers = [{"name": f"s{n}", "command": command} for n, command in enumerate(commands)] if listed else []
    entry = ALLOWED | {"server": "s0"} if servers else ALLOWED
    evidence = Tools(listing=ours(entry, servers=servers), now_ns=good().now_ns, configs=(config,))
    gate = msgspec.structs.replace(GATE, wire="not compared")
    reasons = {one.check for one in gate._reasons(evidence) if one.subject.startswith(place)}
    return reasons - {"program-changed"}


def claude(entry: Any, name: str = "x") -> str:
    return json.dumps({"mcpServers": {name: entry}})


WELL: dict[str, tuple[str, str]] = {
    "Claude Code, remote": (claude({"type": "http", "url": "https://api.githubcopilot.com/mcp/"}), ".mcp.json"),
    "Claude Code, remote with a token from the environment": (
        claude({"type": "http", "url": "https://api.githubcopilot.com/mcp/", "headers": {"Authorization": "Bearer ${GITHUB_PAT}"}}),
        ".mcp.json",
    ),
    "Claude Desktop, npx with a version": (
        json.dumps(
            {
                "globalShortcut": "",
                "preferences": {"menuBar": True},
                "mcpServers": {
                    "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "."]}
                },
            }
        ),
        "claude_desktop_config.json",
    ),
    "Cursor, a server of the repository": (
        claude({"command": "python3", "args": ["scripts/mcp_server.py", "--target", "."], "env": {}}),
        ".cursor/mcp.json",
    ),
    "Cursor, with an envFile": (
        claude({"type": "stdio", "command": "node", "args": ["dist/index.js"], "envFile": "${workspaceFolder}/.env"}),
        ".cursor/mcp.json",
    ),
    "VS Code, with inputs, comments and a trailing comma": (
        """{
          // asked for once
          "inputs": [{"type": "promptString", "id": "pat", "description": "Token", "password": true}],
          "servers": {
            "learn": {"type": "http", "url": "https://learn.microsoft.com/api/mcp"}, /* docs */
            "github": {
              "type": "stdio",
              "command": "docker",
              "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server%s"],
              "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${input:pat}", "URL": "https://example.com//x"},
            },
          },
        }""".replace("%s", PIN),
        ".vscode/mcp.json",
    ),
    "VS Code, a local HTTP server in development": (
        json.dumps({"servers": {"dev": {"type": "http", "url": "http://localhost:8080/mcp", "dev": {"watch": "src/**"}}}}),
        ".vscode/mcp.json",
    ),
    "uvx with a version and a time zone": (
        claude({"command": "uvx", "args": ["mcp-server-time==2025.9.25", "--local-timezone=Europe/Berlin"]}),
        ".mcp.json",
    ),
    "a console script of a venv": (claude({"command": "/srv/venv/bin/mcp-server-git", "args": ["--repository", "."]}), ".mcp.json"),
    "a plugin's own server": (
        claude({"command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/dist/index.js"], "cwd": "${CLAUDE_PLUGIN_ROOT}"}),
        ".mcp.json",
    ),
    "environment of the usual kind": (
        claude(
            {
                "command": "node",
                "args": ["dist/index.js"],
                "env": {
                    "PYTHONUNBUFFERED": "1", "AWS_REGION": "${AWS_REGION:-us-east-1}", "LOG_LEVEL": "info",
                    "HTTPS_PROXY": "http://p:3128",
                    "API_KEY": "${API_KEY}", "READ_ONLY": True, "PORT": 9377, "TZ": "UTC",
                },
            }
        ),
        ".mcp.json",
    ),
    "fields of other clients": (
        claude({"command": "node", "args": ["dist/index.js"], "enabled": True, "timeout_ms": 10000, "disabled": False}),
        ".mcp.json",
    ),
    "no server": ('{"mcpServers": {}}', ".mcp.json"),
    "inputs alone": ('{"inputs": [], "servers": {}}', ".vscode/mcp.json"),
}  # fmt: skip  # one case a row


@pytest.mark.parametrize(("text", "place"), WELL.values(), ids=WELL)
def test_a_configuration_that_is_pinned_and_listed_is_left_alone(text: str, place: str) -> None:
    assert judged(text, place) == set()


ILL: dict[str, tuple[Any, set[str]]] = {
    "npx, whatever is newest": ({"command": "npx", "args": ["-y", "@upstash/context7-mcp@latest"]}, {"launcher-unpinned"}),
    "npx, no version": ({"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]}, {"launcher-unpinned"}),
    "npx of a branch": ({"command": "npx", "args": ["-y", "github:acme/x#main"]}, {"launcher-unpinned"}),
    "uvx, newest": ({"command": "uvx", "args": ["awslabs.ecs-mcp-server@latest"]}, {"launcher-unpinned"}),
    "uvx of a repository": ({"command": "uvx", "args": ["--from", "git+https://github.com/acme/x", "x"]}, {"launcher-unpinned"}),
    "docker by its name": ({"command": "docker", "args": ["run", "-i", "--rm", "mcp/fetch"]}, {"launcher-unpinned"}),
    "docker and a folder of the host": (
        {"command": "docker", "args": ["run", "-i", "--mount", "type=bind,src=/Users/x,dst=/projects/x", "mcp/filesystem" + PIN]},
        {"host-mount"},
    ),
    "cmd /c npx": ({"command": "cmd", "args": ["/c", "npx", "-y", "x@1.0.0"]}, {"command-is-shell"}),
    "bash -c": ({"command": "bash", "args": ["-c", "source .env && npx x"]}, {"command-is-shell"}),
    "python -m": ({"command": "python", "args": ["-m", "mcp_server_git"]}, {"command-is-shell"}),
    "uv run": ({"command": "uv", "args": ["--directory", "/srv/x", "run", "server.py"]},
    {"command-is-shell", "command-not-listed"}),
    "a whole line": ({"command": "npx -y @acme/x@1.2.3"}, {"command-is-shell"}),
    "a script at home": ({"command": "python3", "args": ["/home/x/server.py"]}, {"command-not-listed"}),
    "PYTHONPATH": ({"command": "python3", "args": ["scripts/mcp_server.py"], "env": {"PYTHONPATH": "/srv/x"}},
    {"start-environment"}),
    "NODE_OPTIONS": ({"command": "node", "args": ["dist/index.js"], "env": {"NODE_OPTIONS": "-r ./x.js"}}, {"start-environment"}),
    "ld_preload": ({"command": "node", "args": ["dist/index.js"], "env": {"ld_preload": "x"}}, {"start-environment"}),
    "another root": ({"command": "node", "args": ["dist/index.js"], "cwd": "/"}, {"start-environment"}),
    "above the root": ({"command": "node", "args": ["dist/index.js"], "cwd": "../x"}, {"start-environment"}),
    "env that is a list": ({"command": "node", "args": ["dist/index.js"], "env": ["A=b"]}, {"start-environment"}),
    "a shell": ({"command": "node", "args": ["dist/index.js"], "shell": True}, {"start-environment"}),
    "an unknown URL": ({"type": "sse", "url": "https://fetch.up.example.app/sse"}, {"remote-server"}),
    "a URL in the clear": ({"type": "http", "url": "http://mcp.example.com/mcp"}, {"remote-server"}),
    "a URL with a user": ({"url": "https://u:p@api.githubcopilot.com/mcp/"}, {"remote-server"}),
    "a URL from the environment": ({"url": "${MCP_URL}"}, {"remote-server"}),
    "a URL that looks like one": ({"url": "https://api.githubcop\u0456lot.com/mcp/"}, {"remote-server"}),
    "a URL without a slash": ({"url": "https://api.githubcopilot.com/mcp"}, {"remote-server"}),
    "a URL that is a number": ({"url": 5}, {"remote-server"}),
    "a URL and a command": ({"url": "https://learn.microsoft.com/api/mcp", "command": "node"}, {"remote-server"}),
    "a bridge to another URL": ({"command": "npx", "args": ["-y", "mcp-remote@0.1.30", "https://a.example/sse"]},
    {"remote-server"}),
    "headers by a helper": (
        {"type": "http", "url": "https://learn.microsoft.com/api/mcp", "headersHelper": 'node "${CLAUDE_PLUGIN_ROOT}/h.mjs"'},
        {"command-is-shell"},
    ),
    "nobody is asked": ({"command": "node", "args": ["dist/index.js"], "autoApprove": ["*"]}, {"unknown-field"}),
    "an unknown field": ({"command": "node", "args": ["dist/index.js"], "preload": "x"}, {"unknown-field"}),
    "an unknown type": ({"type": "exec", "command": "node", "args": ["dist/index.js"]}, {"unknown-field"}),
    "args that are a text": ({"command": "node", "args": "dist/index.js"}, {"command-shape"}),
    "null": (None, {"unknown-field"}),
    "a text": ("node dist/index.js", {"unknown-field"}),
    "nothing": ({}, {"command-shape", "server-not-listed"}),
}  # fmt: skip  # one case a row


@pytest.mark.parametrize(("entry", "reasons"), ILL.values(), ids=ILL)
def test_a_configuration_that_decides_otherwise_is_named(entry: Any, reasons: set[str]) -> None:
    if isinstance(entry, dict) and isinstance(entry.get("args"), str):
        assert judged(claude(entry), listed=False) == reasons
    else:
        assert judged(claude(entry)) == reasons


def test_a_server_that_is_not_in_the_list_is_named() -> None:
    text = claude({"command": "node", "args": ["dist/index.js"]})
    assert judged(text, listed=False) == {"server-not-listed"}


NONE = ['{"mcpServers": []}', '{"mcpServers": null}', '{"server": {}}', "{}", "[]", "null", '"x"', '{"servers": 5}']


@pytest.mark.parametrize("text", NONE)
def test_a_file_that_configures_no_servers_as_clients_read_it_is_named(text: str) -> None:
    evidence = good(configs=(config_of(".mcp.json", text.encode()),))
    assert "unknown-field" in {one.id for one in LIMITS.checks(evidence) if one.status != "pass"}


def test_a_secret_in_the_file_is_remarked_on_and_not_repeated() -> None:
    token = "ghp_" + "a1B2" * 9
    text = claude(
        {"command": "node", "args": ["dist/index.js"], "env": {"GITHUB_TOKEN": token, "API_KEY": "<your-api-key>"}}
    )
    evidence = good(configs=(config_of(".mcp.json", text.encode()),))
    said = [one for one in LIMITS.findings(evidence, ()) if one.id == "literal-secret"]
    assert len(said) == 1 and "GITHUB_TOKEN" in said[0].cause
    assert token not in repr(list(LIMITS.findings(evidence, ()))) + repr(list(LIMITS.checks(evidence)))


# What servers offer

TEXT = {"type": "string", "description": "Owner of the repository"}
PUBLIC: dict[str, dict[str, Any]] = {
    "github: create_or_update_file": {
        "name": "create_or_update_file",
        "description": "Create or update one file.\n\nFor its SHA:\ngit rev-parse HEAD:<path>\n\nSHA MUST be given.",
        "annotations": {"title": "Create or update file"},
        "inputSchema": {
            "type": "object",
            "properties": {"owner": TEXT, "repo": TEXT, "path": TEXT, "content": TEXT, "message": TEXT, "sha": TEXT},
            "required": ["owner", "repo", "path", "content", "message"],
        },
    },
    "github: push_files": {
        "name": "push_files",
        "inputSchema": {
            "type": "object",
            "properties": {
                "branch": TEXT,
                "files": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"path": TEXT, "content": TEXT}, "required": ["path", "content"]},
                },
            },
            "required": ["branch", "files"],
        },
    },
    "github: actions_list": {
        "name": "actions_list",
        "annotations": {"idempotentHint": False, "readOnlyHint": True},
        "icons": [{"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "theme": "light"}],
        "inputSchema": {
            "type": "object",
            "properties": {
                "method": {"type": "string", "enum": ["list_workflows", "list_workflow_runs"]},
                "page": {"type": "number", "minimum": 1},
                "filter": {"type": "object", "properties": {"status": {"type": "string", "enum": ["queued", "completed"]}}},
            },
            "required": ["method"],
        },
        "outputSchema": {"type": "object", "oneOf": [{"properties": {"a": {"not": {"description": "Any value."}}}}]},
    },
    "SDK in Python: an optional argument": {
        "name": "note_list",
        "inputSchema": {
            "properties": {
                "prefix": {"title": "Prefix", "type": "string"},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Limit"},
            },
            "required": ["prefix"],
            "title": "note_listArguments",
            "type": "object",
        },
        "outputSchema": {"properties": {"result": {"items": {"type": "string"}, "type": "array"}}, "type": "object"},
    },
    "SDK in TypeScript: from zod": {
        "name": "read_text_file",
        "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"path": {"type": "string"}, "head": {"type": "number"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    },
    "models with a reference": {
        "name": "add_events",
        "inputSchema": {
            "$defs": {"Event": {"properties": {"at": {"type": "string", "format": "date-time"}},
            "required": ["at"], "type": "object"}},
            "properties": {"events": {"items": {"$ref": "#/$defs/Event"}, "type": "array"}},
            "required": ["events"],
            "type": "object",
        },
    },
    "playwright: browser_close, no arguments": {
        "name": "browser_close",
        "annotations": {"title": "Close browser", "readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    },
    "a server in another language": {
        "name": "检索文档",
        "description": "检索文档并返回摘要。",
        "inputSchema": {"type": "object", "properties": {"查询": {"type": "string"}}, "required": ["查询"]},
    },
}  # fmt: skip  # one case a row


@pytest.mark.parametrize("tool", PUBLIC.values(), ids=PUBLIC)
def test_a_contract_is_made_from_what_is_offered_and_only_a_person_is_missing(tool: dict[str, Any]) -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}}
    offered = offered_of("x.json", json.dumps(answer).encode(), "x")
    made, _ = pinned(offered, None)
    (entry,) = made["tools"]
    assert faults(entry["inputSchema"]) == ()
    assert entry["wire_sha256"] == digest(tool)
    made["servers"] = [{"name": "x", "command": ["/usr/bin/node", "./tools/repo-read.js"]}]
    evidence = good(listing=Listing(place="a", value=made), offered=offered, before=None, configs=())
    missed = {one.id for one in LIMITS.checks(evidence) if one.status != "pass"}
    assert missed == {"origin-not-human", "signed-by-model-or-empty", "privileges-empty"}
    entry |= {"origin": "human", "signed_by": "operator.local", "privileges": ["fs.write.limited"]}
    hints = tool.get("annotations", {})
    if hints.get("readOnlyHint"):
        entry["privileges"] = ["fs.read"]
    evidence = good(listing=Listing(place="a", value=made), offered=offered, before=None, configs=())
    assert {one.id for one in LIMITS.checks(evidence) if one.status != "pass"} == set()


OPEN: dict[str, Any] = {
    "evaluate: any script": {"properties": {"script": {"type": "string"}}, "required": ["script"], "type": "object"},
    "shell: a command": {"properties": {"command": {"type": "string"}}, "required": ["command"], "type": "object"},
    "a free map": {"properties": {"headers": {"type": "object", "additionalProperties": {}}},
    "required": ["headers"], "type": "object"},
    "a list of anything": {"properties": {"rows": {"items": {}, "type": "array"}}, "required": ["rows"], "type": "object"},
    "anything": {"properties": {"value": {"title": "Value"}}, "required": ["value"], "type": "object"},
    "nothing is required": {"properties": {"page": {"type": "integer", "default": 1}}, "type": "object"},
}  # fmt: skip  # one case a row


@pytest.mark.parametrize("schema", OPEN.values(), ids=OPEN)
def test_what_cannot_be_closed_by_a_machine_is_left_for_a_person(schema: Any) -> None:
    (entry,) = pinned((Offered(place="x", server="x", tool={"name": "a", "inputSchema": schema}),), None)[0]["tools"]
    assert faults(entry["inputSchema"])
