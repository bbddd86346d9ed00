"""A matrix from a run folder: the run as every gate reads it, and what its conductor wrote of the cells."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import timeline
from drillmaster.admissions import sealed
from drillmaster.errors import Refused
from drillmaster.evidence import Row, rows
from drillmaster.gates.eviction import Eviction
from drillmaster.intake import is_there
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import read_policy
from drillmaster.matrix import Back, Cell, LeftOut, NotRun, Table, Told, read
from drillmaster.outcomes import Run
from drillmaster.plan import Matrix

__all__ = ["open_matrix"]

_CONDUCTOR = "events/conductor.jsonl"


def open_matrix(path: Path) -> Table:
    """Read a run folder of a matrix. Raises Problem when it is none; Refused for a run of another drill."""
    run = open_run(path)
    if run.manifest is None or run.manifest.drill != "matrix":
        raise Refused(
            f"{run.name}: /drill",
            found=repr(run.manifest.drill[:40]) if run.manifest else "nothing",
            wanted="'matrix'",
            remedy="name a run of drillmaster run matrix; an eviction drill's is judged by drillmaster gate eviction",
        )
    limit = None
    if is_there(path / "seal.json"):
        with contextlib.suppress(KeyError):
            limit = timeline.read_seal(path).files[_CONDUCTOR].bytes
    found: list[Row] = []
    if (path / _CONDUCTOR).is_file():
        chunks = timeline.chunks(path / _CONDUCTOR, limit_bytes=limit)
        found = [row for row in rows(chunks, file=_CONDUCTOR) if isinstance(row, Row)]
    policy = path / "policy.yaml"
    gate = read_policy(policy)[1] if is_there(policy) else None
    table = read(run, _told(found, run.manifest.plan), None if gate is None else gate.max_failed_ratio)
    problems = (*table.problems, *_refused(run, gate))
    if _share_changed(path, run.manifest.policy_sha256):
        problems += ("policy.yaml is not the policy that the run was made under",)
    return msgspec.structs.replace(table, problems=problems)


def _refused(run: Run, gate: Eviction | None) -> Iterator[str]:
    """What a policy wants of any run beside its table; of one that was stopped nothing is wanted."""
    if gate is None or run.ended != "completed":
        return
    for check in sealed(run, gate.max_clock_step_s):
        if check.status == "refused" and check.id not in ("sealed", "evidence"):  # the table's own
            yield f"{check.title}: {check.why}" if check.why else check.title


def _share_changed(path: Path, expected_sha256: str) -> bool:
    policy = path / "policy.yaml"
    if not is_there(policy):
        return bool(expected_sha256)
    return read_policy(policy)[2] != expected_sha256


def _told(found: Iterable[Row], plan: Mapping[str, Any]) -> Told:
    """What these lines say of cells. One that lacks its fields is a hole in our own evidence."""
    cells: list[Cell] = []
    left_out: list[LeftOut] = []
    not_run: dict[str, str] = {}
    backs: dict[str, Back] = {}
    restarted: set[str] = set()
    holes: list[str] = []
    for row in found:
        try:
            match row.event:
                case "cell_planned":
                    cells.append(msgspec.convert(row.fields, Cell))
                case "cell_left_out":
                    left_out.append(msgspec.convert(row.fields, LeftOut))
                case "cell_not_run":
                    left = msgspec.convert(row.fields, NotRun)
                    not_run[left.cell] = left.why
                case "agent_restarted":
                    restarted.add(msgspec.convert(row.fields, NotRun).cell)
                case "agent_back":
                    back = msgspec.convert(row.fields, Back)
                    backs[back.cell] = back
        except msgspec.ValidationError as error:
            holes.append(f"{row.file}:{row.line} {row.event}: {error}")
    needed = Matrix().requests_per_cell
    with contextlib.suppress(msgspec.ValidationError):
        needed = msgspec.convert(plan.get("matrix") or {}, Matrix).requests_per_cell
    return Told(
        cells=tuple(cells),
        left_out=tuple(left_out),
        not_run=not_run,
        backs=backs,
        restarted=frozenset(restarted),
        requests_per_cell=needed,
        holes=tuple(holes[:3]),
    )
