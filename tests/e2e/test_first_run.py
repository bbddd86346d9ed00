"""The README's path as a newcomer walks it: the templates with their own examples, compressed as it says, no refusal on the way."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from drillmaster import strict
from drillmaster.scaffold import blanks, fill, template
from tests.e2e.drills import connects, free_ports, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
DRILLMASTER = (sys.executable, "-m", "drillmaster")


def told_by_the_readme() -> list[str]:
    """The words behind `drillmaster` of the README's line that runs the first drill."""
    (line,) = {
        line.strip()
        for line in (ROOT / "README.md").read_text("utf-8").splitlines()
        if line.strip().startswith("drillmaster run eviction")
    }
    return shlex.split(line)[1:]


def with_its_examples(name: str) -> str:
    text = template("eviction")[name]
    examples = {
        pointer: strict.load(f"v: {example}".encode(), place="x", fmt="yaml")["v"]  # type: ignore[index]
        for pointer, example in blanks(text).items()
    }
    return fill(text, examples)


def test_the_examples_of_the_templates_give_a_verdict_when_they_are_run_as_the_readme_says(tmp_path: Path) -> None:
    agent_port, proxy_port, model_port = free_ports(3)
    plan = with_its_examples("eviction-plan.yaml")
    for was, now in (
        ("127.0.0.1:8000", f"127.0.0.1:{agent_port}"),
        ("listen: 127.0.0.1:8081", f"listen: 127.0.0.1:{proxy_port}"),
        ('"https://api.openai.com"', f"http://127.0.0.1:{model_port}/v1"),  # as the stand-in prints it
    ):
        assert was in plan
        plan = plan.replace(was, now)
    agent = [*DRILLMASTER, "standin", "agent", "--port", str(agent_port), "--die-with-parent"]
    plan += f"worker:\n  cmd: {strict.canonical(agent).decode()}\n"
    (tmp_path / "eviction-plan.yaml").write_text(plan)
    (tmp_path / "eviction-policy.yaml").write_text(with_its_examples("eviction-policy.yaml"))
    with tempfile.TemporaryDirectory(prefix="dm-", dir="/tmp") as state:
        env = {**os.environ, "DRILLMASTER_STATE": state}
        model = subprocess.Popen(
            [*DRILLMASTER, "standin", "provider", "--port", str(model_port)], cwd=tmp_path, env=env
        )
        try:
            wait_until(lambda: connects(model_port), what="the model")
            done = subprocess.run(
                [*DRILLMASTER, *told_by_the_readme()],
                cwd=tmp_path,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
            )
        finally:
            model.terminate()
            model.wait(10)
        assert [path for path in Path(state).rglob("*") if not path.is_dir()] == []
    assert done.returncode == 0, done.stdout + done.stderr
    assert "COMPRESSED 14x" in done.stdout and "REHEARSAL" in done.stdout
    (run,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert {"card.md", "report.html", "verdict.json"} <= {path.name for path in run.iterdir()}
    assert (tmp_path / "runs" / ".gitignore").read_text() == "*\n"
