"""Which gates a repository has a use for."""

import re
from importlib import resources

import pytest

from drillmaster.gates import names
from drillmaster.rules.oracle_owners import SOURCES, read_oracle_owners
from drillmaster.scaffold.repository import NEXT, uses


@pytest.mark.parametrize(
    ("path", "gates"),
    [
        ("openapi.yaml", ["contract"]),
        ("api/openapi-v2.json", ["contract"]),
        ("proto/order.proto", ["contract"]),
        ("db/migrate/001_add.rb", ["contract"]),
        ("migrations/0001_initial.sql", ["contract"]),
        ("tools/schema/search.json", ["contract"]),
        (".mcp.json", ["tools"]),
        (".cursor/mcp.json", ["tools"]),
        (".vscode/mcp.json", ["tools"]),
        ("config/tools.allow.json", ["tools"]),
        ("tests/test_app.py", ["oracle"]),
        ("pkg/order_test.go", ["oracle"]),
        ("web/src/cart.test.tsx", ["oracle"]),
        ("fixtures/http/charge.json", ["oracle"]),
        ("ops/prometheus.yml", ["canary"]),
        ("deploy/canary_metrics.json", ["canary"]),
        ("plans/orders-cutover.json", ["cutover"]),
        ("agent/memory.json", ["workspace"]),
        (".agent/session-1.jsonl", ["workspace"]),
        # what is called alike and is none of these
        ("src/testimonials.py", []),
        ("src/contest/result.py", []),
        ("docs/openapi.md", []),
        ("src/agents.py", []),
        ("agents/reader.py", []),
        ("memory.json", []),
        ("src/latest.py", []),
        ("mcp.json.md", []),
        ("README.md", []),
    ],
)
def test_names_speak_for_gates(path: str, gates: list[str]) -> None:
    assert [one.gate for one in uses([path])] == gates


def test_what_spoke_for_a_gate_is_told_with_it() -> None:
    (use,) = uses([f"tests/test_{n}.py" for n in range(9)])
    assert (use.gate, use.count, use.first) == ("oracle", 9, ("tests/test_0.py", "tests/test_1.py", "tests/test_2.py"))


def test_every_gate_that_can_be_found_is_one_and_has_a_next_command() -> None:
    assert set(NEXT) <= set(names())
    assert all("drillmaster " in command for command in NEXT.values())


def test_the_list_of_owners_that_is_written_names_every_source_that_there_is() -> None:
    kit = resources.files("drillmaster.kits").joinpath("gates").joinpath("oracle-owners").read_text("utf-8")
    assert set(re.findall(r"^#   (\S+)", kit, re.M)) == set(SOURCES)
    rows, defects = read_oracle_owners(kit.replace("\n#tests", "\ntests").encode())
    assert [row.glob for row in rows] == ["tests/oracle/**"] and defects == ()
