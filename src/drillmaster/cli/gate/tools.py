"""`drillmaster gate tools`: may an agent load these tools?"""

import os
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("tools")
@click.argument("named", metavar="LIST", required=False, shell_complete=completions.files)
@click.option(
    "--offered",
    metavar="[SERVER=]FILE",
    multiple=True,
    shell_complete=completions.files,
    help="A server's answer to tools/list; can be given again. Those in tools.offered/ beside LIST are read anyway.",
)
@click.option(
    "--config",
    "configs",
    metavar="FILE",
    multiple=True,
    shell_complete=completions.files,
    help="A client's configuration; can be given again. Those where clients look are read anyway.",
)
@click.option(
    "--live", metavar="SERVER", help="Start this server as the list of --base says, and ask it what it offers."
)
@gate_options
def command(
    named: str | None,
    offered: tuple[str, ...],
    configs: tuple[str, ...],
    live: str | None,
    asked: "Asked",
    says: Says,
) -> None:
    """Judge the contracts of the tools that an agent may call.

    LIST, by default tools.allow.json, is in the article's form as it is, or in ours with servers and pins. Around it are judged the
    configurations of clients (.mcp.json, .cursor/mcp.json, .vscode/mcp.json) and what servers offer. Nothing is started but by
    --live, and then only what the base's list says.

    \b
    Examples:
      drillmaster gate tools tools.allow.json --policy tools-policy.yaml
      drillmaster gate tools --base origin/main --event "$GITHUB_EVENT_PATH"
      drillmaster gate tools --base origin/main --live files
    """
    import msgspec

    from drillmaster.intake.tools import ToolsIntake, from_the_root

    allowlist = os.path.normpath(asked.repo / "tools.allow.json") if named is None else named
    intake = ToolsIntake(allowlist, offered=offered, configs=configs, live=live)
    if asked.base is not None:
        asked = msgspec.structs.replace(asked, protects=(from_the_root(allowlist, asked.repo),))
    judge_and_end("tools", asked, says, intake.gather)
