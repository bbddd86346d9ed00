"""`drillmaster gate schema`: the shape of a gate's limits, for an editor."""

from typing import Any

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


@click.command("schema")
@click.argument("gate", shell_complete=completions.gates)
def command(gate: str) -> None:
    """Print the JSON Schema of a policy with the limits of one gate, for editors that check a file while it is typed.

    The schema is narrower than nothing and wider than the gate: what it lets through is still read strictly.

    \b
    Examples:
      drillmaster gate schema canary > canary-policy.schema.json
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.gates import find
    from drillmaster.policy import Policy

    if gate == "matrix":  # its policy is a kind of its own
        from drillmaster.slo import DrillMatrix

        say_json(_portable({**msgspec.json.schema(DrillMatrix), "$schema": _DRAFT, "title": "Drill matrix"}))
        return
    (entry, whole), definitions = msgspec.json.schema_components([find(gate), Policy], ref_template="#/$defs/{name}")
    policy = definitions["Policy"]
    policy["properties"]["gates"] = {"type": "array", "minItems": 1, "contains": entry, "items": {"type": "object"}}
    say_json(
        {
            "$schema": _DRAFT,
            "title": f"Policy of the {gate} gate",
            "$defs": _portable(definitions),
            **whole,
        }
    )


def _portable(value: Any) -> Any:
    """Say patterns as JSON Schema has them, in the words of ECMA-262, which knows neither `\\A` nor `\\Z`."""
    if isinstance(value, list):
        return [_portable(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: inner.replace(r"\A", "^").replace(r"\Z", "$")
        if name == "pattern" and isinstance(inner, str)
        else _portable(inner)
        for name, inner in value.items()
    }
