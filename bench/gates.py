"""Cold start of gates: whole processes in repositories with one small change, beside an interpreter that does nothing.

Each repository holds what a gate wants: a roster, owners or a lock, one commit on a branch; the gates that judge one file get
one of JSON, with a policy of JSON. Every one gives a verdict. The first run of each gate plays its self-test and is left
out; so are bytecode files that are not there yet. `--rounds` processes of each, by turns; the least and the median of CPU
(with all children, git's too) and of wall time, and whether asyncio, ssl or a parser of YAML was imported.
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
METRICS = {
    "requests": 8200, "errors": 6, "p95_ms": 142, "slo_burn": 0.4, "healthy_hosts": 3, "window_seconds": 900,
    "source": "prometheus", "collected_at": "2026-11-30T16:00:00Z",
}  # fmt: skip  # the article's fields
PLAN = {
    "plan_id": "cutover-ledger",
    "service": "ledger-writer",
    "authors": {"draft": "free-lane-model", "timed_fields": "human:sre-oncall", "rollback_owner": "human:payments-tl"},
    "traffic": {"initial_percent": 1, "step_percent": 4, "max_percent_before_freeze": 20, "error_budget_ppm": 50},
    "window": {
        "freeze_start_utc": "2026-09-20T02:00:00Z",
        "freeze_end_utc": "2026-09-20T06:00:00Z",
        "dual_write_required": True,
        "old_writer_delete_same_window": False,
    },
    "halt": {"on_checksum_mismatch": "halt", "on_retry_storm": "halt", "on_free_lane_author_for_timed_fields": "halt"},
    "idempotency": {"key_format": "human-pinned:ledger-v1", "author": "human:payments-tl"},
    "controller": {"runtime": "pinned-paid-path", "free_server_forbidden": True},
}
REFUSES = ("gate free-tier",)
"""A night on paper is no month of them: its verdict is whole, and refused."""
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
    script = Path(sys.executable).with_name("drillmaster")
    gate = [sys.executable, *([str(script)] if script.exists() else ["-m", "drillmaster"]), "gate"]
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
        **of_one_file(folder, gate),
    }


def of_one_file(folder: Path, gate: list[str]) -> dict[str, list[str]]:
    """Give the gates whose evidence is one file, or a folder of sealed runs; all is JSON."""
    sys.path.insert(0, str(ROOT))
    import msgspec

    from drillmaster import strict
    from drillmaster.gates._cases.canary import ARTICLE
    from drillmaster.gates._cases.free_tier import LIMITS as FREE
    from drillmaster.gates._cases.tools import LIMITS, TOOL
    from tests.interviewed import JOB, sealed

    def written(name: str, content: object) -> str:
        (folder / name).write_bytes(msgspec.json.encode(content))
        return str(folder / name)

    def policy(name: str, limits: dict[str, object]) -> str:
        pin = {"source": "docs/limits.md", "owner": "Ada", "review_by": "2099-01-01"}
        return written(f"{name}.json", {"kind": "policy", "version": 1, **pin, "gates": [{"gate": name, **limits}]})

    sealed(folder / "runs")
    # Of a repository's own programs alone: no row should hang on what this machine has installed.
    tool = {**TOOL, "command": ["./read.sh"]}
    programs = [{"path": "./read.sh", "sha256": strict.digest_bytes(b"")}]
    (folder / "read.sh").write_bytes(b"")
    limits = {**msgspec.to_builtins(LIMITS), "place": "repository", "programs": programs, "urls": []}
    limits.pop("agent_uids")
    canary = {name: value for name, value in msgspec.to_builtins(ARTICLE).items() if name != "gate"}
    calls = {"url": "http://127.0.0.1:8000/v1/chat", "level": "warm_c4", "job": JOB, "min_calls": 20}
    free = msgspec.to_builtins(FREE) | calls
    return {
        "gate tools": [*gate, "tools", written("tools.allow.json", {"version": 1, "tools": [tool]}), "--policy",
                       policy("tools", limits)],
        "gate canary": [*gate, "canary", written("metrics.json", METRICS), "--policy",
                        written("canary.json", canary)],
        "gate cutover": [*gate, "cutover", written("plan.json", PLAN), "--now", "2026-09-19T10:00:00Z"],
        "gate free-tier": [*gate, "free-tier", str(folder / "runs"), "--policy", policy("free-tier", free),
                           "--ledger", str(folder / "ledger.jsonl"), "--now", "2026-11-30T13:00:00Z"],
    }  # fmt: skip  # a command a row


def imported(argv: list[str], env: dict[str, str]) -> str:
    """Name what a hook should not have to import, of the modules of a whole run."""
    said = subprocess.run(
        [argv[0], "-X", "importtime", *argv[1:]], env=env, capture_output=True, text=True, check=False
    )
    modules = {line.rpartition("|")[2].strip() for line in said.stderr.splitlines() if line.startswith("import time:")}
    return ", ".join(sorted(modules & {"asyncio", "ssl", "ruamel.yaml"})) or "-"


def took(argv: list[str], env: dict[str, str], code: int = 0) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        raise SystemExit(f"{argv} ended with {done.returncode}: {done.stdout.decode()[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as made:
        env = {**os.environ, "DRILLMASTER_STATE": f"{made}/state", "PYTHONPATH": str(ROOT / "src")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        processes = cases(Path(made))
        codes = {name: 2 if name in REFUSES else 0 for name in processes}
        heavy = {name: imported(argv, env) for name, argv in processes.items()}
        for name, argv in processes.items():
            took(argv, env, codes[name]), took(argv, env, codes[name])
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        for _ in range(rounds):
            for name, argv in processes.items():
                seen[name].append(took(argv, env, codes[name]))
    print(
        f"load average: {os.getloadavg()[0]:.1f}\n\n| | CPU ms, least | median | wall ms, least | median | heavy imports |\n"
        "|---|---|---|---|---|---|"
    )
    for name, times in seen.items():
        cpu, wall = zip(*times, strict=True)
        row = (min(cpu), statistics.median(cpu), min(wall), statistics.median(wall))
        print(f"| {name} | " + " | ".join(f"{one * 1e3:.0f}" for one in row) + f" | {heavy[name]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
