"""What `drillmaster init gates` does: look at a repository, write the few files that its gates begin with, say what is next."""

import os
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drillmaster.scaffold.repository import Use

__all__ = ["write_gates"]

_MOST_PATHS = 50_000
_CHANGES = frozenset({"contract", "oracle", "tools", "cutover", "workspace", "imports", "quota"})
"""Gates that judge a pull request, and so have a step in the workflow."""
_SCRIPTS = "tree-sitter tree-sitter-javascript tree-sitter-typescript"
_READS_WITH = {"contract": "jsonschema-rs", "oracle": _SCRIPTS, "imports": _SCRIPTS}
"""What a gate needs beside the wheel to read a change: the extra `contracts`, or `oracle`."""


def write_gates(folder: Path, named: Sequence[str], *, as_json: bool, workflow: bool | None) -> None:
    """Write policies and lists for the gates that `folder` has a use for, or for those `named`. Raises Problem."""
    from drillmaster.changes import FOLDER
    from drillmaster.cli import say_json
    from drillmaster.errors import Problem
    from drillmaster.gates import find
    from drillmaster.intake import read_bytes
    from drillmaster.intake.written import write_new
    from drillmaster.scaffold import blanks, template
    from drillmaster.scaffold.repository import Use, next_of, uses

    for name in named:
        find(name)
        if name == "matrix":
            raise Problem(
                "--gate matrix",
                found="the gate of the Friday drill",
                wanted="a gate whose policy lies in .drillmaster",
                remedy="drillmaster init friday writes the plan with the drill matrix, which is its policy",
            )
    if not folder.is_dir():
        raise Problem(str(folder), found="no folder", wanted="a repository", remedy="name its folder: --dir DIR")
    found = {one.gate: one for one in uses(_paths(folder))}
    chosen = {name: found.get(name, Use(gate=name, why="named", count=0, first=())) for name in named} or found
    if not chosen:
        raise Problem(
            str(folder),
            found="no contracts, tests, tools or agent memory by their names",
            wanted="a repository with something to gate",
            remedy="name the gates yourself: drillmaster init gates --gate contract",
        )
    files: dict[Path, str] = {folder / FOLDER / "roster.yaml": _kit("roster.yaml")}
    for name in chosen:
        files |= {
            folder / FOLDER / file: text for file, text in template(name).items() if file.endswith("-policy.yaml")
        }
    if "oracle" in chosen:
        files[folder / ".oracle-owners"] = _kit("oracle-owners")
    if workflow or (workflow is None and (folder / ".github").is_dir()):
        files[folder / ".github/workflows/drillmaster-gates.yml"] = _workflow(
            [one for name, one in chosen.items() if name in _CHANGES]
        )
    written = {path: write_new(path, text) for path, text in files.items()}
    left = {
        path: list(blanks(text if written[path] else read_bytes(path, 1 << 20).decode("utf-8", "replace")))
        for path, text in files.items()
        if path.suffix == ".yaml" and path.parent.name == FOLDER
    }
    base = _base(folder)

    def of_base(line: str) -> str:
        return line.replace("--base origin/main", f"--base {base}")

    if as_json:
        say_json(
            {
                "uses": list(chosen.values()),
                "written": [str(path) for path, new in written.items() if new],
                "kept": [str(path) for path, new in written.items() if not new],
                "blanks": {str(path): pointers for path, pointers in left.items() if pointers},
                "next": {name: of_base(line) for name, one in chosen.items() if (line := next_of(one)) is not None},
            }
        )
        return
    for one in chosen.values():
        where = f": {', '.join(one.first)}{f' and {one.count - 3} more' if one.count > 3 else ''}" if one.count else ""
        click.echo(f"{one.gate}: {one.why}{where}")
    for path, new in written.items():
        pointers = left.get(path, [])
        blank = f", {len(pointers)} blank{'s' if len(pointers) != 1 else ''} to fill in" if pointers else ""
        click.echo(f"{path}: {'written' if new else 'was there and is left as it is'}{blank}")
    click.echo("people: name them in the roster; an allowed_signers beside it, once merged, has every policy signed")
    for name, one in chosen.items():
        policy = folder / FOLDER / f"{name}-policy.yaml"
        first = f"fill in {policy}, then " if left.get(policy) else ""
        click.echo(f"next: {first}{of_base(next_of(one) or f'drillmaster gate {name} --help')}")


def _base(folder: Path) -> str:
    """Name the branch that changes are for: the remote's main one, without a remote the one we are on."""
    from drillmaster.intake.git import ask

    for args in (
        ["symbolic-ref", "--short", "refs/remotes/origin/HEAD"],
        ["rev-parse", "--verify", "-q", "refs/remotes/origin/main"],
    ):
        said = ask(folder, args, timeout_s=30)
        if said is not None:
            return said.decode("utf-8", "replace").strip() if args[0] == "symbolic-ref" else "origin/main"
    remotes, here = (
        ask(folder, ["remote"], timeout_s=30),
        ask(folder, ["symbolic-ref", "--short", "HEAD"], timeout_s=30),
    )
    if remotes or here is None:
        return "origin/main"
    return here.decode("utf-8", "replace").strip()


def _kit(file: str) -> str:
    return resources.files("drillmaster.kits").joinpath("gates").joinpath(file).read_text("utf-8")


def _workflow(gates: Sequence["Use"]) -> str:
    from drillmaster.scaffold.repository import evidence

    wheel = "pip install ci/drillmaster-*.whl"
    more = list(dict.fromkeys(_READS_WITH[one.gate] for one in gates if one.gate in _READS_WITH))
    head = _kit("workflow.yaml").replace(wheel, " ".join((wheel, *more)))
    steps = []
    for one in gates:
        word = _word(evidence(one))
        if (
            one.gate == "workspace"
        ):  # its files are read from a disk, where the base lies: the change's are laid beside, and none is run
            steps.append('      - run: git worktree add --detach ../change "$HEAD"\n        if: always()\n')
            word = f" ../change/{word.strip()}"
        steps.append(
            f'      - run: .venv/bin/drillmaster gate {one.gate}{word} --base "$BASE" --head "$HEAD" '
            '--event "$GITHUB_EVENT_PATH" --format github\n        if: always()\n'
        )
    return head + "".join(steps)


def _word(evidence: str) -> str:
    """One more word of a command line in a workflow; "" for none. What YAML or a shell could read otherwise is left to a person."""
    plain = re.fullmatch(r"[\w./][\w./-]*", evidence, re.ASCII) is not None
    return f" {evidence if plain else 'FILE'}" if evidence else ""


def _paths(folder: Path) -> Iterator[str]:
    """List a repository's files: those that git knows, or the folder's own where there is no git."""
    from drillmaster.intake.git import ask

    said = ask(folder, ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], timeout_s=30)
    if said is not None:
        yield from (path.decode("utf-8", "replace") for path in said.split(b"\0") if path)
        return
    seen = 0
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "node_modules", ".venv")]
        for name in names:
            seen += 1
            if seen > _MOST_PATHS:
                return
            yield (Path(here) / name).relative_to(folder).as_posix()
