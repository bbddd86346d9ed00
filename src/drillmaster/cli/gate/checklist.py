"""`drillmaster gate checklist`: what a person has to answer, since no machine can know."""

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.command("checklist")
@click.argument("gate", shell_complete=completions.gates)
@click.option(
    "--table", is_flag=True, help="Print everything that is asked, with the checks or the question behind it."
)
def command(gate: str, table: bool) -> None:
    """Print the questions of a gate as a Markdown checklist, to be put into a pull request.

    With them come those of the contract that all gates share. A question stands there only where no machine can know the
    answer, and says why. A pass of the gate answers none of them.

    \b
    Examples:
      drillmaster gate checklist canary
      drillmaster gate checklist contract --table
    """
    import msgspec

    from drillmaster.gates._asks import asks, shared

    book = asks(gate)
    book = msgspec.structs.replace(book, line=(*book.line, *shared().line))
    if table:
        click.echo("\n".join(book.table()))
        return
    questions = [line for line in book.line if line.question]
    asked = len(book.line) - len(questions)
    click.echo(f"## {gate}: for a person to answer\n")
    click.echo(
        f"Of {len(book.line)} things that are asked of it, {asked} are checks of the gate. These are for people:\n"
    )
    for line in questions:
        click.echo(f"- [ ] {line.question} ({line.section}; no machine can know: {line.why})")
