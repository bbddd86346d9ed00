"""The recording rules under promtool, and evidence from a real Prometheus that evaluates them, judged by the gate."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.needs("prometheus"), pytest.mark.needs("promtool")]

BUILD = "sha256:" + "a1" * 32
OLD = "sha256:" + "b2" * 32
WAIT_S = 40.0
STEP_S = 15
POLICY = """\
kind: policy
version: 1
source: canary-runbook
owner: Ada of payments
review_by: 2099-02-28
gates:
  - gate: canary
    service: checkout
    collectors: [prometheus]
    max_age_s: 900
    min_requests: 5000
    max_error_ratio: 0.002
    max_p95_ms: 180
    slo_target_ratio: 0.999
    max_slo_burn: 1.5
    min_healthy_hosts: 2
    min_window_s: 600
    min_coverage_ratio: 0.9
    baseline: {min_requests: 5000, max_error_ratio_excess: 0.002, max_p95_factor: 1.25}
"""


def kit(folder: Path) -> Path:
    """Put rules and tests where promtool finds them."""
    for name in ("rules.yaml", "rules.test.yaml"):
        text = resources.files("drillmaster").joinpath("kits", "canary", name).read_text("utf-8")
        (folder / f"canary-{name}").write_text(text)
    return folder


def drillmaster(*words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "drillmaster", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "DRILLMASTER_STATE": str(cwd / "state"), **environ},
    )


def test_promtool_takes_the_rules_and_their_tests_hold(tmp_path: Path) -> None:
    folder = kit(tmp_path)
    for words in (["check", "rules", "canary-rules.yaml"], ["test", "rules", "canary-rules.test.yaml"]):
        ran = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_promtool_sees_that_errors_of_a_new_kind_are_lost_without_the_second_half_of_the_rule(tmp_path: Path) -> None:
    folder = kit(tmp_path)
    path = folder / "canary-rules.yaml"
    text = path.read_text()
    cut = text.replace('or (last_over_time(http_requests_total{canary=~"0|1",status=~"5.."}[10m])', "or (vector(0)")
    assert cut != text
    path.write_text(cut)
    ran = subprocess.run(
        ["promtool", "test", "rules", "canary-rules.test.yaml"], cwd=folder, capture_output=True, timeout=60
    )
    assert ran.returncode != 0


def history(now_s: int, *, errors_each: int) -> str:
    """Half an hour of a canary and its baseline, as OpenMetrics, up to now."""
    series = {
        "http_requests": [
            ({"canary": "1", "artifact": BUILD, "status": "200", "instance": "a"}, 150),
            ({"canary": "1", "artifact": BUILD, "status": "200", "instance": "b"}, 150),
            ({"canary": "1", "artifact": BUILD, "status": "500", "instance": "a"}, errors_each),
            ({"canary": "0", "artifact": OLD, "status": "200", "instance": "c"}, 1500),
            ({"canary": "0", "artifact": OLD, "status": "500", "instance": "c"}, 0),
        ],
    }
    stamps = range(now_s - 1800, now_s + 1, STEP_S)
    out = ["# TYPE http_requests counter"]
    for labels, each in series["http_requests"]:
        out += [f"http_requests_total{of(labels)} {at * each} {stamp}" for at, stamp in enumerate(stamps)]
    out.append("# TYPE http_request_duration_seconds histogram")
    for canary, artifact, each in (("1", BUILD, 300), ("0", OLD, 1500)):
        for le, share in (("0.1", 0.9), ("0.2", 1.0), ("+Inf", 1.0)):
            labels = {"canary": canary, "artifact": artifact, "le": le}
            name = f"http_request_duration_seconds_bucket{of(labels)}"
            out += [f"{name} {at * each * share:g} {stamp}" for at, stamp in enumerate(stamps)]
    out.append("# TYPE up gauge")
    for instance, canary, artifact in (("a", "1", BUILD), ("b", "1", BUILD), ("c", "0", OLD)):
        labels = {"canary": canary, "artifact": artifact, "instance": instance}
        out += [f"up{of(labels)} 1 {stamp}" for stamp in stamps]
    out.append("# TYPE canary:healthy_hosts:sum gauge")
    for canary, artifact, hosts in (("1", BUILD, 2), ("0", OLD, 1)):
        labels = {"canary": canary, "artifact": artifact}
        out += [f"canary:healthy_hosts:sum{of(labels)} {hosts} {stamp}" for stamp in stamps]
    return "\n".join([*out, "# EOF", ""])


def of(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in {"service": "checkout", **labels}.items()) + "}"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return b'"canary":"1"' in answer.read()
    except (OSError, urllib.error.URLError):
        return False


@pytest.fixture
def prometheus(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Run Prometheus over a history that was written down, with the kit's rules evaluated each second."""
    folder = kit(tmp_path)
    rules = folder / "canary-rules.yaml"
    text = rules.read_text().replace("interval: 15s", "interval: 1s")
    told = getattr(request, "param", 0)
    now_s = int(time.time())
    past = history(now_s, errors_each=0 if told == "stale" else told)
    if told == "stale":  # the rule of errors was taken out two minutes ago; what it said last is still found
        text = text.replace("record: canary:errors:increase10m", "record: canary:errors:renamed")
        lines = "\n".join(
            f"canary:errors:increase10m{of({'canary': canary, 'artifact': artifact})} 0 {now_s - 120}"
            for canary, artifact in (("1", BUILD), ("0", OLD))
        )
        past = past.replace("# EOF", f"# TYPE canary:errors:increase10m gauge\n{lines}\n# EOF")
    rules.write_text(text)
    (folder / "prometheus.yml").write_text("rule_files: [canary-rules.yaml]\n")
    (folder / "history.om").write_text(past)
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "history.om", "data"],
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=60,
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            shutil.which("prometheus") or "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + WAIT_S
        while not answers(f"{url}/api/v1/query?query=canary:coverage:ratio10m"):
            assert time.monotonic() < deadline, "Prometheus did not evaluate the rules"
            assert process.poll() is None, "Prometheus ended"
            time.sleep(0.2)
        yield url
    finally:
        process.kill()
        process.wait(10)


