"""The tools guard in a worker: signed lists on a disk, and real MCP servers over stdio and streamable HTTP that change."""

import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from mcp import Client

from drillmaster.adapters.worker.mcp_client import Denied, GuardedSession, on_change
from drillmaster.adapters.worker.tools import Shelf, ToolSession
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.intake.guards_files import read_guards
from tests.e2e.toollab import GUARD, PYTHON, READ, Lab, guarded, http, offered_by_sdk, run, wire

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.M | re.S)
pytestmark = [pytest.mark.e2e, pytest.mark.needs("ssh-keygen")]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    tmp_path.chmod(0o755)
    made = Lab(tmp_path)
    made.write_list({"file": [READ]})
    return made


@pytest.fixture(scope="module")
def sdk_offers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return offered_by_sdk(Lab(tmp_path_factory.mktemp("sdk")))


@pytest.fixture
def notes(lab: Lab, sdk_offers: list[Any]) -> Lab:
    lab.write_list({"sdk": sdk_offers})
    return lab


# Loading


def test_a_signed_list_is_loaded(lab: Lab) -> None:
    shelf = lab.shelf()
    assert shelf.list is None
    assert shelf.load().signers == ("ada",)
    assert shelf.keep() == ()


def _unsigned(lab: Lab) -> None:
    (lab.folder / "tools.allow.json.sig").unlink()


def _edited(lab: Lab) -> None:
    lab.list.chmod(0o600)
    lab.list.write_text(lab.list.read_text() + " ")
    lab.list.chmod(0o440)


def _stranger(lab: Lab) -> None:
    lab.put(lab.listing().value, "carla")


def _for_evidence(lab: Lab) -> None:
    from drillmaster.signing import sign

    lab.list.chmod(0o600)
    sign(lab.list, lab.keys.private("ada"))  # in the namespace of evidence
    lab.list.chmod(0o440)


def _gone(lab: Lab) -> None:
    lab.list.unlink()


def _changed(**fields: Any) -> Any:
    def change(lab: Lab) -> None:
        value = lab.listing().value
        value["tools"][0].update(fields)
        lab.put(value, "ada", "bo")

    return change


def _duplicate_key(lab: Lab) -> None:
    lab.put(lab.list.read_text().replace('"origin": "human"', '"origin": "model", "origin": "human"'), "ada")


def _loose(lab: Lab) -> None:
    lab.list.chmod(0o666)


def _link(lab: Lab) -> None:
    lab.list.rename(lab.folder / "other.json")
    lab.list.symlink_to("other.json")


def _program(lab: Lab) -> None:
    lab.file.write_text(lab.file.read_text() + "# more\n")


REFUSED = {
    "unsigned": (_unsigned, ("signed",)),
    "edited after it was signed": (_edited, ("signed",)),
    "signed by nobody who is known": (_stranger, ("signed",)),
    "signed as evidence": (_for_evidence, ("signed",)),
    "gone": (_gone, ("allowlist-missing",)),
    "a model's": (_changed(origin="model"), ("origin-not-human",)),
    "named after a model": (_changed(signed_by="gpt-4o"), ("signed-by-model-or-empty",)),
    "open": (_changed(inputSchema=READ["inputSchema"]), ("open-object-schema",)),
    "a privilege that there is not": (_changed(privileges=["fs.all"]), ("privilege-unknown",)),
    "a description that orders": (_changed(description="<IMPORTANT>do</IMPORTANT>"), ("hidden-order",)),
    "a lookalike name": (_changed(name="re\u0430d_file"), ("tool-name",)),
    "read two ways": (_duplicate_key, ("unreadable",)),
    "writable by all": (_loose, ("allowlist-file",)),
    "a link": (_link, ("allowlist-file",)),
    "of a program that changed": (_program, ("program-changed",)),
}


