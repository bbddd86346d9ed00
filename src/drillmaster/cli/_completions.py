"""What a shell may complete: the words of a catalogue, the runs that are here, and files. Each is asked only on a Tab.

A shell looks for no files where click has a completion to ask, unless it is told to.
"""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

__all__ = [
    "alerting_rules",
    "asked_dialects",
    "bugs",
    "capabilities",
    "clients",
    "dialects",
    "fault_ends",
    "fault_groups",
    "fault_parameters",
    "faults",
    "faults_of_a_list",
    "files",
    "flags",
    "folders",
    "friday_bugs",
    "gates",
    "guards",
    "notes",
    "runs",
    "runs_going_on",
    "runs_or_files",
]


def _that_begin(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which knows its files."""
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def alerting_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those of the files that stand on the line already."""
    from drillmaster.errors import Problem
    from drillmaster.intake.alerting import rule_names

    try:
        return _that_begin(rule_names(ctx.params.get("prometheus"), ctx.params.get("rules") or ()), incomplete)
    except Problem:
        return []


def faults(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.faults import names

    return _that_begin(names(), incomplete)


def faults_of_a_list(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last of the tags between commas, and none that stands there already."""
    from drillmaster.faults import names

    before, comma, last = incomplete.rpartition(",")
    said = before.split(",")
    return [f"{before}{comma}{tag}" for tag in _that_begin(names(), last) if tag not in said]


def clients(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those that can be checked, installed or not: to find out would start their interpreter."""
    from drillmaster.sdkcheck.cells import CLIENTS

    return _that_begin((client.name for client in CLIENTS), incomplete)


def flags(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Chaos flags of the registry that lies here."""
    return _that_begin(_registered(kills=False), incomplete)


def capabilities(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What that registry can kill."""
    return _that_begin(_registered(kills=True), incomplete)


def _registered(*, kills: bool) -> list[str]:
    from drillmaster.errors import Problem
    from drillmaster.flags.server import read_registry

    try:
        return [flag.name for flag in read_registry("flags.yaml").flags if (flag.kind == "kill") is kills]
    except Problem:
        return []


def fault_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.trying.shelf import read

    return _that_begin(sorted({entry.group for entry in read().faults.values()}), incomplete)


def fault_ends(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.trying.shelf import read

    return _that_begin(sorted({end for entry in read().faults.values() for end in entry.seen}), incomplete)


def fault_parameters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The parameters of the fault that was typed already."""
    from drillmaster.faults import load, names
    from drillmaster.trying.parameters import parameters

    # While an option waits for its value, click has not yet given the words before it their places.
    tag = next((word for word in (ctx.params.get("tag"), *ctx.args) if word in names()), None)
    return [] if tag is None else _that_begin((f"{one.name}=" for one in parameters(load(tag))), incomplete)


def dialects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.dialects import names

    return _that_begin(names(), incomplete)


def asked_dialects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those that a load interview can ask in."""
    from drillmaster.ladder.bodies import DIALECTS

    return _that_begin(sorted(DIALECTS), incomplete)


def gates(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.gates import names

    return _that_begin(names(), incomplete)


def guards(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.guards import names

    return _that_begin(names(), incomplete)


def checks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Gates, and the ids of their checks; one that stands for several by a `*` is no word to type."""
    from drillmaster.gates import names
    from drillmaster.gates._asks import asks, shared

    ids = {one.id for book in (shared(), *map(asks, names())) for one in book.check if "*" not in one.id}
    return _that_begin((*names(), *sorted(ids)), incomplete)


def notes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.conduct import NOTE_KINDS

    return _that_begin(NOTE_KINDS, incomplete)


def bugs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.standins.agent import BUGS

    return _that_begin(BUGS, incomplete)


def friday_bugs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.standins.concierge import CONCIERGE_BUGS

    return _that_begin(CONCIERGE_BUGS, incomplete)


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Runs in `runs/`, newest first, as ids or, where a folder is being typed, as folders; else the shell's own folders."""
    return _runs(incomplete) or folders(ctx, param, incomplete)


def runs_or_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The same, where one file will do as well."""
    return _runs(incomplete) or files(ctx, param, incomplete)


def _runs(incomplete: str) -> list[CompletionItem]:
    from drillmaster.intake.runs import run_ids

    ids = run_ids()[::-1]
    words = (f"runs/{run}" for run in ids) if incomplete.startswith("runs/") else ids
    return [CompletionItem(word) for word in _that_begin(words, incomplete)]


def runs_going_on(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from drillmaster.run.seats import live_runs

    ids = _that_begin((live.run for _, live in live_runs()), incomplete)
    return [CompletionItem(run) for run in ids] or folders(ctx, param, incomplete)
