"""What a shell may complete: the words of a catalogue, and the runs that are here. Each is asked only on a Tab."""

from collections.abc import Iterable

import click

__all__ = [
    "bugs",
    "dialects",
    "fault_ends",
    "fault_groups",
    "fault_parameters",
    "faults",
    "notes",
    "runs",
    "runs_going_on",
]


def _that_begin(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def faults(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.faults import names

    return _that_begin(names(), incomplete)


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


def notes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.conduct import NOTE_KINDS

    return _that_begin(NOTE_KINDS, incomplete)


def bugs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.standins.agent import BUGS

    return _that_begin(BUGS, incomplete)


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Runs in `runs/`, newest first, as ids or, where a folder is being typed, as folders."""
    from drillmaster.intake.runs import run_ids

    ids = run_ids()[::-1]
    return _that_begin((f"runs/{run}" for run in ids) if incomplete.startswith("runs/") else ids, incomplete)


def runs_going_on(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from drillmaster.run.seats import live_runs

    return _that_begin((live.run for _, live in live_runs()), incomplete)
