"""`drillmaster guard`: what decides inside a worker, answered by hand or served. One file a verb, and each guard is one."""

import click

from drillmaster.cli import Verbs

__all__ = ["command"]


class _Guards(Verbs):
    """The verbs of the package, and the guards of the catalogue: what is a guard there is a command here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from drillmaster.guards import names

        return sorted({*super().list_commands(ctx), *names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from drillmaster.guards import names

        if cmd_name not in names():
            return super().get_command(ctx, cmd_name)
        from drillmaster.cli.guard._decide import command_of

        return command_of(cmd_name)


command = _Guards(
    package=__name__,
    name="guard",
    help="""Ask a guard what a worker would be told, check a guards file, or serve one over loopback.

    A guard is pinned limits and a few facts in, one decision out. Workers in Python import it; others ask `guard serve`. What
    answers here is the same code.

    \b
    Begin with:
      drillmaster init guards --guard quota        # limits with blanks, each explained
      drillmaster guard check guards.yaml          # owner, review date, limits
      drillmaster guard quota                      # its facts and its reasons
      drillmaster guard quota --explain facts.json --guards guards.yaml
    """,
)
