"""Evidence of the gate `tools` from the disk: lists, clients' files, servers' answers, and first lists made of them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from drillmaster.errors import Problem, Refused
from drillmaster.gates._cases.tools import ALLOWED, LIMITS, OFFERED, TOOL, ours
from drillmaster.gates._tools_evidence import servers_of
from drillmaster.gates.tools import Listing, Offered, Tools
from drillmaster.intake.judging import Asked
from drillmaster.intake.mcp_files import config_of, is_config, offered_of, plain_json
from drillmaster.intake.tool_pins import pinned
from drillmaster.intake.tools import ToolsIntake, file_fact, offered_at
from drillmaster.strict import digest


def gathered(folder: Path, **more: Any) -> Tools:
    intake = ToolsIntake(str(folder / "tools.allow.json"), **more)
    found = intake.gather(LIMITS, Asked(now_ns=0, state=folder, repo=folder), None)
    assert isinstance(found.evidence, Tools)
    return found.evidence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.allow.json").write_text(json.dumps({"version": 1, "tools": [TOOL]}))
    return tmp_path


def test_a_list_is_read_with_what_lies_beside_it(folder: Path) -> None:
    (folder / ".cursor").mkdir()
    (folder / ".cursor/mcp.json").write_text('{"mcpServers": {}}')
    (folder / "tools.offered").mkdir()
    (folder / "tools.offered/repo.json").write_text(json.dumps({"tools": [OFFERED]}))
    (folder / "tools").mkdir()
    (folder / "tools/repo-read.js").write_text("x")
    evidence = gathered(folder)
    assert evidence.listing.tools == [TOOL]
    assert [one.place for one in evidence.configs] == [str(folder / ".cursor/mcp.json")]
    assert [(one.server, one.tool) for one in evidence.offered] == [("repo", OFFERED)]
    assert evidence.programs["./tools/repo-read.js"].kind == "file"
    assert evidence.programs["/usr/bin/npx"].kind in ("file", "absent")
    assert (evidence.signing, evidence.before, evidence.lane) == ("not demanded", None, None)


def test_a_list_that_is_not_there_is_evidence_too(tmp_path: Path) -> None:
    evidence = gathered(tmp_path)
    assert evidence.listing.missing and evidence.file is not None and evidence.file.kind == "absent"


BAD = {
    "nothing": b"",
    "space": b"  \n",
    "a name twice": b'{"version": 1, "tools": [], "tools": []}',
    "an origin twice": b'{"version": 1, "tools": [{"origin": "model", "origin": "human"}]}',
    "not a number": b'{"version": NaN}',
    "too large a number": b'{"version": 1e999}',
    "a whole number that no double holds": b'{"version": 9007199254740993}',
    "half a character": b'{"version": "\\ud800"}',
    "a byte order mark": b'\xef\xbb\xbf{"version": 1}',
    "UTF-16": '{"version": 1}'.encode("utf-16"),
    "Latin": b'{"version": "\xe9"}',
    "a comment": b'{"version": 1} // x',
    "a trailing comma": b'{"version": 1,}',
    "two documents": b"{} {}",
    "cut off": b'{"version": 1, "tools": [',
    "deep": b"[" * 100_000,
    "an invisible name": '{"ver\u200bsion": 1}'.encode(),
    "a name in another form": '{"re\u0301": 1}'.encode(),
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_list_that_is_no_strict_json_is_refused(folder: Path, data: bytes) -> None:
    (folder / "tools.allow.json").write_bytes(data)
    with pytest.raises(Problem):
        gathered(folder)
    with pytest.raises(Problem):
        config_of(".mcp.json", data)
    with pytest.raises(Problem):
        offered_of("x.json", data, "x")


@pytest.mark.parametrize("what", ["folder", "pipe", "link in a circle", "huge"])
def test_what_is_no_file_of_a_sane_size_is_refused(folder: Path, what: str) -> None:
    path = folder / "tools.allow.json"
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "link in a circle":
        path.symlink_to(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 32)
    with pytest.raises(Problem):
        gathered(folder)


def test_a_link_is_seen_as_one_and_a_program_behind_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    assert file_fact(tmp_path / "link").kind == "link"
    assert file_fact(tmp_path / "link", digest=True).sha256 == file_fact(tmp_path / "real", digest=True).sha256 != ""
    (tmp_path / "gone").symlink_to("nowhere")
    assert file_fact(tmp_path / "gone", digest=True).kind == "absent"
    assert file_fact(tmp_path / "none").kind == file_fact(tmp_path / "real" / "x").kind == "absent"
    assert file_fact(tmp_path, digest=True).kind == "other"


def test_a_live_server_is_not_started_by_the_list_that_is_judged(folder: Path) -> None:
    with pytest.raises(Refused, match="--base"):
        gathered(folder, live="repo")


def test_a_file_that_was_named_and_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(Problem):
        gathered(folder, configs=(str(folder / "none.json"),))
    with pytest.raises(Problem):
        gathered(folder, offered=(f"repo={folder / 'none.json'}",))


@pytest.mark.parametrize(
    "value",
    [
        {"tools": [OFFERED]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [OFFERED]}},
        {"tools": [OFFERED], "_meta": {}, "ttlMs": 5},
        [OFFERED],
        [{"tools": [OFFERED]}],
        [{"jsonrpc": "2.0", "id": 1, "result": {"tools": [OFFERED], "nextCursor": None}}],
        OFFERED,
    ],
)
def test_what_a_server_offers_is_read_in_each_form_that_it_is_kept_in(value: Any) -> None:
    (one,) = offered_of("repo.json", json.dumps(value).encode(), "repo")
    assert one.tool == OFFERED


@pytest.mark.parametrize(
    "value",
    [
        {}, [], {"tools": []}, {"tools": {}}, {"tools": None}, {"result": {"tools": [OFFERED]}},
        {"jsonrpc": "2.0", "error": {}},
        {"tools": [OFFERED], "nextCursor": "more"}, 5, "x", None, {"name": "a"},
    ],
)  # fmt: skip  # cases
def test_what_holds_no_whole_list_of_tools_is_refused(value: Any) -> None:
    with pytest.raises(Problem):
        offered_of("repo.json", json.dumps(value).encode(), "repo")


def test_a_file_belongs_to_the_server_it_is_called_after(tmp_path: Path) -> None:
    (tmp_path / "repo.json").write_text(json.dumps([OFFERED]))
    assert offered_at(str(tmp_path / "repo.json"))[0].server == "repo"
    assert offered_at(f"other={tmp_path / 'repo.json'}")[0].server == "other"


# Clients' files


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": 2,}', {"a": 1, "b": 2}),
        ('{/* x */ "a": [1, 2, ], }', {"a": [1, 2]}),
        ('{"url": "http://a.example//x", "b": "/* no */", "c": ",}"}', {"url": "http://a.example//x", "b": "/* no */", "c": ",}"}),
        ('{"a": "\\"// no", "b": "\\\\"}', {"a": '"// no', "b": "\\"}),
        ('// first\n{"a": 1}\n// last', {"a": 1}),
    ],
)  # fmt: skip  # cases
def test_comments_and_trailing_commas_are_read_as_spaces(text: str, value: Any) -> None:
    assert config_of(".vscode/mcp.json", text.encode()).value == value
    assert len(plain_json(text.encode())) == len(text.encode())


def test_other_clients_know_no_comments() -> None:
    with pytest.raises(Problem, match="a comment"):
        config_of(".mcp.json", b'{"a": 1, // one\n "b": 2}')


@pytest.mark.parametrize("text", ['{"a": 1 /* }', '{"a": 1,,}', '{"a" // x', "/* */", '{"a": "x\n// y"}', '{, "a": 1}'])
def test_what_is_wrong_beside_comments_stays_wrong(text: str) -> None:
    with pytest.raises(Problem):
        config_of(".vscode/mcp.json", text.encode())


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (".mcp.json", True),
        ("mcp.json", True),
        ("packages/a/.cursor/mcp.json", True),
        (".vscode/mcp.json", True),
        ("claude_desktop_config.json", True),
        (".MCP.JSON", True),
        ("a/.Kiro/settings/mcp.json", True),
        ("x.mcp.json", False),
        ("settings.json", False),
        ("vscode/settings.json", False),
        (".vscode/settings.json", True),
        (".codex/config.toml", True),
        ("config.toml", False),
        ("a/.continue/mcpServers/x.yaml", True),
        (".continue/mcpServers/a/x.yaml", False),
        ("my.code-workspace", True),
        ("opencode.jsonc", True),
        (".windsurf/mcp_config.json", True),
        ("package.json", False),
        ("manifest.json", False),
        ("docs/mcp.json.md", False),
        ("tools.allow.json", False),
    ],
)
def test_a_clients_file_is_known_by_its_name(path: str, known: bool) -> None:
    assert is_config(path) is known


BASH = {"command": "bash", "args": ["-c", "x"]}
FORMS: dict[str, tuple[str, str]] = {
    "VS Code, settings": (".vscode/settings.json", '{"mcp": {"servers": {"evil": %s}}, // here\n "editor.tabSize": 2,}'),
    "VS Code, dotted": (".vscode/settings.json", '{"mcp.servers": {"evil": %s}}'),
    "VS Code, escaped": (".vscode/settings.json", '{"\\u006dcp": {"\\u0073ervers": {"evil": %s}}}'),
    "a workspace": ("a.code-workspace", '{"folders": [], "settings": {"mcp": {"servers": {"evil": %s}}}}'),
    "a container": (".devcontainer/devcontainer.json", '{"customizations": {"vscode": {"mcp": {"servers": {"evil": %s}}}}}'),
    "Claude, by project": (".claude.json", '{"projects": {"/p": {"mcpServers": {"evil": %s}}}}'),
    "Claude, a plugin": (".claude-plugin/plugin.json", '{"name": "p", "mcpServers": {"evil": %s}}'),
    "Gemini": ("gemini-extension.json", '{"name": "p", "mcpServers": {"evil": %s}}'),
    "Zed": (".zed/settings.json", '{"theme": "x", "context_servers": {"evil": %s}}'),
    "Zed, older": (".zed/settings.json", '{"context_servers": {"evil": {"command": {"path": "bash", "args": ["-c", "x"]}}}}'),
    "OpenCode": ("opencode.json", '{"mcp": {"evil": {"type": "local", "command": ["bash", "-c", "x"]}}}'),
    "Crush": ("crush.json", '{"mcp": {"evil": {"type": "stdio", "command": "bash", "args": ["-c", "x"]}}}'),
    "Codex": (".codex/config.toml", '[mcp_servers.evil]\ncommand = "bash"\nargs = ["-c", "x"]\nstartup_timeout_sec = 5\n'),
    "Continue": (".continue/config.yaml", "mcpServers:\n- name: evil\n  command: bash\n  args: ['-c', x]\n"),
    "Continue, a file": (".continue/mcpServers/a.yaml", "mcpServers:\n- name: evil\n  command: bash\n  args: ['-c', x]\n"),
    "Goose": (".goose/config.yaml", "extensions:\n  evil: {type: stdio, cmd: bash, args: ['-c', x]}\n  memory: {type: builtin}\n"),
    "Amp": (".amp/settings.json", '{"amp.mcpServers": {"evil": %s}}'),
    "Windsurf": (".codeium/windsurf/mcp_config.json", '{"mcpServers": {"evil": %s}}'),
    "Amazon Q": (".amazonq/cli-agents/a.json", '{"name": "a", "mcpServers": {"evil": %s}}'),
    "LibreChat": ("librechat.yaml", "version: 1\nmcpServers:\n  evil: {command: bash, args: ['-c', x]}\n"),
}  # fmt: skip  # one a row


@pytest.mark.parametrize(("place", "text"), FORMS.values(), ids=FORMS)
def test_a_server_is_found_in_each_clients_form(place: str, text: str) -> None:
    assert is_config(place)
    (entry,) = servers_of(config_of(place, text.replace("%s", json.dumps(BASH)).encode()))[0]
    assert entry.name == "evil"
    assert (entry.value["command"], entry.value["args"]) == ("bash", ["-c", "x"])


def test_servers_elsewhere_and_their_fields_have_one_spelling() -> None:
    text = '[mcp_servers.a]\nurl = "https://a.example/mcp"\nbearer_token_env_var = "A"\nhttp_headers = {X = "y"}\n'
    (entry,) = servers_of(config_of(".codex/config.toml", text.encode()))[0]
    assert entry.value == {"url": "https://a.example/mcp", "headers": {"X": "y"}}
    (entry,) = servers_of(
        config_of("opencode.json", b'{"mcp": {"a": {"type": "remote", "url": "https://a.example/mcp"}}}')
    )[0]
    assert entry.value == {"type": "http", "url": "https://a.example/mcp"}


def test_two_groups_of_servers_are_both_judged() -> None:
    text = b'{"mcp": {"servers": {"a": {"command": "x"}}}, "mcpServers": {"a": {"command": "y"}}}'
    entries, _ = servers_of(config_of(".vscode/settings.json", text))
    assert sorted(one.value["command"] for one in entries) == ["x", "y"]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (".vscode/settings.json", '{"editor.tabSize": 2, /* x */ "editor.tabSize": 4}'),
        (".vscode/settings.json", '{"mcp": {"inputs": []}, "chat.mcp.enabled": true}'),
        (".devcontainer/devcontainer.json", '{"image": "x", "customizations": {"vscode": {"extensions": ["a.mcp"]}}}'),
        ("a.code-workspace", '{"folders": [{"path": "."}], "extensions": {"recommendations": ["a"]}}'),
        (".codex/config.toml", 'model = "x"\n'),
        (".claude/settings.json", '{"permissions": {"allow": ["mcp__a__b"]}}'),
        ("opencode.json", '{"mcp": {"a": {"enabled": false}}}'),
        (".continue/config.yaml", "name: x\nmodels: []\n"),
    ],
)
def test_settings_without_servers_are_nothing_to_it(place: str, text: str) -> None:
    assert servers_of(config_of(place, text.encode())) == ([], [])


@pytest.mark.parametrize("text", ['{"mcpServers": []}', '{"mcpServers": 5}', '{"mcp": {"servers": "x"}}', '["mcp"]'])
def test_servers_that_are_none_are_named(text: str) -> None:
    entries, wrong = servers_of(config_of(".vscode/settings.json", text.encode()))
    assert not entries and (wrong or text == '{"mcpServers": []}')


# First lists


def offered(**fields: Any) -> tuple[Offered, ...]:
    return (Offered(place="x", server="repo", tool=OFFERED | fields),)


def test_a_first_list_leaves_blank_what_a_person_answers_for() -> None:
    made, said = pinned(offered(), None)
    (tool,) = made["tools"]
    assert (tool["origin"], tool["signed_by"], tool["privileges"]) == ("", "", [])
    assert (tool["wire_sha256"], tool["server"], made["servers"]) == (
        digest(OFFERED),
        "repo",
        [{"name": "repo", "command": []}],
    )
    assert tool["inputSchema"] == OFFERED["inputSchema"] | {"additionalProperties": False}
    assert "draft_note" not in tool and "for a person" in said[0]


def test_a_tool_that_did_not_change_keeps_its_contract_and_one_that_did_loses_its_signer() -> None:
    old: Listing = ours(ALLOWED | {"schema_hash": "x"})
    same, said = pinned(offered(), old)
    assert same["tools"] == old.tools and said == ['repo: text "repo_read": as it was']
    new, said = pinned(offered(description="Write."), old)
    (tool,) = new["tools"]
    assert (tool["origin"], tool["signed_by"], tool["privileges"]) == ("", "", ALLOWED["privileges"])
    assert tool["wire_sha256"] == digest(OFFERED | {"description": "Write."}) and "schema_hash" not in tool
    assert "until a person has read it" in said[0]
    assert old.tools[0]["signed_by"] == "operator.local"


def test_what_is_no_longer_offered_stays_and_is_told() -> None:
    made, said = pinned(offered(name="other"), ours())
    assert [one["name"] for one in made["tools"]] == ["repo_read", "other"]
    assert any("no longer offered" in line for line in said)


@pytest.mark.parametrize(
    "tool", [None, 5, "x", [], {"inputSchema": True}, {"name": 5, "inputSchema": {"properties": 5}}]
)
def test_nothing_offered_makes_a_first_list_fall_over(tool: Any) -> None:
    pinned((Offered(place="x", server="x", tool=tool),), None)
