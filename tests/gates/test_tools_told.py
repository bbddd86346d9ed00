"""Where the tools gate says that something is, and how it is mended."""

from drillmaster.changes import Lane
from drillmaster.gates._cases.tools import LIMITS, UNKNOWN, good, listing
from drillmaster.gates.tools import Config, Tools
from drillmaster.verdict import Check
from tests.gates.test_tools import tool


def check(evidence: Tools, id_: str) -> Check:
    return next(one for one in LIMITS.checks(evidence) if one.id == id_)


def test_what_a_clients_file_holds_is_cited_there_and_what_the_list_holds_in_it() -> None:
    web = {"mcpServers": {"web": {"command": "npx", "args": ["-y", "web-mcp"]}}}
    both = good(
        listing=listing(
            tool(inputSchema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
        ),
        configs=(Config(place="a/.mcp.json", value=web),),
    )
    assert [one.file for one in check(both, "server-not-listed").cites] == ["a/.mcp.json"]
    assert [one.file for one in check(both, "open-object-schema").cites] == [both.listing.place]
    assert check(good(), "server-not-listed").cites == ()


def test_before_the_first_roster_a_touched_list_is_told_what_comes_first() -> None:
    nobody = good(lane=UNKNOWN, touched=("tools.allow.json.sig",), signing="not demanded")
    assert "merge .drillmaster/roster.yaml first" in check(nobody, "model-patch").remedy
    stranger = good(
        lane=Lane(name="unknown", by="a commit by nobody of the roster"), touched=("x",), signing="not demanded"
    )
    assert "an account on the roster" in check(stranger, "model-patch").remedy