def new(
    url: str, folder: Path, *, artifact: str = BUILD, service: str = "checkout"
) -> subprocess.CompletedProcess[str]:
    return drillmaster(
        "evidence", "new", "canary", "--prometheus", url, "--service", service, "--artifact", artifact,
        "--out", "metrics.json", cwd=folder,
    )  # fmt: skip


def gate(folder: Path, *, artifact: str = BUILD) -> subprocess.CompletedProcess[str]:
    (folder / "canary-policy.yaml").write_text(POLICY)
    return drillmaster(
        "gate", "canary", "metrics.json", "--policy", "canary-policy.yaml", "--artifact", artifact, cwd=folder
    )


def test_a_healthy_canary_is_promoted_on_what_prometheus_counted(prometheus: str, tmp_path: Path) -> None:
    ran = new(prometheus, tmp_path)
    assert ran.returncode == 0, ran.stderr
    said = json.loads((tmp_path / "metrics.json").read_text())
    assert 11_000 <= said["data"]["canary"]["requests"] <= 12_100
    assert said["data"]["canary"]["errors"] == 0
    assert 100 < said["data"]["canary"]["p95_ms"] < 200
    assert said["data"]["baseline"]["artifact"] == OLD
    assert said["produced_by"]["host"] == prometheus
    judged = gate(tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "promote: pinned metrics passed policy" in judged.stdout


@pytest.mark.parametrize("prometheus", [2], indirect=True)
def test_a_canary_with_errors_is_rejected(prometheus: str, tmp_path: Path) -> None:
    assert new(prometheus, tmp_path).returncode == 0
    judged = gate(tmp_path)
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert "- error_rate 0.0" in judged.stdout


@pytest.mark.parametrize("prometheus", ["stale"], indirect=True)
def test_one_rule_that_runs_no_more_refuses_them_all(prometheus: str, tmp_path: Path) -> None:
    ran = new(prometheus, tmp_path)
    assert (ran.returncode, "of which one is of 1" in ran.stderr) == (2, True), ran.stderr
    assert not (tmp_path / "metrics.json").exists()


def test_what_prometheus_does_not_know_is_refused_and_nothing_is_written(prometheus: str, tmp_path: Path) -> None:
    for wanted, said in (
        ({"service": "nobody"}, "without a time"),
        ({"artifact": "sha256:" + "c3" * 32}, "a canary with the artifact"),
        ({"artifact": "latest"}, "--artifact"),
    ):
        ran = new(prometheus, tmp_path, **wanted)
        assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
        assert not (tmp_path / "metrics.json").exists()
    assert new(prometheus.replace("127.0.0.1", "192.0.2.1"), tmp_path).returncode == 2
    dead = new(f"http://127.0.0.1:{free_port()}", tmp_path)
    assert (dead.returncode, "connection refused" in dead.stderr) == (2, True)
