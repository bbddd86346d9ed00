"""`drillmaster workspace`: move durable state out of an agent's working directory, and check it before a resume."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.cuts import Kept

__all__ = ["command"]


def _named(ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...]) -> Path | tuple[Path, ...]:
    """Take paths, and refuse what an unset variable leaves behind: as a path, "" would be the folder we stand in."""
    words = value if isinstance(value, tuple) else (value,)
    if not all(words):
        raise click.BadParameter("found an empty path, wanted one that says where", ctx, param)
    paths = tuple(Path(word) for word in words)
    return paths if isinstance(value, tuple) else paths[0]


@click.group("workspace", cls=Verb)
def command() -> None:
    """Move durable state out of a workspace, and check what was moved.

    What may lie in one: `drillmaster gate workspace DIR`.

    \b
    Examples:
      drillmaster workspace evict agent-workspace/memory.json --to /mnt/store/agent
      drillmaster workspace resume ./agent-workspace && start-agent
    """


@command.command("evict")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    callback=_named,
    shell_complete=completions.files,
)
@click.option(
    "--to",
    "store",
    metavar="STORE",
    required=True,
    callback=_named,
    help="A folder outside the workspace, on a disk that stays, which is there already.",
    shell_complete=completions.folders,
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def evict(files: tuple[Path, ...], store: Path, as_json: bool) -> None:
    """Copy, verify, then cut: FILE goes to STORE, and a MEMORY_POINTER stays in its place.

    The file is removed after the copy was synced, read back and has its checksum, and the pointer is on the disk. Killed at any
    step, do it again: it goes on. Refused is a file that somebody writes, that is locked, linked or has a second name, and a
    store that holds another file of that name. The files before a refused one stay moved.

    \b
    Examples:
      drillmaster workspace evict agent-workspace/memory.json --to /mnt/store/agent
      drillmaster workspace evict notes/memory.md plan.md --to /mnt/store/agent --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cuts import cut
    from drillmaster.errors import Refused, one_line

    names = [one.name for one in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(
            "workspace evict",
            found=f"two files named {twice}",
            wanted="one of each name in one store",
            remedy="evict them apart, each --to a folder of its own",
        )
    done = []
    try:
        for file in files:
            moved = cut(file, store)
            done.append(moved)
            if not as_json:
                click.echo(
                    one_line(f"moved {moved.file} to {moved.store}, sha256 {moved.sha256}; {moved.pointer} says so")
                )
            if moved.same_disk:
                click.echo(
                    f"note: {one_line(str(store))} is on the same file system: a host that goes takes both", err=True
                )
    finally:
        if as_json and len(done) == len(files):
            say_json({"moved": done})


@command.command("resume")
@click.argument(
    "folder",
    metavar="DIR",
    callback=_named,
    shell_complete=completions.folders,
)
@click.option("--check", is_flag=True, help="Only look: a cut that was interrupted is told, and not finished.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def resume(folder: Path, check: bool, as_json: bool) -> None:
    """Check every MEMORY_POINTER below DIR before an agent resumes on it.

    For each file: it lies in its store, with the checksum of the day it was moved. A cut that was interrupted is finished where
    file and copy are the same. Exit code 0: each is whole. 1: one is missing or another. 2: no pointer, or one that cannot be read.

    \b
    Examples:
      drillmaster workspace resume ./agent-workspace && start-agent
      drillmaster workspace resume ./agent-workspace --check --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cuts import pointers_below
    from drillmaster.cuts import resume as resume_one
    from drillmaster.errors import Exit, Refused, one_line

    pointers = pointers_below(folder)
    if not pointers:
        raise Refused(
            one_line(str(folder)),
            found="no MEMORY_POINTER below it",
            wanted="something to resume on",
            remedy="drillmaster workspace evict FILE --to STORE moves state and leaves one",
        )
    rows: list[Kept] = [row for pointer in pointers for row in resume_one(pointer, finish=not check)]
    code = Exit.PASS if all(row.holds for row in rows) else Exit.FAIL
    if as_json:
        say_json({"files": rows, "exit": int(code)})
    else:
        for row in rows:
            word = "PASS" if row.holds else "FAIL"
            click.echo(one_line(f"{word} {row.file}: {row.status}, {row.uri}" + (f": {row.why}" if row.why else "")))
        click.echo(
            f"{len(rows)} files of {len(pointers)} pointers are whole: resume"
            if code is Exit.PASS
            else "do not resume: restore what is missing from the store's own backup"
        )
    sys.exit(code)
