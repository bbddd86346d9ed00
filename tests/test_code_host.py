"""What is given to code hosts: hooks that are never skipped, and an action that runs every gate from the base."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from drillmaster.gates import names

ROOT = Path(__file__).resolve().parent.parent
HOOKS = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = YAML(typ="safe").load((ROOT / "action.yml").read_text())


@pytest.mark.parametrize("hook", HOOKS, ids=[hook["id"] for hook in HOOKS])
def test_a_hook_is_never_skipped_and_calls_a_gate_that_there_is(hook: dict[str, object]) -> None:
    assert (hook["pass_filenames"], hook["always_run"], hook["require_serial"]) == (False, True, True)
    words = str(hook["entry"]).split()
    assert words[:2] == ["drillmaster", "gate"] and words[2] in names()
    assert not set(hook) & {"files", "types", "types_or", "exclude"}


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(("gate", "extra"), [("contract", "contracts"), ("oracle", "oracle")])
def test_what_a_gate_reads_with_is_installed_beside_it(gate: str, extra: str) -> None:
    """A gate refuses what it has nothing to read with; who runs it by hook or action cannot install it afterwards."""
    (hook,) = [one for one in HOOKS if one["id"] == f"drillmaster-{gate}"]
    assert hook["additional_dependencies"] == EXTRAS[extra]
    (install,) = [step["run"] for step in ACTION["runs"]["steps"] if step["name"] == "install"]
    (named,) = re.findall(r'"\$GITHUB_ACTION_PATH\[([\w,]+)\]"', install)
    assert extra in named.split(",")


def test_nothing_of_the_change_reaches_a_shell_but_by_the_environment() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"], step["name"]


def run_gates(folder: Path, gates: str, code_of: dict[str, int]) -> tuple[int, list[str], str]:
    """Run the action's last step with a stand-in for the command that says how it was called and exits as told."""
    shell = shutil.which("bash")
    assert shell is not None
    binary = folder / "drillmaster" / "bin" / "drillmaster"
    binary.parent.mkdir(parents=True)
    cases = "".join(f"{name}) exit {code};;" for name, code in code_of.items())
    binary.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls\ncase "$2" in {cases} esac\n')
    binary.chmod(0o755)
    (script,) = [step["run"] for step in ACTION["runs"]["steps"] if step["name"] == "gates"]
    env = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(folder),
        "GATES": gates,
        "BASE": "b",
        "HEAD": "h",
        "ATTEMPTS": "a",
    }
    done = subprocess.run(
        [shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env={**env, "SARIF": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    calls = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return done.returncode, calls, done.stdout


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [((0, 0), 0), ((1, 0), 1), ((0, 1), 1), ((2, 1), 2), ((1, 2), 2), ((0, 127), 127)],
)
def test_every_gate_runs_and_the_worst_code_is_the_steps(tmp_path: Path, codes: tuple[int, int], wanted: int) -> None:
    told = run_gates(
        tmp_path, "contract\n\n  tools tools.allow.json  \n", dict(zip(("contract", "tools"), codes, strict=True))
    )
    assert told[0] == wanted
    assert told[1] == [
        "gate contract --base b --head h --format github --attempts a",
        "gate tools tools.allow.json --base b --head h --format github --attempts a",
    ]


@pytest.mark.parametrize("gates", ["", "\n", "   \n \n"])
def test_no_gate_is_no_pass(tmp_path: Path, gates: str) -> None:
    code, calls, said = run_gates(tmp_path, gates, {})
    assert code == 2 and calls == [] and said.startswith("::error ")


def test_what_stands_in_the_input_is_words_and_no_command(tmp_path: Path) -> None:
    code, calls, _ = run_gates(tmp_path, f"contract $(touch {tmp_path}/x) `id` ; true\n", {})
    assert code == 0
    assert re.match(r"gate contract \$\(touch .*\) `id` ; true --base b", calls[0])
    assert not (tmp_path / "x").exists()
