"""The Lead's orders to a drill that goes on: one shape, three verbs."""

import inspect
from collections.abc import Callable

import click

from drillmaster.cli import _completions as completions

__all__ = ["lead_order"]

STOP_S = 60.0
"""How long an interview may take to end its engine and to seal."""
_RUN = "RUN is the live run's id or folder; without it the only live one is meant."
_OPTIONS = (
    click.argument("run", required=False, shell_complete=completions.runs_going_on),
    click.option("--why", default="", help="One line for the record."),
    click.option("--by", default="", help="Who orders it. Default: the plan's Lead."),
    click.option(
        "--token-file",
        metavar="FILE",
        help="The Lead's token. Default: the one in the state folder.",
        shell_complete=completions.files,
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
)


def lead_order(order: str) -> Callable[[Callable[[], None]], click.Command]:
    """Make a verb of an order. What is decorated says in its docstring what the order does, and does nothing itself."""

    def make(said: Callable[[], None]) -> click.Command:
        def give(run: str | None, why: str, by: str, token_file: str | None, as_json: bool) -> None:
            from drillmaster.cli import say_json
            from drillmaster.conduct import SAID, Role, State
            from drillmaster.run.seats import stop_load
            from drillmaster.run.verbs import give_order

            load = stop_load(run, within_s=STOP_S) if order == "stop" else None
            if load is not None:
                if as_json:
                    say_json({"run": load.run, "state": "sealed", "text": "stopped"})
                else:
                    click.echo(f"stopped; what was measured of run {load.run} is sealed in {load.run_dir}")
                return
            name, told = give_order(order, run=run, token_file=token_file, seat=Role.LEAD, text=why, by=by)
            if as_json:
                say_json({"run": name, "state": told.state, "text": told.text})
            else:
                click.echo(f"{told.text}; run {name} is {SAID[State(told.state)]}")

        examples = f"  drillmaster {order}\n  drillmaster {order} 20261129T153000Z-1a2b --why 'as agreed'"
        give.__doc__ = f"{inspect.getdoc(said)}\n\n{_RUN}\n\n\b\nExamples:\n{examples}\n"
        decorated: Callable[..., None] = give
        for option in reversed(_OPTIONS):
            decorated = option(decorated)
        return click.command(order)(decorated)

    return make
