"""What a manifest may say."""

from typing import Any

import msgspec
import pytest

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.evidence import Manifest
from drillmaster.evidence.sealing import CHECKED_LINES, make_seal
from drillmaster.evidence.shapes import SealedFile
from tests.scene import Scene


def _loaded(**changes: Any) -> Manifest:
    said = msgspec.to_builtins(Scene().manifest) | changes
    return strict.load_as(msgspec.json.encode(said), Manifest, place="manifest.json", fmt="json")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": 2}, "version"),
        ({"kind": "plan"}, "kind"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"mono0_ns": "-1"}, "mono0_ns"),
        ({"mono0_ns": "1e9"}, "mono0_ns"),
        ({"mono0_ns": "٣"}, "mono0_ns"),
        ({"mono0_ns": ""}, "mono0_ns"),
        ({"phases": {}}, "phases.baseline_s"),
        ({"phases": {"baseline_s": 1, "fault_s": 1}}, "phases.recovery_s"),
        ({"phases": {"baseline_s": -1, "fault_s": 1, "recovery_s": 1}}, "phases.baseline_s"),
        ({"phases": {"baseline_s": 1, "fault_s": 1e300, "recovery_s": 1}}, "phases.fault_s"),
        ({"phases": {"baseline_s": 1, "fault_s": 1, "recovery_s": 1, "more_s": -1}}, "phases.more_s"),
        ({"phases": {"baseline_s": 0, "fault_s": 0, "recovery_s": 0}}, "phases"),
        ({"every_s": 0}, "every_s"),
        ({"every_s": -1}, "every_s"),
        ({"every_s": 1e12}, "every_s"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"time_limit_s": 1e308}, "time_limit_s"),
    ],
)
def test_what_no_drill_can_have_been_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(Problem) as refused:
        _loaded(**changes)
    assert named in str(refused.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["phases", "every_s", "time_limit_s"])
def test_a_number_that_is_not_finite_is_refused_also_where_no_file_is_read(field: str, value: float) -> None:
    manifest = Scene().manifest
    changed: Any = dict(manifest.phases, fault_s=value) if field == "phases" else value
    with pytest.raises(ValueError, match=field):
        msgspec.structs.replace(manifest, **{field: changed})


def test_a_manifest_as_drills_write_it_is_taken() -> None:
    assert _loaded() == Scene().manifest


def test_a_seal_stays_small_enough_to_be_read_however_many_lines_there_are() -> None:
    small = SealedFile(bytes=1, lines=10, sha256="s", blocks=("b",), checks=("c",))
    large = SealedFile(bytes=1, lines=CHECKED_LINES, sha256="s", blocks=("b",), checks=("c",))
    seal = make_seal({"a.jsonl": large, "b.jsonl": small}, sealed_at="now")
    assert seal.files["a.jsonl"].checks == ()
    assert seal.files["a.jsonl"].blocks == ("b",)
    assert seal.files["b.jsonl"].checks == ("c",)
