"""The drill matrix: one file of service level objectives that a Friday drill is held against, and its page.

1. `drill-matrix.yaml` (`kind: drill-matrix`) is the only source: the gate judges by it, the page is rendered from it, OpenSLO is
   written from it and read into it.
2. Numbers have an owner. The file names a source, an owner and a day of review, and so does each row; an objective has no default.
3. The page is made, never edited: CI compares it with the file, and one that is stale fails.
"""

from drillmaster.gates._matrix_rows import Objective, Row, objective_of
from drillmaster.slo.files import DrillMatrix, gate_of, load_matrix
from drillmaster.slo.openslo import read_openslo, write_openslo
from drillmaster.slo.page import Result, is_stale, render
from drillmaster.slo.possible import impossible

__all__ = [
    "DrillMatrix",
    "Objective",
    "Result",
    "Row",
    "gate_of",
    "impossible",
    "is_stale",
    "load_matrix",
    "objective_of",
    "read_openslo",
    "render",
    "write_openslo",
]