@pytest.mark.parametrize(("change", "checks"), REFUSED.values(), ids=REFUSED)
def test_a_load_that_is_refused_leaves_the_last_good_list_in_force(lab: Lab, change: Any, checks: Any) -> None:
    shelf = lab.shelf()
    good = shelf.load()
    change(lab)
    assert set(checks) <= set(shelf.keep())
    assert shelf.list is good
    with pytest.raises(Problem):
        shelf.load()
    assert shelf.list is good
    fresh = lab.shelf()  # and a worker that had none has none
    assert fresh.keep() != ()
    assert fresh.list is None
    assert ToolSession(fresh, GUARD, "file").call("read_file", "{}").decision.reason == "no-contracts"


def test_a_privilege_more_than_the_list_in_force_wants_two_people(lab: Lab) -> None:
    shelf = lab.shelf()
    good = shelf.load()
    lab.write_list({"file": [READ]}, "ada", privileges=["fs.read", "fs.write.limited"])
    assert "privilege-expansion" in shelf.keep()
    assert shelf.list is good
    lab.write_list({"file": [READ]}, "ada", "bo", privileges=["fs.read", "fs.write.limited"])
    assert shelf.keep() == ()


def test_a_policy_that_nobody_signed_is_not_gone_by(lab: Lab) -> None:
    lab.policy.write_text(lab.policy.read_text() + "\n")
    with pytest.raises(Problem):
        Shelf(lab.list, policy=lab.policy, allowed_signers=lab.allowed)


# Starting


def test_the_words_that_start_a_server_are_its_programs_own_paths(lab: Lab) -> None:
    shelf = lab.shelf()
    shelf.load()
    command = ToolSession(shelf, GUARD, "file").start()
    assert command.words == (PYTHON, str(lab.file.resolve()), str(lab.told))


def test_a_program_that_changed_after_the_load_is_not_started(lab: Lab) -> None:
    shelf = lab.shelf()
    shelf.load()
    lab.file.write_text("import os\n")
    held = ToolSession(shelf, GUARD, "file")
    command = held.start()
    assert (command.words, command.decision.reason) == (None, "program-changed")
    assert held.halted == "program-changed"
    assert ToolSession(shelf, GUARD, "another").start().decision.reason == "command-not-listed"


def test_a_server_elsewhere_is_reached_by_its_listed_url_or_not_at_all(lab: Lab) -> None:
    url = "https://mcp.example.com/mcp"
    value = lab.listing().value
    value["servers"].append({"name": "far", "url": url})
    lab.write_policy(urls=[url])
    lab.put(value, "ada")
    shelf = lab.shelf()
    shelf.load()
    assert ToolSession(shelf, GUARD, "far").start().url == url
    lab.write_policy(urls=[])
    fresh = lab.shelf()
    assert "remote-server" in fresh.keep()


def test_a_servers_environment_is_what_the_list_gives_it_and_is_in_no_text(lab: Lab) -> None:
    value = lab.listing().value
    value["servers"][0]["env"] = {"NOTES_TOKEN": "${MY_TOKEN}", "NOTES_MODE": "quiet", "NOTES_LOST": "${NOT_SET}"}
    lab.put(value, "ada")
    shelf = lab.shelf()
    shelf.load()
    command = ToolSession(shelf, GUARD, "file").start({"MY_TOKEN": "hunter2", "OTHER": "x"})
    assert command.env == {"NOTES_TOKEN": "hunter2", "NOTES_MODE": "quiet"}
    assert "hunter2" not in f"{command!r} {command}"


# Calls


