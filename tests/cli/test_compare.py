"""`drillmaster compare`: the words, the exit codes, and what is refused."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.compare import command
from drillmaster.errors import Problem, Refused
from tests.interviewed import sealed


def compare(a: Path, b: Path, *words: str) -> Result:
    result = CliRunner().invoke(command, [str(a), str(b), *words], prog_name="drillmaster compare")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return sealed(tmp_path / "a", calls=200)


@pytest.mark.parametrize(
    ("four_ms", "code", "word"), [(160, 0, "NO WORSE: "), (200, 1, "WORSE: warm_c4 p50; warm_c4 p95 ")]
)
def test_the_exit_code_says_whether_it_is_worse(
    before: Path, tmp_path: Path, four_ms: float, code: int, word: str
) -> None:
    result = compare(before, sealed(tmp_path / "b", calls=200, four_ms=four_ms), "--within", "10 %")
    assert result.exit_code == code
    assert result.output.splitlines()[-1].startswith(word)
    assert "cold  0.9 s -> 0.9 s: one of each" in result.output
    assert "margin +0 points: none failed in either, which counts as none more" in result.output


def test_too_few_calls_are_undecided_and_say_what_would_do(before: Path, tmp_path: Path) -> None:
    result = compare(before, sealed(tmp_path / "b", calls=20), "--within", "0.1")
    assert result.exit_code == 2
    assert "59 would do" in result.output.splitlines()[-1]


def test_failures_beyond_their_margin_are_worse_by_points(before: Path, tmp_path: Path) -> None:
    after = sealed(tmp_path / "b", calls=200, failed=100)
    result = compare(before, after, "--within", "0.1", "--errors-within", "1 %")
    assert (result.exit_code, "errors 0 % -> 50 %: +50 points" in result.output) == (1, True)


def test_as_json_it_says_the_same(before: Path, tmp_path: Path) -> None:
    result = compare(before, sealed(tmp_path / "b", calls=200, four_ms=200), "--within", "0.1", "--json")
    said = json.loads(result.output)
    assert (said["exit"], said["said"], said["within"]) == (1, "worse", 0.1)
    assert [figure["said"] for figure in said["levels"][1]["figures"]] == ["worse", "worse", "no worse"]


def test_how_sure_one_of_many_figures_has_to_be_is_said(before: Path, tmp_path: Path) -> None:
    after = sealed(tmp_path / "b", calls=200, four_ms=200)
    line = compare(before, after, "--within", "10 %").output.splitlines()[-2]
    assert line == "6 figures: one is called worse where that is 99.17 % sure, which is 95 % for all of them together"
    said = json.loads(compare(before, after, "--within", "0.1", "--json").output)
    assert (said["figures"], round(said["worse_confidence"], 6)) == (6, 0.991667)


def test_so_few_calls_that_nothing_can_be_called_worse_have_no_lower_end(before: Path, tmp_path: Path) -> None:
    result = compare(before, sealed(tmp_path / "b", calls=92, four_ms=200), "--within", "10 %")
    assert "surely at most x" in result.output
    assert "94 would do to call it worse" in result.output


def test_a_margin_has_no_default(before: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"--within \"10 %\""):
        compare(before, before)


def test_other_payloads_and_edited_runs_are_refused(before: Path, tmp_path: Path) -> None:
    other = sealed(tmp_path / "b", calls=200, payload_sha256="sha256:0000")
    with pytest.raises(Refused, match="other payloads"):
        compare(before, other, "--within", "0.1")
    (other / "seal.json").unlink()
    with pytest.raises(Refused, match="drillmaster seal"):
        compare(before, other, "--within", "0.1")
