"""`drillmaster guard schema`: the shape of limits, facts and decisions, for an editor or another language."""

from typing import Any

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.command("schema")
@click.argument("guard", shell_complete=completions.guards)
@click.option(
    "--of",
    "what",
    type=click.Choice(["limits", "facts", "decision"]),
    default="limits",
    show_default=True,
    help="A guards file with its limits, the facts that it is asked by, or what it answers.",
)
def command(guard: str, what: str) -> None:
    """Print a JSON Schema: of a guards file with the limits of one guard, of its facts, or of its decision.

    The schema is wider than the guard: what it lets through is still read strictly.

    \b
    Examples:
      drillmaster guard schema quota > guards.schema.json
      drillmaster guard schema retry --of facts
      drillmaster guard schema retry --of decision
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.intake.guards_files import kind_of
    from drillmaster.policy import GuardsFile

    kind = kind_of(guard)
    template = "#/$defs/{name}"
    if what == "facts":
        (whole,), definitions = msgspec.json.schema_components([kind.facts], ref_template=template)
    elif what == "decision":
        (whole,), definitions = msgspec.json.schema_components([kind.decision], ref_template=template)
        definitions[kind.decision.__name__]["properties"]["reason"] = {"enum": list(kind.reasons)}
    else:
        (entry, whole), definitions = msgspec.json.schema_components([kind.guard, GuardsFile], ref_template=template)
        own = definitions[str(entry["$ref"]).rpartition("/")[2]]
        own["properties"]["name"] = {"type": "string", "pattern": "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", "maxLength": 64}
        file = definitions["GuardsFile"]
        file["properties"]["guards"] = {"type": "array", "minItems": 1, "contains": entry, "items": {"type": "object"}}
    said: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{what.capitalize()} of the {guard} guard",
        "$defs": definitions,
        **whole,
    }
    say_json(said)
