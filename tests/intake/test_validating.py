"""Examples against schemas: what fits, what does not, and what is never taken for either."""

# ruff: noqa: E501  # a case is one row

import json
import sys
from typing import Any

import pytest

from drillmaster.errors import Problem
from drillmaster.gates._contract_evidence import Fixture
from drillmaster.intake.contracts import tried
from drillmaster.intake.validating import Validators

ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "pattern": "^(a+)+$"}}}


def api(version: str) -> dict[str, Any]:
    order = {
        "type": "object",
        "required": ["note"],
        "properties": {
            "note": {"type": "string", "nullable": True, "enum": ["x"]},
            "line": {"$ref": "#/components/schemas/Line"},
        },
    }
    line = {"type": "integer", "minimum": 1, "exclusiveMinimum": True} if version.startswith("3.0") else {"const": 2}
    return {"openapi": version, "paths": {}, "components": {"schemas": {"Order": order, "Line": line}}}


def fault(document: Any, pointer: str, value: Any) -> str:
    return Validators().fault(json.dumps(document).encode(), "contract.json", pointer, value)


@pytest.mark.parametrize(
    ("document", "pointer", "value", "said"),
    [
        (ORDER, "", {"id": "x"}, "/id breaks properties/id/pattern"),
        (ORDER, "", {}, "the whole breaks required"),
        (ORDER, "", [], "the whole breaks type"),
        (ORDER, "", {"id": "aaa"}, ""),
        (ORDER, "/properties/id", "b", "the whole breaks properties/id/pattern"),
        ({**ORDER, "$schema": "http://json-schema.org/draft-07/schema#"}, "/properties/id", "a", ""),
        (api("3.0.3"), "/components/schemas/Order", {"note": None}, ""),
        (api("3.0.3"), "/components/schemas/Order", {"note": "y"}, "/note breaks components/schemas/Order/properties/note/enum"),
        (api("3.0.3"), "/components/schemas/Order", {"note": "x", "line": 1}, "/line breaks components/schemas/Line/exclusiveMinimum"),
        (api("3.1.0"), "/components/schemas/Order", {"note": None}, "/note breaks components/schemas/Order/properties/note/"),
        (api("3.1.0"), "/components/schemas/Order", {"note": "x", "line": 2}, ""),
        ({"tools": [{"name": "a", "inputSchema": ORDER}]}, "/tools/0/inputSchema", {}, "the whole breaks tools/0/inputSchema/required"),
        ([{"name": "a", "input_schema": ORDER}], "/0/input_schema", {"id": "a"}, ""),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}, "", 1, "the whole breaks exclusiveMinimum"),
        ({"$defs": {"a b/c": {"type": "integer"}}}, "/$defs/a b~1c", "x", "the whole breaks $defs/a b/c/type"),
    ],
)  # fmt: skip  # one case a row
def test_what_fits_fits_and_what_does_not_says_where(document: Any, pointer: str, value: Any, said: str) -> None:
    found = fault(document, pointer, value)
    assert found.startswith(said) if said else found == ""


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"$ref": "https://example.com/x.json"}, ""),  # nothing is fetched
        ({"$ref": "file:///etc/passwd"}, ""),
        ({"$ref": "other.json"}, ""),
        ({"$ref": "#/$defs/none"}, ""),
        ({"type": "nonsense"}, ""),
        ({"$schema": "https://example.com/my-own", "type": "integer"}, ""),
        (ORDER, "/none"),
        (ORDER, "properties/id"),
        (ORDER, "/required"),
        ({"tools": [{"name": "a", "inputSchema": ORDER}]}, ""),
        (api("3.1.0"), ""),
        ([1, 2], "/7"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_problem_and_never_a_fit(document: Any, pointer: str) -> None:
    with pytest.raises(Problem) as told:
        fault(document, pointer, {"id": "a"})
    assert told.value.remedy


def test_a_consumers_value_is_not_repeated() -> None:
    assert "secret-looking" not in fault(ORDER, "", {"id": "secret-looking"})


def test_without_the_library_nothing_fits_and_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    one = Fixture(contract="contract.json", file="a.json", expect="valid")
    trials, untried = tried([one], {"contract.json": b"{}"}, {"a.json": b"{}"})
    assert (trials, untried.rpartition(": ")[2]) == ((), "pip install 'drillmaster[contracts]'")


@pytest.mark.parametrize(
    ("example", "outcome"),
    [(b'{"id": "a"}', "valid"), (b"{}", "invalid"), (b"{", "error"), (b'{"id": 1, "id": "a"}', "error"), ("no such file", "error")],
)  # fmt: skip  # one case a row
def test_an_example_is_tried_or_is_none(example: bytes | str, outcome: str) -> None:
    one = Fixture(contract="contract.json", file="a.json", expect="valid")
    trials, untried = tried([one], {"contract.json": json.dumps(ORDER).encode()}, {"a.json": example})
    assert (untried, [trial.outcome for trial in trials]) == ("", [outcome])
