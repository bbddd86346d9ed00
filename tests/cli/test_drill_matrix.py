"""`gate matrix`, and the verbs of the drill matrix, as they are typed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from drillmaster import cli
from drillmaster.history import Entry
from drillmaster.strict import load
from tests.fridays.paper import MATRIX, RUN, Paper

NOW = "2026-12-04T14:10:00Z"


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=[str(word) for word in words])
    told = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, told.out, told.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("DRILLMASTER_HISTORY", raising=False)
    Path("drill-matrix.yaml").write_text(json.dumps(MATRIX))
    return tmp_path


def slow(folder: Path) -> Path:
    paper = Paper(folder)
    for n in range(200):
        paper.mission(7_000 + n, 31.0, 39.0)
    return paper.write()


# gate matrix


def test_a_drill_is_judged_and_its_verdict_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Paper(here / "runs" / RUN).write()
    code, out, err = said(capsys, "gate", "matrix", RUN[:11], "--policy", "drill-matrix.yaml", "--now", NOW)
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == ["BREACH: none", "PASS matrix: 0 failed, 0 refused, 17 passed"]
    kept = json.loads((run / "verdict.json").read_text())
    assert (kept["gate"], kept["status"]) == ("matrix", "pass")
    assert {one["id"] for one in kept["checks"]} >= {f"row.{row['id']}" for row in MATRIX["rows"]}


def test_without_a_policy_named_the_runs_own_copy_judges(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Paper(here / "runs" / RUN).write()
    code, out, _ = said(capsys, "gate", "matrix", run, "--now", NOW, "--json", "--no-record")
    assert (code, json.loads(out)["status"]) == (0, "pass")
    assert not (run / "verdict.json").exists()


def test_a_breach_is_named_and_exits_1_by_either_map(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = slow(here / "runs" / RUN)
    code, out, _ = said(capsys, "gate", "matrix", run, "--now", NOW)
    assert (code, "BREACH: mission-latency" in out) == (1, True)
    assert said(capsys, "gate", "matrix", run, "--now", NOW, "--exit-map", "articles")[0] == 1


def test_a_refusal_exits_2_and_1_by_the_articles_map(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Paper(here / "runs" / RUN).write(seal=False)
    code, out, _ = said(capsys, "gate", "matrix", run, "--now", NOW)
    assert (code, "BREACH" in out) == (2, False)
    code, out, _ = said(capsys, "gate", "matrix", run, "--now", NOW, "--exit-map", "articles")
    assert (code, "EXIT MAP articles" in out) == (1, True)


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github", "markdown"])
def test_every_form_tells_the_broken_row(here: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    run = slow(here / "runs" / RUN)
    code, out, _ = said(capsys, "gate", "matrix", run, "--now", NOW, "--format", form)
    assert code == 1
    assert "mission-latency" in out or "Mission latency" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "nothing to judge"),
        (["nowhere"], "no such run"),
        (["drill-matrix.yaml"], "a file"),
        (["runs", "--policy", "drill-matrix.yaml"], "no manifest.json"),
        (["RUN", "--policy", "none.yaml"], "none.yaml"),
        (["RUN", "--policy", "policy.yaml"], "wanted kind: drill-matrix"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    run = Paper(here / "runs" / RUN).write()
    Path("policy.yaml").write_text("kind: policy\nversion: 1\n")
    code, _, err = said(capsys, "gate", "matrix", *[str(run) if word == "RUN" else word for word in words])
    assert (code, complaint in err) == (2, True), err


def test_the_schema_of_a_drill_matrix_takes_one_and_no_policy(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema_rs

    code, out, _ = said(capsys, "gate", "schema", "matrix")
    assert code == 0
    validator = jsonschema_rs.validator_for(json.loads(out))
    assert [str(one) for one in validator.iter_errors(MATRIX)] == []
    for wrong in ({"kind": "policy"}, {**MATRIX, "rows": []}, {**MATRIX, "rows": [{"id": "x"}]}, {**MATRIX, "more": 1}):
        assert not validator.is_valid(wrong)


def test_the_policy_of_this_gate_is_not_written_by_init_gates(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "init", "gates", "--gate", "matrix")
    assert (code, "drillmaster init friday" in err) == (2, True)


# matrix render


def test_a_page_is_rendered_and_found_fresh_and_stale(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "matrix", "render", "--check")[0] == 1
    assert said(capsys, "matrix", "render")[0:2] == (0, "docs/drill-matrix.md: 5 rows\n")
    page = Path("docs/drill-matrix.md")
    assert "# Drill matrix: escalation-concierge" in page.read_text()
    assert said(capsys, "matrix", "render", "--check")[0] == 0
    Path("drill-matrix.yaml").write_text(json.dumps({**MATRIX, "owner": "Bo"}))
    code, out, _ = said(capsys, "matrix", "render", "--check")
    assert (code, out) == (
        1,
        "stale: docs/drill-matrix.md: the matrix has changed since it was rendered; "
        "drillmaster matrix render drill-matrix.yaml --out docs/drill-matrix.md\n",
    )
    assert json.loads(said(capsys, "matrix", "render", "--check", "--json")[1])["exit"] == 1
    said(capsys, "matrix", "render")
    page.write_text(page.read_text().replace("p95 < 2.5 s", "p95 < 25 s"))
    assert "edited by hand" in said(capsys, "matrix", "render", "--check")[1]


def test_a_check_writes_nothing_and_reads_no_history(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "matrix", "render", "--check")
    assert sorted(one.name for one in here.iterdir()) == ["drill-matrix.yaml"]


def test_the_page_shows_what_the_last_drill_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = slow(here / "runs" / RUN)
    said(capsys, "gate", "matrix", run, "--now", NOW)
    code, out, _ = said(capsys, "matrix", "render", "--out", "-")
    assert code == 0
    assert re.search(r"\| Mission latency \| `p95 < 2.5 s` \| \*\*FAIL\*\* at [0-9.]+ s on 20[0-9-]+ \| `F` \|", out), (
        out
    )
    assert "| Replay availability | `>= 100 %` | pass" in out
    assert Entry.__struct_fields__.count("proved") == 1


@pytest.mark.parametrize("words", [["render", "none.yaml"], ["export", "none.yaml", "--openslo", "-"]])
def test_a_matrix_that_is_not_there_names_what_makes_one(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, _, err = said(capsys, "matrix", *words)
    assert (code, "drillmaster init friday" in err) == (2, True)


# matrix export and import


@pytest.mark.parametrize("name", ["slo.yaml", "slo.json"])
def test_what_is_exported_is_imported_as_it_was(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert said(capsys, "matrix", "export", "--openslo", name)[0:2] == (0, f"{name}: 6 objects, 5 of them SLOs\n")
    assert said(capsys, "matrix", "import", name, "--out", "again.yaml")[0:2] == (0, "again.yaml: 5 rows\n")
    assert load(Path("again.yaml").read_bytes(), place="again", fmt="yaml") == MATRIX
    code, _, err = said(capsys, "matrix", "import", name, "--out", "again.yaml")
    assert (code, "is never replaced" in err) == (2, True)


def test_the_objects_are_one_json_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects: list[dict[str, Any]] = json.loads(said(capsys, "matrix", "export", "--openslo", "-", "--json")[1])
    assert [one["kind"] for one in objects] == ["Service", *["SLO"] * 5]
    assert sorted(one.name for one in here.iterdir()) == ["drill-matrix.yaml"]


def test_an_slo_of_others_is_imported_with_what_it_does_not_say(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slo = {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": "quick"},
        "spec": {
            "service": "checkout",
            "indicator": {
                "metadata": {"name": "q"},
                "spec": {"thresholdMetric": {"metricSource": {"spec": {"query": "x"}}}},
            },
            "budgetingMethod": "Occurrences",
            "objectives": [{"op": "lt", "value": 1, "target": 0.95}],
        },
    }
    Path("slo.json").write_text(json.dumps(slo))
    Path("row.yaml").write_text("measure: mission_latency\nunit: s\nprobe: {kind: load, in_flight: 10}\nwindow: all\n")
    pin = ["--source", "slo-handbook", "--owner", "Ada", "--review-by", "2199-01-01"]
    words = ["matrix", "import", "slo.json", "--row", "quick=row.yaml", "--out", "-", *pin]
    code, _, err = said(capsys, *words)
    assert (code, "/spec/indicator" in err) == (2, True)
    code, out, err = said(capsys, *words, "--without", "/spec/indicator")
    assert (code, err) == (0, "left out: slo.json: quick /spec/indicator\n")
    assert load(out.encode(), place="x", fmt="yaml")["rows"][0]["objective"] == "p95 < 1 s"


def test_the_table_of_a_fault_matrix_is_still_shown_by_its_run_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["matrix", "nowhere"], ["matrix", "show", "nowhere"], ["matrix", "--json", "nowhere"]):
        code, _, err = said(capsys, *words)
        assert (code, "no such run" in err) == (2, True)
    code, out, _ = said(capsys, "matrix", "--help")
    assert (code, "render" in out, "show" in out) == (0, True, True)
