"""The leases gate by its command line: a lab host's own file, a repository's commits, and routes of a network of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.leases import LIMITS
from tests.e2e.repolab import Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.timeout(120)]

CLI = (sys.executable, "-m", "drillmaster")
SECRET = "hunter2isnotgood"
CLIENT = "def renew(lock, token):\n    ...\n"


def said(folder: Path, *words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [*CLI, *words],
        cwd=folder,
        env={**os.environ, "DRILLMASTER_STATE": str(folder.parent / "state"), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def policy(**more: Any) -> str:
    limits = {**json.loads(msgspec.json.encode(LIMITS)), "image": "none", "default_route": "does not count", **more}
    told = {
        "kind": "policy",
        "version": 1,
        "source": "lock-runbook",
        "owner": "Ada",
        "review_by": "2199-02-28",
        "gates": [limits],
    }
    return json.dumps(told)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit(
        {
            ".drillmaster/leases-policy.yaml": policy(),
            "app/locks/client.py": CLIENT,
            "app/prompts/explain.md": "Summarise the redacted log.\n",
        }
    )
    return made


def lab(repo: Repo, *words: str, env: dict[str, str] | None = None) -> Path:
    out = repo.path.parent / "lease-lab.json"
    code, told = said(repo.path, "evidence", "new", "lease-lab", "--host", "lab-7", "--out", str(out), *words, env=env)
    assert code == 0, told
    return out


def gate(repo: Repo, *words: str) -> tuple[int, str]:
    return said(repo.path, "gate", "leases", *words)


def test_a_lab_that_is_apart_passes_and_one_with_a_locks_password_does_not(repo: Repo) -> None:
    out = lab(repo, env={"BLOCKSIZE": "512", "FOO": f"xLOCKx{SECRET}"})
    code, told = gate(repo, str(out), "--base", "main")
    assert code == 0, told
    assert "DEFAULT ROUTE NOT COUNTED" in told
    for name in ("ETCD_PASSWORD", "DLM_TOKEN"):
        out = lab(repo, env={name: SECRET})
        code, told = gate(repo, str(out), "--base", "main")
        assert code == 1, told
        assert name in told
        assert SECRET not in told + out.read_text()


def test_the_harness_of_another_process_is_looked_at_as_it_runs(repo: Repo) -> None:
    env = {"PATH": os.environ["PATH"], "A": "1", "B": "2", "C": "3", "D": "4", "LOCK_TOKEN": SECRET}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as harness:
        time.sleep(0.2)  # it has its environment when it was started, and not before
        out = lab(repo, "--pid", str(harness.pid))
        assert harness.stdin is not None
        harness.stdin.close()
        harness.wait(10)
    code, told = gate(repo, str(out), "--base", "main")
    assert code == 1 and f"LOCK_TOKEN (process {harness.pid})" in told
    assert SECRET not in told + out.read_text()


@pytest.mark.needs("ip", "unshare")
def test_a_process_in_a_network_of_its_own_is_refused_as_its_routes_are_others(repo: Repo) -> None:
    with subprocess.Popen(["unshare", "-rn", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as harness:
        assert harness.stdin is not None and harness.stdout is not None
        harness.stdin.write(b"there\n")
        harness.stdin.flush()
        apart = harness.stdout.readline() == b"there\n"
        code, told = said(
            repo.path, "evidence", "new", "lease-lab", "--host", "lab-7", "--out", "-", "--pid", str(harness.pid)
        )
        harness.stdin.close()
        harness.wait(10)
    if not apart:
        pytest.skip("needs a network namespace of its own")
    assert code == 2
    assert "a network of its own" in told and f"nsenter --net --target {harness.pid}" in told


def test_prompts_are_searched_as_the_change_has_them(repo: Repo) -> None:
    out = str(lab(repo))
    repo.branch("change")
    repo.commit({"app/prompts/explain.md": f"Dear {SECRET},\nask for the fencing_token, then renew.\n"})
    code, told = gate(repo, out, "--base", "main")
    assert code == 1, told
    assert "app/prompts/explain.md:2 fencing token" in told and "app/prompts/explain.md:2 renew" in told
    assert SECRET not in told
    repo.git("checkout", "-q", "main")  # what lies there is not what is judged
    assert gate(repo, out, "--base", "main", "--head", "change")[0] == 1
    assert gate(repo, out, "--base", "main")[0] == 0


def test_a_folder_that_is_not_there_is_refused_where_grep_says_what_it_says_of_no_hit(repo: Repo) -> None:
    out = str(lab(repo))
    repo.branch("change")
    repo.commit({"app/prompts/explain.md": None, "app/texts/explain.md": "Summarise the redacted log.\n"})
    code, told = gate(repo, out, "--base", "main")
    assert code == 2 and "app/prompts: not there" in told
    grep = subprocess.run(["git", "grep", "-n", "fencing_token", "--", "app/prompts"], cwd=repo.path, check=False)
    assert grep.returncode == 1  # as for a folder without a hit


def test_an_image_is_judged_as_it_was_inspected(repo: Repo, tmp_path: Path) -> None:
    repo.commit({".drillmaster/leases-policy.yaml": policy(image="inspected")})
    out = str(lab(repo))
    code, told = gate(repo, out, "--base", "main")
    assert code == 2 and "docker image inspect" in told
    image = tmp_path / "image.json"
    image.write_text(json.dumps([{"Config": {"Env": ["PATH=/bin", f"FENCING_KEY={SECRET}"]}}]))
    code, told = gate(repo, out, "--image", str(image), "--base", "main")
    assert code == 1 and "FENCING_KEY (image.json)" in told and SECRET not in told
    (tmp_path / "Dockerfile").write_text("FROM scratch\nENV A=b\n")
    assert gate(repo, out, "--image", str(tmp_path / "Dockerfile"), "--base", "main")[0] == 2


def test_without_a_lab_the_line_is_named_that_makes_its_file(repo: Repo) -> None:
    code, told = gate(repo)
    assert code == 2 and "drillmaster evidence new lease-lab --out lease-lab.json" in told


SETUP = """
set -e
ip link set lo up
ip link add lab0 type veth peer name far0
ip link set far0 up
ip addr add 198.51.100.2/24 dev lab0
ip link set lab0 up
ip route add default via 198.51.100.1
{more}
exec {python} -m drillmaster evidence new lease-lab --host lab-7 --out {out}
"""


@pytest.mark.needs("ip", "unshare")
@pytest.mark.parametrize(
    ("more", "limits", "code", "why"),
    [
        ("ip route add blackhole 10.20.0.0/24; ip route add unreachable 10.9.0.7", {"default_route": "counts"}, 0, ""),
        ("", {"default_route": "does not count"}, 0, ""),
        ("", {"default_route": "counts"}, 1, "10.20.0.0/24 by 0.0.0.0/0 via 198.51.100.1"),
        ("ip route add 10.20.0.0/16 via 198.51.100.9", {}, 1, "10.20.0.0/16 via 198.51.100.9"),
        ("ip addr add 10.20.0.200/24 dev lab0", {}, 1, "10.20.0.0/24 on the link"),
        ("ip route add 10.20.0.0/24 dev lab0 table 51820", {}, 1, "of table 51820"),
    ],
)
def test_routes_of_a_network_of_its_own(
    repo: Repo, tmp_path: Path, more: str, limits: dict[str, Any], code: int, why: str
) -> None:
    repo.commit({".drillmaster/leases-policy.yaml": policy(tables="all", **limits)})
    out = tmp_path / "lease-lab.json"
    script = SETUP.format(more=more, python=sys.executable, out=out)
    made = subprocess.run(
        ["unshare", "-rn", "sh", "-c", script], cwd=repo.path, capture_output=True, text=True, check=False, timeout=60
    )
    if made.returncode != 0 and ("not permitted" in made.stderr or "Unknown device type" in made.stderr):
        pytest.skip("needs a network namespace of its own")
    assert made.returncode == 0, made.stderr
    found, told = gate(repo, str(out), "--base", "main")
    assert (found, why in told) == (code, True), told
