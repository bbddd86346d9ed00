"""`matrix` and `run matrix`, as they are typed, without a drill."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.card import command as card
from drillmaster.cli.init import command as init
from drillmaster.cli.matrix import command as matrix
from drillmaster.cli.matrix import table_of
from drillmaster.cli.report import command as report
from drillmaster.cli.run import command as run
from drillmaster.clock import SystemClock
from drillmaster.errors import Exit, Problem
from drillmaster.intake.verdicts import read_policy
from drillmaster.timeline import seal_run
from tests.matrix.paper import DOWN, RESET, Paper


def typed(command: Any, *arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


POLICY = """\
kind: policy
version: 1
source: runbook of the toy service
owner: the people who test
review_by: "2199-01-01"
gates:
  - gate: eviction
    max_fallback_s: 1
    max_failed_ratio: 0.9
    failed_window: fault
    max_recovery_s: 1.5
    min_met: 5
    max_baseline_failed_ratio: 0.05
    max_unattributed_ratio: 0.05
    max_clock_step_s: 1
"""


def folder(
    tmp_path: Path, *, seal: bool = True, drill: str = "matrix", hole: bool = False, policy: str = "", step_s: float = 0,
    plans: tuple[str, ...] = ("p", "p", "p"), probes: int = 2, ended: str = "completed",
) -> Path:  # fmt: skip
    """A run folder of two cells, as the conductor leaves it.

    Its wall clock moved by `step_s` meanwhile, and its plan was of these digests at start, lift and end.
    """
    paper = Paper()
    paper.add("events/conductor.jsonl", 4, "clock")
    paper.add("events/conductor.jsonl", 6, "clock", wall_off_ns=round(step_s * 1e9))
    for fault, how in (
        ("503", {"attempts": (DOWN,), "says": "small-model"}),
        ("reset", {"attempts": (RESET,), "status": 500, "answer": None}),
    ):
        paper.begin(fault)
        for _ in range(5):
            paper.request(**how)
        paper.end()
    if probes < 2:
        paper.rows = [r for r in paper.rows if not (r.event == "fault_gone" and r.fields["window"] == "w2")]
    for at, plan in zip(("start", "lift", "end"), plans, strict=False):
        paper.add("events/conductor.jsonl", paper.now_ns, "code_state", at=at, plan_sha256=plan)
    conductor = "events/conductor.jsonl"
    for cell in paper.cells:
        said = msgspec.to_builtins(cell)
        if hole and cell.cell == "w2":
            del said["fault"]
        paper.add(conductor, 5, "cell_planned", **said)
        paper.add(conductor, paper.now_ns, "agent_back", cell=cell.cell, back=True, after_s=0.5, why="")
    paper.add(conductor, paper.now_ns, "agent_restarted", cell="w2", why="its process had ended by itself")
    late = {"cell": "w3", "label": "hang", "fault": "hang", "params": {}, "dialect": "openai_chat", "stream": False}
    paper.add(conductor, 5, "cell_planned", **late)
    paper.add(conductor, paper.now_ns, "cell_not_run", cell="w3", why="the time was over")
    paper.add(conductor, 5, "cell_left_out", label="stall", dialect=None, stream=None, why="no streams")
    paper.add(conductor, paper.now_ns + 1, "drill_ended", status=ended, why="")
    path = tmp_path / "runs" / "20261129T153000Z-1a2b"
    (path / "events").mkdir(parents=True)
    manifest = msgspec.structs.replace(paper.manifest, drill=drill)
    if policy:
        (path / "policy.yaml").write_text(policy)
        sha256 = read_policy(path / "policy.yaml")[2]
        manifest = msgspec.structs.replace(
            manifest, policy_file="policy.yaml", policy_sha256=sha256, stamps=("REHEARSAL",)
        )
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest) + b"\n")
    texts: dict[str, bytes] = {"timeline.jsonl": b""}
    for row in paper.rows:
        texts[row.file] = texts.get(row.file, b"") + msgspec.json.encode(row.fields) + b"\n"
    for name, text in texts.items():
        (path / name).write_bytes(text)
    if seal:
        seal_run(path, SystemClock())
    return path


def test_the_table_is_read_from_the_folder(tmp_path: Path) -> None:
    result = typed(matrix, folder(tmp_path), "--json", "--html", tmp_path / "page.html")
    table = json.loads(result.stdout)
    assert result.exit_code == table["exit"] == 0
    assert [(r["label"], r["word"]) for r in table["results"]] == [
        ("503", "survived by fallback"),
        ("reset", "never engaged"),
    ]
    assert [r["restarted"] for r in table["results"]] == [False, True]
    assert [(e["label"], e["why"], e["should"]) for e in table["not_run"]] == [
        ("stall", "no streams", False),
        ("hang", "the time was over", True),
    ]
    assert 'href="runs/20261129T153000Z-1a2b/events/proxy.jsonl"' in (tmp_path / "page.html").read_text()


def test_a_run_without_a_seal_or_with_a_changed_line_proves_nothing(tmp_path: Path) -> None:
    result = typed(matrix, folder(tmp_path, seal=False))
    assert result.exit_code == 2 and "REFUSED not sealed" in result.stdout
    sealed = folder(tmp_path / "two")
    events = sealed / "events/traffic.jsonl"
    events.write_text(events.read_text().replace('"status":500', '"status":200', 1))
    result = typed(matrix, sealed)
    assert result.exit_code == 2 and "REFUSED events/traffic.jsonl" in result.stdout


def test_a_policy_that_came_later_is_not_the_runs(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "policy.yaml").write_text("kind: policy\n")
    assert isinstance(typed(matrix, path).exception, Problem)


@pytest.mark.parametrize(
    ("policy", "step_s", "said"),
    [
        (POLICY, 0.5, None),
        (POLICY, -0.5, None),
        (POLICY, 1.5, "clocks sane: wall against monotonic moved 1.500 s (at most 1 s)"),
        (POLICY, -3600, "clocks sane: wall against monotonic moved 3600.000 s"),
        ("", 3600, None),  # nobody has said how much is too much
    ],
)
def test_a_clock_that_moved_by_more_than_the_policy_lets_it_refuses(
    tmp_path: Path, policy: str, step_s: float, said: str | None
) -> None:
    table = json.loads(typed(matrix, folder(tmp_path, policy=policy, step_s=step_s), "--json").stdout)
    assert [said is not None and problem.startswith(said) for problem in table["problems"]] == [True] * bool(said)
    assert table["clock_step_s"] == pytest.approx(abs(step_s), abs=1e-6)
    text = typed(matrix, folder(tmp_path / "again", step_s=step_s)).stdout
    assert ("a mark without an id" in text) is (abs(step_s) >= 0.1)


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ({}, 1, ""),  # one of its cells failed all of its users
        ({"plans": ("p", "q", "q")}, 2, "plan changed during the drill"),
        ({"plans": ("p", "p")}, 2, "not read at end"),
        ({"probes": 1}, 2, "no probe after the lift"),
        ({"plans": ("p", "p"), "ended": "aborted"}, 3, ""),  # what a stop cut off is not held against it
    ],
)
def test_a_policy_wants_what_every_gate_over_a_run_wants(
    tmp_path: Path, how: dict[str, Any], code: int, said: str
) -> None:
    result = typed(matrix, folder(tmp_path, policy=POLICY, **how), "--json")
    assert result.exit_code == code
    problems = json.loads(result.stdout)["problems"]
    assert [said in problem for problem in problems] == [True] * bool(said)
    assert json.loads(typed(matrix, folder(tmp_path / "again", **how), "--json").stdout)["problems"] == []


def test_a_line_of_its_own_that_cannot_be_read_is_a_hole(tmp_path: Path) -> None:
    result = typed(matrix, folder(tmp_path, hole=True))
    assert result.exit_code == 2 and "cell_planned" in result.stdout


def test_a_run_of_another_drill_is_refused_with_its_own_gate(tmp_path: Path) -> None:
    result = typed(matrix, folder(tmp_path, drill="eviction"))
    assert isinstance(result.exception, Problem) and "gate eviction" in result.exception.remedy


def test_a_stopped_drill_whose_folder_is_gone_ends_as_stopped(tmp_path: Path) -> None:
    gone = tmp_path / "runs" / "20261129T153000Z-1a2b"
    with pytest.raises(Problem) as ended:
        table_of(gone, Exit.ABORTED, "the run folder was taken away")
    assert ended.value.exit is Exit.ABORTED
    assert "the run folder was taken away" in str(ended.value)
    with pytest.raises(Problem) as ended:
        table_of(gone, Exit.PASS, "")
    assert ended.value.exit is Exit.REFUSED


@pytest.mark.parametrize("verb", [report, card])
def test_a_report_of_a_matrix_is_its_own_page(tmp_path: Path, verb: Any) -> None:
    result = typed(verb, folder(tmp_path))
    assert isinstance(result.exception, Problem) and "drillmaster matrix " in result.exception.remedy


def test_a_page_that_cannot_be_written_hides_no_table(tmp_path: Path) -> None:
    path = folder(tmp_path)
    result = typed(matrix, path, "--html", path)  # a folder is no file
    assert result.exit_code == 2
    assert "survived by fallback" in result.stdout and "wanted a file" in result.stderr
    result = typed(matrix, path, "--html", path, "--json")
    assert result.exit_code == json.loads(result.stdout)["exit"] == 2


def test_the_page_alone_goes_to_stdout(tmp_path: Path) -> None:
    path = folder(tmp_path)
    assert typed(matrix, path, "--html", "-").stdout.startswith("<!doctype html>")
    assert typed(matrix, path, "--html", "-", "--json").exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["matrix"], "found no plan"),
        (["matrix", "plan.json", "--all", "--faults", "reset"], "goes with neither"),
        (["matrix", "plan.json", "--json", "--html", "-"], "does not go with --json"),
        (["matrix", "plan.json", "--time-limit", "-1"], "--time-limit"),
        (["matrix", "plan.json", "--faults", "rest"], "did you mean reset?"),
        (["matrix", "plan.json", "--faults", ""], "names none"),  # a variable of a script that is empty
        (["matrix", "plan.json", "--faults", " , "], "names none"),
        (["matrix", "plan.json", "--group", "streams"], "--group: group"),
        (["matrix", "plan.json", "--compress", "0"], "--compress"),
        (["eviction", "plan.json"], "drillmaster run matrix plan.json"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = {
        "kind": "plan", "drill": "matrix", "service": "toy", "target": {"url": "http://127.0.0.1:8000/"},
        "traffic": {"every_s": 1, "time_limit_s": 5}, "proxy": {"upstream": "http://127.0.0.1:9000"},
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    result = typed(run, *words)
    assert result.exit_code != 0
    assert said in f"{result.output}{result.exception}"
    assert not (tmp_path / "runs").exists()


def test_a_plan_of_a_matrix_is_written_and_names_its_blanks(tmp_path: Path) -> None:
    result = typed(init, "matrix", "--dir", tmp_path, "--json")
    said = json.loads(result.stdout)
    plan = tmp_path / "matrix-plan.yaml"
    assert said["written"] == [str(plan)]
    assert "/target/url" in said["blanks"][str(plan)]
    refused = typed(run, "matrix", plan)
    assert isinstance(refused.exception, Problem) and "/traffic/time_limit_s" in str(refused.exception)
