"""What a gate says in each form where it cannot judge: evidence, a policy or a command line that cannot be used.

A verdict that was asked for as a file has to be there whatever happened. One of yesterday would be read in its place, and a
file that is missing is for many readers of JUnit and SARIF a pass.
"""

import sys
from typing import TYPE_CHECKING

import click

from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.cli.gate._forms import Says
    from drillmaster.verdict import Verdict

__all__ = ["tell", "unusable"]


def unusable(name: str, problem: Problem, says: "Says") -> "Verdict":
    """Make the verdict of a gate that had nothing to judge: refused, with one check that says what and how it is mended."""
    import drillmaster
    from drillmaster.clock import rfc3339
    from drillmaster.errors import one_line
    from drillmaster.reports import screened
    from drillmaster.verdict import Check, Verdict

    check = Check(
        id="usable",
        role="admission",
        status="refused",
        title="policy, evidence and command line can be used",
        why=one_line(f"{problem.place}: found {problem.found}, wanted {problem.wanted}"),
        remedy=one_line(problem.remedy),
    )
    return screened(
        Verdict(
            gate=name,
            status="refused",
            checks=(check,),
            stamps=("EXIT MAP articles",) if says.mapped else (),
            now=rfc3339(says.now_ns),
            version=drillmaster.__version__,
        )
    )


def tell(name: str, error: Exception, says: "Says") -> None:
    """Write the refusal in every form that was asked for; as text and as JSON the command line tells it itself."""
    outputs = says.outputs
    if isinstance(error, Problem):
        problem = error
        if problem.place == "--output":  # a form that would replace what is read, or another form
            outputs = ()
    else:
        found = f"an internal error, {type(error).__name__}"
        problem = Problem(
            f"gate {name}", found=found, wanted="none", remedy="set DRILLMASTER_DEBUG=1 for the whole of it"
        )
    if not outputs and says.form in ("text", "json"):
        return
    from drillmaster.cli.gate._forms import rendered, summarise
    from drillmaster.intake.written import write_whole

    verdict = unusable(name, problem, says)
    for form, path in outputs:
        try:
            write_whole(path, rendered(verdict, form))
        except Problem as lost:  # it is refused already; the other forms are written all the same
            print(f"drillmaster: {lost}", file=sys.stderr)
    if says.form not in ("text", "json"):
        click.echo(rendered(verdict, says.form), nl=False)
    if says.form == "github":
        summarise(rendered(verdict, "markdown"))
