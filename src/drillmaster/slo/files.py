"""`drill-matrix.yaml`: read strictly, each fault with its pointer."""

import re
from typing import Annotated, Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates._matrix_rows import Row
from drillmaster.gates.matrix import MatrixGate
from drillmaster.policy import Pin

__all__ = ["DrillMatrix", "gate_of", "load_matrix", "matrix_of", "plain"]

_SELF = re.compile(r"(?P<field>[a-z_]+): found (?P<found>.*), wanted (?P<wanted>.*)", re.DOTALL)


class DrillMatrix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind: drill-matrix`. It is the policy of a Friday drill."""

    kind: Literal["drill-matrix"]
    version: Literal[1]
    service: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    source: str
    """The human document that the objectives come from."""
    owner: str
    review_by: str
    rows: Annotated[tuple[Row, ...], msgspec.Meta(min_length=1, max_length=200)]
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)] | msgspec.UnsetType = msgspec.UNSET
    """How old a run may be when it is judged; left out: any age."""
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | msgspec.UnsetType = msgspec.UNSET
    """How often one run may be judged on new evidence; left out: any number of times, each of them counted."""

    @property
    def pin(self) -> Pin:
        return Pin(source=self.source, owner=self.owner, review_by=self.review_by)

    def row(self, id_: str) -> Row | None:
        return next((row for row in self.rows if row.id == id_), None)


def load_matrix(data: bytes, *, place: str, fmt: strict.Format) -> tuple[DrillMatrix, str]:
    """Decode a drill matrix. Returns it with the digest of its content. Raises Problem with the pointer of what is wrong."""
    loaded = strict.load(data, place=place, fmt=fmt)
    return matrix_of(loaded, place=place)


def matrix_of(loaded: Any, *, place: str) -> tuple[DrillMatrix, str]:
    """The same of values that were read already. Raises Problem."""
    if isinstance(loaded, dict) and loaded.get("kind") == "policy":
        raise Problem(
            f"{place}: /kind",
            found="a policy of another gate",
            wanted="kind: drill-matrix",
            remedy="drillmaster init friday writes a drill matrix with every row explained",
        )
    left = list(strict.nulls(loaded))
    if left:
        raise Problem(
            f"{place}: {left[0]}" if len(left) == 1 else place,
            found="nothing (null)" if len(left) == 1 else f"{len(left)} blanks: {', '.join(left)}",
            wanted="a value behind each colon; objectives have no default",
            remedy="fill them in: the comment above each says what it is, with an example",
        )
    rows = loaded.get("rows") if isinstance(loaded, dict) else None
    for index, entry in enumerate(rows if isinstance(rows, list) else ()):
        try:
            strict.as_type(entry, Row, place=place, path=("rows", index))
        except Problem as problem:
            raise _of_field(problem, place, index) from None
    matrix = strict.as_type(loaded, DrillMatrix, place=place)
    seen: dict[str, int] = {}
    for index, row in enumerate(matrix.rows):
        if row.id in seen:
            raise Problem(
                f"{place}: /rows/{index}/id",
                found=f"{row.id!r}, which is the id of row {seen[row.id]} too",
                wanted="each id once",
                remedy="give one of them another id: results and history are by id",
            )
        seen[row.id] = index
    return matrix, strict.digest(msgspec.to_builtins(matrix))


def gate_of(matrix: DrillMatrix) -> MatrixGate:
    """The limits that the matrix gate judges by."""
    return MatrixGate(service=matrix.service, rows=matrix.rows, max_age_s=matrix.max_age_s)


def plain(matrix: DrillMatrix) -> dict[str, Any]:
    """A matrix as somebody would write it: nothing that is not said stands there."""
    value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(matrix))
    for row in value["rows"]:
        if "alert" in row:
            row["alert"] = {name: said for name, said in row["alert"].items() if said not in ({}, [], 0.0)}
    return value


def _of_field(problem: Problem, place: str, index: int) -> Problem:
    """What a row objects to itself names its field; so does the place then."""
    said = _SELF.fullmatch(problem.wanted)
    if said is None:
        return problem
    return Problem(
        f"{place}: /rows/{index}/{said['field']}",
        found=said["found"],
        wanted=said["wanted"],
        remedy="mend that value; docs/howto/drill-matrix.md has an example of each",
    )
