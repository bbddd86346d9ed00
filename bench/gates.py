"""Cold start of gates: whole processes in repositories with one small change, beside an interpreter that does nothing.

Each repository holds what a gate wants: a roster, owners or a lock, one commit on a branch. The first run of each gate plays its
self-test and is left out; so are bytecode files that are not there yet. `--rounds` processes of each, by turns; the least
and the median of CPU (with all children, git's too) and of wall time.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROSTER = "kind: roster\nversion: 1\npeople:\n  - {identity: ada, emails: [ada@example.com], logins: [ada-l]}\n"
POLICY = """kind: policy
version: 1
source: docs/contracts.md
owner: schema-lock-owners
review_by: "2099-01-01"
gates:
  - gate: contract
    lock: schema.lock.json
    classes: {schema: [contracts/]}
    fixtures: contracts/fixtures.yaml
    fixtures_are: when-named
    pending_days: 14
    enum_window_days: 30
    sensitive: [amount]
    owners: unasked
"""
SCHEMA = '{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}'


def repository(folder: Path, base: dict[str, str], change: dict[str, str]) -> Path:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
    }

    def git(*args: str) -> None:
        subprocess.run(["git", "-C", folder, *args], check=True, env=env, stdout=subprocess.DEVNULL)

    folder.mkdir()
    git("init", "-q", "-b", "main")
    for number, files in enumerate((base, change)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", str(number))
        if number == 0:
            git("branch", "change")
            git("checkout", "-q", "change")
    return folder


def cases(folder: Path) -> dict[str, list[str]]:
    import hashlib

    lock = {"version": 1, "files": {"contracts/a.json": hashlib.sha256(SCHEMA.encode()).hexdigest()}, "pending": {}}
    contract = {
        ".drillmaster/contract-policy.yaml": POLICY,
        "schema.lock.json": json.dumps(lock),
        "contracts/a.json": SCHEMA,
    }
    oracle = {
        ".oracle-owners": "contracts/*.json\tada\tgit-pin\n",
        "contracts/a.json": "{}",
        "tests/test_a.py": "def test_a():\n    assert 1\n",
    }
    common, change = {".drillmaster/roster.yaml": ROSTER, "src/a.py": "a = 1\n"}, {"src/a.py": "a = 2\n"}
    gate = [sys.executable, "-m", "drillmaster", "gate"]
    contracts = repository(folder / "contracts", {**common, **contract}, change)
    oracles = repository(folder / "oracles", {**common, **oracle}, change)
    agent = repository(folder / "agents", {"agent/notes.txt": "look at the third order\n"}, {"README.md": "a\n"})
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import click, msgspec": [sys.executable, "-c", "import click, msgspec"],
        "gate tools --help": [*gate, "tools", "--help"],
        "gate workspace": [*gate, "workspace", str(agent / "agent")],
        "gate oracle": [*gate, "oracle", "--repo", str(oracles), "--base", "main"],
        "gate contract": [*gate, "contract", "--repo", str(contracts), "--base", "main"],
    }


def took(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{argv} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as made:
        env = {**os.environ, "DRILLMASTER_STATE": f"{made}/state", "PYTHONPATH": str(ROOT / "src")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        processes = cases(Path(made))
        for argv in processes.values():
            took(argv, env), took(argv, env)
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        for _ in range(rounds):
            for name, argv in processes.items():
                seen[name].append(took(argv, env))
    print(
        f"load average: {os.getloadavg()[0]:.1f}\n\n| | CPU ms, least | median | wall ms, least | median |\n|---|---|---|---|---|"
    )
    for name, times in seen.items():
        cpu, wall = zip(*times, strict=True)
        row = (min(cpu), statistics.median(cpu), min(wall), statistics.median(wall))
        print(f"| {name} | " + " | ".join(f"{one * 1e3:.0f}" for one in row) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