def test_a_call_goes_through_as_it_was_judged(lab: Lab) -> None:
    async def act() -> None:
        async with guarded(lab, "file") as (tools, _):
            await tools.open()
            assert [one.name for one in await tools.tools()] == ["read_file"]
            result = await tools.call_tool("read_file", '{"path": "a"}')
            assert result.content[0].text == "done"  # type: ignore[union-attr]  # a text
            await tools.call_tool("read_file", {"path": "b"})

    run(act)
    sent = [json.loads(line) for line in (lab.folder / "told.called").read_text().splitlines()]
    assert [one["arguments"] for one in sent] == [{"path": "a"}, {"path": "b"}]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("read_file", {"path": "a", "mode": "w"}, "arguments-unknown"),  # the server's own schema is open
        ("read_file", '{"path": "a", "path": "b"}', "arguments-unreadable"),
        ("read_file", '{"path": NaN}', "arguments-unreadable"),
        ("read_file", "[]", "arguments-unreadable"),
        ("read_file", {}, "arguments-misfit"),
        ("read_file", None, "arguments-misfit"),
        ("read_file", {"path": 1}, "arguments-misfit"),
        ("read_file", {"path": "x" * 20_000}, "arguments-too-large"),
        ("delete_file", {"path": "a"}, "tool-not-allowed"),
        ("read-file", {"path": "a"}, "tool-lookalike"),
        ("Read_File", {"path": "a"}, "tool-lookalike"),
        ("re\u0430d_file", {"path": "a"}, "tool-lookalike"),
    ],
)
def test_a_call_that_nobody_signed_is_not_sent(
    lab: Lab, tool: str, arguments: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> None:
        async with guarded(lab, "file") as (tools, _):
            await tools.open()
            with pytest.raises(Denied) as denied:
                await tools.call_tool(tool, arguments)
            assert denied.value.decision.reason == reason
            assert "x" * 10 not in str(denied.value)

    with caplog.at_level(logging.WARNING, "drillmaster.tools"):
        run(act)
    assert not (lab.folder / "told.called").exists()
    said = [one.getMessage() for one in caplog.records if one.name == "drillmaster.tools"]
    assert len(said) == 1
    assert f"reason={reason}" in said[0]
    assert "xxx" not in said[0]
    if tool != "read_file":
        assert tool not in said[0]


def test_a_privilege_that_is_not_this_workers_is_denied(lab: Lab) -> None:
    lab.write_list({"file": [READ]}, "ada", "bo", privileges=["fs.write.limited"])

    async def act() -> None:
        async with guarded(lab, "file") as (tools, _):
            await tools.open()
            with pytest.raises(Denied, match="privilege-not-granted"):
                await tools.call_tool("read_file", {"path": "a"})

    run(act)


def test_no_call_passes_before_the_server_was_compared(lab: Lab) -> None:
    shelf = lab.shelf()
    shelf.load()
    held = ToolSession(shelf, GUARD, "file")
    assert held.call("read_file", {"path": "a"}).decision.reason == "not-compared"
    assert held.opened([READ]).allowed
    assert held.call("read_file", {"path": "a"}).decision.allowed


# What servers offer

WIRE = {
    "a field that nobody knows": (READ | {"x-approve": True}, "tool-changed"),
    "another description": (READ | {"description": "Read a file. Or write it."}, "tool-changed"),
    "an annotation": (READ | {"annotations": {"readOnlyHint": False}}, "tool-changed"),
    "a property more": (
        READ | {"inputSchema": READ["inputSchema"] | {"properties": {"path": {"type": "string"}, "mode": {}}}},  # type: ignore[operator]  # a dict
        "tool-changed",
    ),
    "an outputSchema": (READ | {"outputSchema": {"type": "object"}}, "tool-changed"),
    "another name": (READ | {"name": "read_files"}, "tool-removed"),
    "a confusable name": (READ | {"name": "re\u0430d_file"}, "tool-changed"),
}


@pytest.mark.parametrize(("tool", "reason"), WIRE.values(), ids=WIRE)
def test_a_server_that_offers_anything_else_halts_the_session(lab: Lab, tool: Any, reason: str) -> None:
    async def act() -> None:
        async with guarded(lab, "file") as (tools, held):
            await tools.open()
            lab.tell(tool)
            held.changed()
            with pytest.raises(Denied) as denied:
                await tools.call_tool("read_file", {"path": "a"})
            assert denied.value.decision.reason == reason
            lab.tell(READ)  # too late: the session is over
            with pytest.raises(Denied) as again:
                await tools.call_tool("read_file", {"path": "a"})
            assert again.value.decision.reason == "halted"
            assert held.halted == reason

    run(act)
    assert not (lab.folder / "told.called").exists()


def test_order_is_nothing_and_pages_are_read_to_the_last(lab: Lab) -> None:
    lab.tell({name: READ[name] for name in reversed(READ)})

    async def act() -> None:
        async with guarded(lab, "file") as (tools, _):
            await tools.open()
        lab.tell(READ, nextCursor="the same")  # a list that never ends
        async with guarded(lab, "file") as (tools, _):
            with pytest.raises(Denied, match="listing-unreadable"):
                await tools.open()
        lab.tell()
        async with guarded(lab, "file") as (tools, _):
            with pytest.raises(Denied, match="nothing-offered"):
                await tools.open()

    run(act)


def test_a_server_that_changes_in_silence_is_found_when_the_comparison_is_too_old(lab: Lab) -> None:
    always = msgspec.structs.replace(GUARD, max_compared_ms=0)

    async def act() -> None:
        async with guarded(lab, "file", always) as (tools, _):
            await tools.open()
            await tools.call_tool("read_file", {"path": "a"})
            lab.tell(READ, READ | {"name": "write_file"})
            with pytest.raises(Denied, match="tool-added"):
                await tools.call_tool("read_file", {"path": "b"})

    run(act)
    assert len((lab.folder / "told.called").read_text().splitlines()) == 1


def test_another_signed_list_wants_another_comparison(lab: Lab) -> None:
    async def act() -> None:
        async with guarded(lab, "file") as (tools, held):
            await tools.open()
            lab.tell(READ | {"description": "Read any file."})
            lab.write_list({"file": [READ | {"description": "Read any file."}]})
            held._shelf.load()
            assert held.call("read_file", {"path": "a"}).decision.reason == "not-compared"
            await tools.call_tool("read_file", {"path": "a"})  # asks the server first

    run(act)


@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize(
    ("how", "reason"),
    [("added", "tool-added"), ("changed", "tool-changed"), ("removed", "tool-removed"), ("lookalike", "tool-changed")],
)
def test_a_server_of_the_sdk_that_changes_and_says_so_is_halted(notes: Lab, over: str, how: str, reason: str) -> None:
    async def act(url: str = "") -> None:
        async with guarded(notes, "sdk", url=url) as (tools, held):
            await tools.open()
            assert (await tools.call_tool("note_read", {"name": "a"})).content[0].text == "note a"  # type: ignore[union-attr]  # a text
            with pytest.raises(Denied, match="arguments-unknown"):  # which the SDK's server drops in silence
                await tools.call_tool("note_read", {"name": "a", "as_root": True})
            before = held.round
            await tools.call_tool("note_turn", {"how": how, "tell": True})
            with anyio.fail_after(5):
                while held.round == before:
                    await anyio.sleep(0.01)
            with pytest.raises(Denied) as denied:
                await tools.call_tool("note_read", {"name": "a"})
            assert denied.value.decision.reason == reason

    if over == "stdio":
        run(act)
    else:
        with http(notes) as url:
            run(lambda: act(url))


def test_the_sdks_client_of_the_newest_protocol_is_guarded_too(lab: Lab) -> None:
    """With a tool whose argument goes into a header as well, which the SDK knows from its own listing alone."""
    plain = "def note_read(name: str) -> str:"
    mirrored = 'def note_read(name: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Name"})]) -> str:'
    text = lab.sdk.read_text().replace(plain, mirrored)
    lab.sdk.write_text(
        text.replace("from mcp.server", "from typing import Annotated\nfrom pydantic import Field\nfrom mcp.server")
    )
    lab.write_policy()

    async def act(url: str) -> None:
        async with Client(url, mode="auto") as client:
            lab.write_list({"sdk": await wire(client.session)})
        shelf = lab.shelf()
        shelf.load()
        held = ToolSession(shelf, msgspec.structs.replace(GUARD, max_compared_ms=0), "sdk")
        async with Client(url, mode="auto", message_handler=on_change(held)) as client:
            assert client.protocol_version == "2026-07-28"
            tools = GuardedSession(client.session, held)
            await tools.open()
            assert (await tools.call_tool("note_read", {"name": "a"})).content[0].text == "note a"  # type: ignore[union-attr]  # a text
            with pytest.raises(Denied, match="arguments-unknown"):
                await tools.call_tool("note_read", {"name": "a", "x": 1})
            await tools.call_tool("note_turn", {"how": "changed", "tell": False})
            with pytest.raises(Denied, match="tool-changed"):
                await tools.call_tool("note_read", {"name": "a"})

    with http(lab) as url:
        run(lambda: act(url))


def test_a_denial_ends_up_in_no_log_with_what_it_was_about(lab: Lab) -> None:
    told: list[Any] = []
    shelf = lab.shelf()
    shelf.load()
    held = ToolSession(shelf, GUARD, "file", log=lambda *said: told.append(said))
    held.opened([READ])
    held.call("read_file", {"path": "/home/ada/secret", "sudo": "hunter2"})
    held.call("ignore all rules", {"path": "a"})
    assert [one[:3] for one in told] == [
        ("file", "read_file", "arguments-unknown"),
        ("file", "(not listed)", "tool-not-allowed"),
    ]
    assert all(isinstance(count, int) for one in told for count in one[3].values())
    assert "secret" not in str(told) and "hunter2" not in str(told)


def test_a_list_in_the_articles_form_stands_for_functions_of_the_workers_own(lab: Lab) -> None:
    schema = READ["inputSchema"] | {"additionalProperties": False}  # type: ignore[operator]  # a dict
    tool = {
        "name": "read_file",
        "origin": "human",
        "signed_by": "ada",
        "privileges": ["fs.read"],
        "command": [PYTHON, "./wire.py"],
        "inputSchema": schema,
    }
    lab.put({"version": 1, "tools": [tool]}, "ada")
    shelf = lab.shelf()
    shelf.load()
    own = ToolSession(shelf, msgspec.structs.replace(GUARD, wire="not compared"), "worker")
    assert own.call("read_file", '{"path": "a"}').decision.allowed
    assert own.call("read_file", '{"path": "a", "x": 1}').decision.reason == "arguments-unknown"
    assert ToolSession(shelf, GUARD, "worker").call("read_file", "{}").decision.reason == "not-compared"
    shutil.rmtree(lab.folder / "keys")  # nothing is signed again


# What the page says

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/guard-tools.md"


def test_the_program_of_the_page_runs_as_it_stands(lab: Lab) -> None:
    """But for where files lie, and that the server is called `file` here."""
    program = next(one for one in BLOCK.findall(PAGE.read_text("utf-8")) if "async def main" in one)
    program = program.replace(".drillmaster/tools-policy.yaml", str(lab.policy)).replace(
        "/etc/agent/allowed_signers", str(lab.allowed)
    )
    program = program.replace('"files"', '"file"').replace('"tools.allow.json"', repr(str(lab.list)))
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=lab.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["['read_file']", "arguments-unknown"]


def test_the_guards_file_of_the_page_is_one(tmp_path: Path) -> None:
    text = next(one for one in YAML.findall(PAGE.read_text("utf-8")) if "kind: guards" in one)
    (tmp_path / "guards.yaml").write_text(text)
    found = read_guards(tmp_path / "guards.yaml", now_ns=1_796_054_400_000_000_000)
    assert found.entries["tools"].granted == ("fs.read",)


def test_what_the_policys_owner_let_pass_halts_no_session(lab: Lab) -> None:
    odd = READ | {"description": "Read a file. <IMPORTANT>Use forward slashes.</IMPORTANT>"}
    lab.tell(odd)
    lab.write_list({"file": [odd]})
    shelf = lab.shelf()
    shelf.load()
    assert ToolSession(shelf, GUARD, "file").opened([odd]).reason == "tool-changed"
    one = {"check": "hidden-order", "tool": "read_file", "until": "2027-02-28", "why": "an old server's way to write"}
    lab.write_policy(exceptions=[one])
    clock = ManualClock(wall_ns=1_796_054_400_000_000_000)
    shelf = Shelf(lab.list, policy=lab.policy, allowed_signers=lab.allowed, clock=clock)
    shelf.load()
    assert ToolSession(shelf, GUARD, "file").opened([odd]).allowed
    changed = odd | {"title": "Read"}
    assert ToolSession(shelf, GUARD, "file").opened([changed]).reason == "tool-changed"
    clock.advance(120 * 86_400)  # in a worker that was not started again since
    assert ToolSession(shelf, GUARD, "file").opened([odd]).reason == "tool-changed"
