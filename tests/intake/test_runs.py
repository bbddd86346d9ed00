"""From what a person types for a run to its folder."""

from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.intake.runs import find_run, latest, run_ids, short

ONE, TWO = "20261129T153000Z-1a2b", "20261130T080000Z-9f00"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in (ONE, TWO):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "manifest.json").write_text("{}")
    (tmp_path / "runs" / "no-run").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("named", [ONE, f"runs/{ONE}", f"runs/{ONE}/", "20261129", "runs/20261129T15", Path(ONE)])
def test_a_run_is_found_by_its_folder_its_id_or_how_that_begins(named: str | Path) -> None:
    assert find_run(named) == Path("runs") / ONE


def test_what_is_there_is_what_was_meant(tmp_path: Path) -> None:
    assert find_run("other") == Path("other")
    assert find_run(tmp_path / "runs" / ONE) == tmp_path / "runs" / ONE


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("2026", "2 runs that begin so"),
        ("runs/nope", f"the latest is runs/{TWO}"),
        ("elsewhere/" + ONE[:8], "no such run"),  # that folder was meant, and not this one
        (ONE[:-1] + "c", f"Did you mean runs/{ONE}?"),
    ],
)
def test_what_is_not_there_is_refused_with_what_there_is(named: str, said: str) -> None:
    with pytest.raises(Problem) as refused:
        find_run(named)
    assert said in str(refused.value) and "--unsealed" not in str(refused.value)


def test_without_any_run_the_demo_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="drillmaster demo"):
        find_run("x", runs=tmp_path / "none")
    assert latest(tmp_path / "none") is None and run_ids(tmp_path / "none") == []
    assert latest() == Path("runs") / TWO and run_ids() == [ONE, TWO]


def test_a_path_is_named_as_one_would_type_it_here(tmp_path: Path) -> None:
    assert short(tmp_path / "runs" / ONE) == f"runs/{ONE}"
    assert short(Path("/elsewhere/a b")) == "'/elsewhere/a b'"
    assert short(tmp_path) == str(tmp_path)
