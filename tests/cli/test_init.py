"""`init eviction`, as it is typed."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.init import command as init
from drillmaster.errors import Problem

PLAN, POLICY = "eviction-plan.yaml", "eviction-policy.yaml"


def _typed(*arguments: str | Path) -> Result:
    return CliRunner().invoke(init, ["eviction", *(str(a) for a in arguments)])


def test_both_files_are_written_with_blanks_and_the_next_command(tmp_path: Path) -> None:
    result = _typed("--dir", tmp_path / "drills")
    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "drills").iterdir()) == [PLAN, POLICY]
    assert "/gates/0/max_fallback_s" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        f"next: fill in the blanks, then drillmaster run eviction {tmp_path / 'drills' / PLAN} --rehearsal --compress max"
    )


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / POLICY).write_text("mine: 1\n")
    result = _typed("--dir", tmp_path)
    assert (tmp_path / POLICY).read_text() == "mine: 1\n"
    assert f"{tmp_path / POLICY}: was there and is left as it is, no blank left" in result.stdout
    before = (tmp_path / PLAN).read_bytes()
    assert _typed("--dir", tmp_path).exit_code == 0
    assert (tmp_path / PLAN).read_bytes() == before


def test_a_limit_is_never_filled_in(tmp_path: Path) -> None:
    said = json.loads(_typed("--dir", tmp_path, "--json").stdout)
    assert len(said["blanks"][str(tmp_path / POLICY)]) == 11
    assert said["written"] == [str(tmp_path / PLAN), str(tmp_path / POLICY)]
    assert json.loads(_typed("--dir", tmp_path, "--json").stdout)["kept"] == said["written"]


def test_a_folder_in_the_way_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / PLAN).mkdir()
    assert isinstance(_typed("--dir", tmp_path).exception, Problem)


def test_a_folder_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert isinstance(_typed("--dir", tmp_path / "x").exception, Problem)


def test_without_a_terminal_nothing_is_asked(tmp_path: Path) -> None:
    assert "?" not in _typed("--dir", tmp_path).output


@pytest.mark.e2e
def test_on_a_terminal_answers_are_filled_in_and_an_empty_one_leaves_the_blank(tmp_path: Path) -> None:
    # A URL that is none, a key in the clear, and a seat that is taken are asked for again.
    answers = b"my: agent #1\n\nexample\nhttp://api.openai.com\nhttps://api.openai.com\nAna\nAna\n\n\n"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "drillmaster", "init", "eviction", "--dir", str(tmp_path)],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        os.write(ours, answers)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        os.close(ours)
    assert process.returncode == 0
    plan = (tmp_path / PLAN).read_text()
    assert 'service: "my: agent #1"' in plan
    assert 'lead: "Ana"' in plan and plan.count('"Ana"') == 1
    assert 'upstream: "https://api.openai.com"' in plan
    assert "/target/url" in out.decode() and "/service" not in out.decode()


def _interview(*arguments: str | Path) -> Result:
    return CliRunner().invoke(init, ["interview", *(str(a) for a in arguments)])


def test_an_interview_has_plan_thresholds_and_a_job_for_ci(tmp_path: Path) -> None:
    result = _interview("--dir", tmp_path)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"interview-{n}.yaml" for n in ("ci", "plan", "policy")]
    assert "/gates/0/levels/warm_c8/error_rate" in result.stdout
    assert result.stdout.splitlines()[-2:] == [
        f"next: fill in the blanks of both, then drillmaster interview {tmp_path / 'interview-plan.yaml'} "
        f"--policy {tmp_path / 'interview-policy.yaml'}",
        f"then: drillmaster gate interview RUN --policy {tmp_path / 'interview-policy.yaml'}",
    ]


def test_what_options_say_is_filled_in_and_the_next_command_needs_nothing_more(tmp_path: Path) -> None:
    done = _interview("--dir", tmp_path, "--job", "diff: #1", "--url", "http://127.0.0.1:9/x", "--dialect", "plain")
    assert (
        f"next: fill in the blanks of the policy, then drillmaster interview {tmp_path / 'interview-plan.yaml'}"
        in done.stdout
    )
    assert 'job: "diff: #1"' in (tmp_path / "interview-plan.yaml").read_text()
    assert '  JOB: "diff: #1"' in (tmp_path / "interview-ci.yaml").read_text()
    again = _interview("--dir", tmp_path, "--job", "another")
    assert "what the options say is not written into it" in again.stderr
    assert 'job: "diff: #1"' in (tmp_path / "interview-plan.yaml").read_text()


def test_another_host_is_said_to_need_permission(tmp_path: Path) -> None:
    done = _interview("--dir", tmp_path, "--job", "x", "--url", "https://api.example.com/v1", "--dialect", "plain")
    assert "api.example.com is not loopback: take `permit:`" in done.stdout
    assert "--permit-host api.example.com" in done.stdout.splitlines()[-2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--url", "api.example.com"), "--url 'api.example.com': that is no URL"),
        (("--url", "http://u:p@127.0.0.1/"), "without a user or password"),
        (("--dialect", "openai-chatt"), "did you mean openai_chat?"),
        (("--driver", "Ana", "--reader", "Ana"), "--reader 'Ana': Ana is the Driver already"),
        (("--job", " "), "--job ' ': an empty one"),
    ],
)
def test_an_option_that_cannot_be_writes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = _interview("--dir", tmp_path, *words)
    assert done.exit_code == 2 and said in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_on_a_terminal_the_rest_of_an_interviews_plan_is_asked_for(tmp_path: Path) -> None:
    # The job is given; a dialect that is none and a seat that is taken are asked for again; plain is asked by no model.
    answers = b"http://127.0.0.1:9000/ask\nplan\nplain\nAna\nAna\nBen\n\n\n"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "drillmaster", "init", "interview", "--dir", str(tmp_path), "--job", "diff summary"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        os.write(ours, answers)
        out, _ = process.communicate(timeout=30)
        asked = os.read(ours, 65_536).decode()
    finally:
        process.kill()
        os.close(ours)
    assert process.returncode == 0
    assert "Which one job" not in asked and "Which model" not in asked
    assert "did you mean plain?" in asked and "Ana is the Driver already" in asked
    plan = (tmp_path / "interview-plan.yaml").read_text()
    assert 'url: "http://127.0.0.1:9000/ask"' in plan and 'dialect: "plain"' in plan and 'reader: "Ben"' in plan
    assert (
        f"next: fill in the blanks of the policy, then drillmaster interview {tmp_path / 'interview-plan.yaml'}"
        in out.decode()
    )
