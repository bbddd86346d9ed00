"""What the tool makes for faults beside their page: the table of parameters, and the index that ships with the package.

The index (`src/drillmaster/faults/index.json`) lets `drillmaster fault list` say what there is without importing an entry, and
say elsewhere than in a checkout what stands behind each: whether its bytes are captured (`tests/golden/faults`), whether it
has a page, and what the SDKs of `docs/reference/sdk-table.md` did with it.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from drillmaster import faults
from drillmaster.trying.parameters import parameters
from drillmaster.trying.shelf import Cell, Entry, Index

__all__ = ["INDEX", "by_group", "fields", "index", "sdk_page"]

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "src" / "drillmaster" / "faults" / "index.json"
CAPTURES = ROOT / "tests" / "golden" / "faults"
SDK_TABLE = ROOT / "docs" / "reference" / "sdk-table.md"


def fields(kind: type[faults.Fault]) -> Iterator[str]:
    """Write what a fault's entry declares: its group and scope, what proves it, its parameters."""
    needs = f" · strikes only: {', '.join(kind.needs)}" if kind.needs else ""
    yield f"Group: {kind.group} · scope: {kind.scope} · proof: {kind.proof}{needs} · a plain client sees: {', '.join(kind.seen)}"
    yield ""
    known = parameters(kind)
    if not known:
        return
    yield "| parameter | takes | unit | default | |"
    yield "|---|---|---|---|---|"
    for one in known:
        takes = one.kind + (f" ({one.bounds})" if one.bounds else "")
        default = (
            f"`{one.default}`" if one.default else "must be given" + (f", say `{one.example}`" if one.example else "")
        )
        cells = (f"`{one.name}`", takes.replace("|", chr(92) + "|"), one.unit, default, one.description)
        yield f"| {' | '.join(cells)} |"
    yield ""


def by_group() -> Iterator[str]:
    """Write the tags under their groups, each a link to its place on the page."""
    groups: dict[str, list[str]] = {}
    for tag in faults.names():
        groups.setdefault(faults.load(tag).group, []).append(tag)
    for group in (name for name in get_args(faults.Group) if name in groups):
        yield f"- **{group}**: " + ", ".join(f"[{tag}](#{tag})" for tag in groups[group])
    yield ""


def index(page: str, sdk_page: str) -> str:
    """Write the index, from the text of the page of faults and of that of SDKs; empty: there is none."""
    date, clients, cells = _sdks(sdk_page)
    entries = {}
    for tag in faults.names():
        kind = faults.load(tag)
        entries[tag] = Entry(
            line=inspect.cleandoc(kind.__doc__ or "").splitlines()[0],
            group=kind.group,
            scope=kind.scope,
            proof=kind.proof,
            needs=kind.needs,
            seen=kind.seen,
            params=tuple(one.name for one in parameters(kind)),
            captured=(CAPTURES / f"{tag}.txt").is_file(),
            page=f"\n## {tag}\n" in page,
            sdks=tuple(cells.get(tag, ())),
        )
    # A line a fault, so that a change of one is a change of one line.
    lines = [f"{_json(tag)}: {_json(entry)}" for tag, entry in entries.items()]
    head = f'"sdks_measured": {_json(date)},\n"clients": {_json(clients)}'
    made = "{\n" + head + ',\n"faults": {\n' + ",\n".join(lines) + "\n}\n}\n"
    msgspec.json.decode(made, type=Index)
    return made


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def sdk_page() -> str:
    """Read the page of what SDKs do, as it lies in the docs."""
    return SDK_TABLE.read_text("utf-8") if SDK_TABLE.exists() else ""


def _sdks(text: str) -> tuple[str, dict[str, str], dict[str, list[Cell]]]:
    """Read off that page its date, the clients and their versions, and the cells by tag."""
    date = re.search(r"^Measured on (\d{4}-\d{2}-\d{2})", text, re.M)
    clients: dict[str, str] = {}
    cells: dict[str, list[Cell]] = {}
    for section in re.split(r"^## ", text, flags=re.M):
        rows = [_row(line) for line in section.splitlines() if line.startswith("|")]
        if section.startswith(("Whole answers", "Streamed answers")):
            names = rows[0][1:]
            for label, *said in rows[2:]:
                cells.setdefault(label.split()[0], []).extend(
                    Cell(label=label, client=name, stream=section.startswith("Streamed"), said=what)
                    for name, what in zip(names, said, strict=False)
                    if what and not what.startswith("not met")
                )
        elif rows and rows[0][:2] == ["client", "version"]:
            clients.update({row[0]: row[1] for row in rows[2:]})
    return date[1] if date else "", clients, cells


def _row(line: str) -> list[str]:
    parts: list[Any] = re.split(r"(?<!\\)\|", line)[1:-1]
    return [part.strip().replace("\\|", "|").replace("**", "").replace("&lt;", "<") for part in parts]
