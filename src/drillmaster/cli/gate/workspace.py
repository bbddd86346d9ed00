"""`drillmaster gate workspace`: may an agent resume on what lies in its working directory?"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, end, gate_options
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked, Gathered
    from drillmaster.verdict import Check, Verdict

__all__ = ["command"]

_OF_THE_CHANGE = frozenset({"policy", "policy-signed", "gate-files", "attempt", "future"})
"""Checks of the way in: what they cite has its path from the root already."""
_MOST_TYPED = 3
"""Files that a remedy names; of more it says FILE."""


@click.command("workspace")
@click.argument("named", metavar="DIR", shell_complete=completions.folders)
@click.option(
    "--report",
    "report",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the findings in the article's shape as well: findings[{path, flags, severity, bytes}], refuse_count.",
    shell_complete=completions.files,
)
@gate_options
def command(named: str, report: Path | None, asked: "Asked", says: Says) -> None:
    """Judge the files that a later turn would reread.

    Every entry below DIR is looked at: bytes in every way they may be read, names, archives, links. What could not be looked at is
    refused. No value that was found is ever printed: kind, path, offset, and a fingerprint where it cannot be guessed from that.
    Exit code 0 says that this scan found nothing, and not that the host can be trusted. Without a policy the article's own
    numbers judge, its questions stay unasked, and the verdict is stamped.

    \b
    Examples:
      drillmaster gate workspace ./agent-workspace --report findings.json --exit-map articles
      drillmaster gate workspace ./agent-workspace --policy workspace-policy.yaml
      drillmaster gate workspace ./agent-workspace --base origin/main --output sarif=workspace.sarif
    """
    import json

    from drillmaster.cli._walking import shown_progress
    from drillmaster.intake.checkouts import place_of
    from drillmaster.intake.judging import judged
    from drillmaster.intake.trees import ALONE, gather_tree
    from drillmaster.intake.written import write_whole

    if not named:  # a variable that is not set: the folder we stand in was not meant
        raise Problem(
            "gate workspace", found="an empty path", wanted="a folder", remedy="name the agent's working directory"
        )
    kept: list[tuple[Any, Gathered, str]] = []
    with shown_progress() as progress:
        gather = gather_tree(Path(named), progress)

        def keep(gate: Any, told: "Asked", authority: Any) -> "Gathered":
            gathered = gather(gate, told, authority)
            kept.append((gate, gathered, place_of(Path(named), None if authority is None else authority.repo)))
            return gathered

        said = judged("workspace", asked, keep, absent=ALONE)
    gate, gathered, place = kept[0]
    if report is not None:
        write_whole(report, json.dumps(gate.report(gathered.evidence), indent=2, ensure_ascii=True) + "\n")
    end(
        _cited_from(said.verdict, named, place, {one.path for one in gathered.evidence.entries}),
        type(said.gate),
        says,
        closing=said.closing,
    )


def _cited_from(verdict: "Verdict", named: str, place: str, paths: set[str]) -> "Verdict":
    """Cite the folder's files by where they lie: what annotates a change begins at its root; what is typed, where we stand."""
    import shlex

    import msgspec

    from drillmaster.screen import MARK

    def cited(check: "Check") -> "Check":
        files = [cite.file for cite in check.cites]
        if check.id in _OF_THE_CHANGE or not paths.issuperset(files):
            return check
        remedy = check.remedy
        if 0 < len(files) <= _MOST_TYPED and not any(MARK in file or not file.isprintable() for file in files):
            typed = " ".join(shlex.quote(f"{named.rstrip('/')}/{file}") for file in files)
            remedy = remedy.replace("workspace evict FILE ", f"workspace evict {typed} ")
        cites = check.cites
        if place:
            cites = tuple(msgspec.structs.replace(cite, file=f"{place}/{cite.file}") for cite in cites)
        return msgspec.structs.replace(check, cites=cites, remedy=remedy)

    return msgspec.structs.replace(verdict, checks=tuple(map(cited, verdict.checks)))
