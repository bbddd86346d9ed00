"""The gate over tools that an agent may call: what is new in a change, and who stands behind it."""

from typing import Any

import pytest

from drillmaster.changes import Lane
from drillmaster.gates._cases.tools import ALLOWED, OFFERED, SERVER, TOOL, good, ours
from drillmaster.gates.tools import Config, Listing, Offered, Tools
from drillmaster.strict import digest
from tests.gates.test_tools import missed, verdict

SCHEMA = TOOL["inputSchema"]

FREE = Lane(name="free", by="a bot")
UNKNOWN = Lane(name="unknown", by="nobody is known")
WIDER = SCHEMA | {"properties": {**SCHEMA["properties"], "line": {"type": "integer"}}}


def changed(**more: Any) -> Tools:
    plain: dict[str, Any] = {"signing": "not demanded", "signers": (), "lane": UNKNOWN}
    return good(**(plain | more))


def test_an_unknown_lane_that_touches_the_list_is_refused_unless_it_is_signed() -> None:
    touched = {"touched": ("tools.allow.json",)}
    assert verdict(changed(**touched)).status == "refused"
    assert missed(changed(**touched)) == {"model-patch"}
    assert missed(good(lane=UNKNOWN, **touched)) == set()
    assert missed(good(lane=FREE, **touched)) == {"model-patch"}


@pytest.mark.parametrize(
    ("more", "id_"),
    [
        ({"listing": ours(ALLOWED | {"inputSchema": WIDER})}, "schema-origin"),
        ({"before": ours(servers=(SERVER | {"command": ["/usr/bin/node", "./old.js"]},))}, "command-changed"),
        ({"configs_before": (Config(place=".mcp.json", value={"mcpServers": {}}),)}, "server-added"),
        ({"configs_before": ()}, "server-added"),
    ],
)
def test_what_is_new_has_a_person_behind_it(more: dict[str, Any], id_: str) -> None:
    assert missed(changed(**more)) == {id_}
    assert missed(good(**more)) == set()
    assert missed(changed(**{**more, "lane": Lane(name="human", by="ada", people=("ada",))})) == set()


def test_another_url_under_an_old_name_is_named() -> None:
    at = {"name": "far", "url": "https://mcp.example.com/mcp"}
    was = ours(servers=(SERVER, at | {"url": "https://old.example.com/mcp"}))
    assert missed(changed(listing=ours(servers=(SERVER, at)), before=was)) == {"url-changed"}


def test_a_privilege_more_takes_two_people() -> None:
    wider = ours(ALLOWED | {"privileges": ["fs.read", "http.get"]})
    assert missed(good(listing=wider)) == {"privilege-expansion"}
    assert verdict(good(listing=wider)).status == "fail"
    assert missed(good(listing=wider, signers=("operator.local", "bea@example.com"))) == set()
    assert missed(good(listing=wider, signers=("operator.local", "operator.local"))) == {"privilege-expansion"}
    assert verdict(changed(listing=wider)).status == "refused"


def test_a_new_tool_that_reads_as_others_did_takes_one_person_and_one_that_writes_two() -> None:
    wire = OFFERED | {"name": "repo_list"}
    more = (*good().offered, Offered(place="x", server="repo", tool=wire))
    entry = ALLOWED | {"name": "repo_list", "wire_sha256": digest(wire)}
    assert missed(good(listing=ours(ALLOWED, entry), offered=more)) == set()
    wire = wire | {"annotations": {}}
    more = (*good().offered, Offered(place="x", server="repo", tool=wire))
    entry = entry | {"privileges": ["fs.write.limited"], "wire_sha256": digest(wire)}
    assert missed(good(listing=ours(ALLOWED, entry), offered=more)) == {"privilege-expansion"}


def test_the_first_list_of_all_and_fewer_privileges_take_no_second_person() -> None:
    none = Listing(place="tools.allow.json", missing="not at the base")
    assert missed(good(before=none)) == set()
    assert missed(good(before=ours(ALLOWED | {"privileges": ["fs.read", "http.get"]}))) == set()


def test_who_is_named_in_a_new_contract_is_one_of_those_who_signed() -> None:
    wider = ours(ALLOWED | {"inputSchema": SCHEMA | {"title": "Read"}})
    assert missed(good(listing=wider)) == set()
    assert missed(good(listing=wider, signers=("bea@example.com",))) == {"signed-by-stranger"}
    # What stood there before was signed before, and an article's name is a label.
    assert missed(good(signers=("bea@example.com",))) == set()
