"""A history scraped by a real Prometheus, and every query of the dashboard asked of it."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from drillmaster.cli._history_metrics import dashboard_files
from drillmaster.history import Entry, open_history

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

CLI = (sys.executable, "-m", "drillmaster", "history")
WAIT_S = 30.0


def add(where: Path, n: int, status: str, **metrics: float) -> None:
    with open_history(str(where / "h.sqlite")) as history:
        history.add(
            Entry(
                run=f"202611{n:02}T120000Z-0001",
                drill="friday",
                name="shop",
                target="",
                ended_at=f"2026-11-{n:02}T12:00:00.000000Z",
                status=status,
                evidence_digest=f"sha256:{n}",
                metrics=metrics,
                at_least=("recovery_s",),
                proved={"row/mission-latency": "pass", "row/detector-time": "fail"},
            )
        )


@pytest.fixture
def history(tmp_path: Path) -> Path:
    add(tmp_path, 6, "pass", p95_latency=1.25)
    add(tmp_path, 13, "fail", p95_latency=1.5, detector_delay_ms=73_500, pager_ack_seconds=41, recovery_s=30)
    return tmp_path


@contextlib.contextmanager
def served(history: Path) -> Iterator[str]:
    argv = [*CLI, "serve-metrics", "--history", "h.sqlite", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, cwd=history, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_wrong(history: Path) -> None:
    argv = [*CLI, "metrics", "--history", "h.sqlite", "--textfile", "out/drills.prom"]
    assert subprocess.run(argv, cwd=history, capture_output=True, timeout=60).returncode == 0
    text = (history / "out" / "drills.prom").read_text()
    ran = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    broken = text.replace("# HELP drillmaster_pager_ack_seconds", "# HULP drillmaster_pager_ack_seconds")
    ran = subprocess.run(["promtool", "check", "metrics"], input=broken, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0


def test_the_names_are_the_agreed_ones_and_the_newest_run_is_shown(history: Path) -> None:
    with served(history) as url:
        found = {one.name: one for one in text_string_to_metric_families(get(url))}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(url.replace("/metrics", "/"))
    counted = {one.labels["verdict"]: one.value for one in found["drillmaster_drill_verdicts"].samples}
    assert found["drillmaster_drill_verdicts"].type == "counter"
    assert counted == {"pass": 1, "fail": 1, "refused": 0, "aborted": 0, "unjudged": 0}
    values = {name: one.samples[0].value for name, one in found.items()}
    assert values["drillmaster_detector_delay_seconds"] == 73.5
    assert values["drillmaster_pager_ack_seconds"] == 41
    assert values["drillmaster_mission_latency_seconds"] == 1.5
    cut = {one.labels["figure"]: one.value for one in found["drillmaster_drill_figure_cut"].samples}
    assert (cut["recovery_s"], cut["p95_latency"]) == (1, 0)


@pytest.mark.parametrize("listen", ["0.0.0.0:9464", "192.0.2.1:1", "9464", "[::]:1"])
def test_it_listens_on_loopback_alone(history: Path, listen: str) -> None:
    argv = [*CLI, "serve-metrics", "--history", "h.sqlite", "--listen", listen]
    done = subprocess.run(argv, cwd=history, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "loopback" in done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@contextlib.contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "drills", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    listen = f"127.0.0.1:{free_port()}"
    argv = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={listen}"]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://{listen}"
        finally:
            process.terminate()
            process.wait(20)


def asked(base: str, query: str) -> list[Any]:
    said = json.loads(get(f"{base}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
    assert said["status"] == "success", said
    return list(said["data"]["result"])


def queries() -> dict[str, str]:
    panels = json.loads(dashboard_files()["dashboard.json"])["panels"]
    return {
        f"{one['title']} {target['refId']}": target["expr"].replace("$drill", ".*").replace("$service", ".*")
        for one in panels
        for target in one["targets"]
    }


@pytest.mark.needs("prometheus")
def test_every_query_of_the_dashboard_returns_data_of_a_real_prometheus(history: Path) -> None:
    with served(history) as url, prometheus(history, urllib.parse.urlsplit(url).netloc) as base:
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            with contextlib.suppress(OSError):
                if asked(base, "drillmaster_drill_figure_cut"):
                    break
            time.sleep(0.2)
        found = {name: asked(base, query) for name, query in queries().items()}
        assert {name for name, rows in found.items() if not rows} == set()
        assert [one["metric"]["row"] for one in found["Rows and faults that did not pass A"]] == ["row/detector-time"]
        assert [one["metric"]["verdict"] for one in found["Last verdict A"]] == ["fail"]
        assert [float(one["value"][1]) for one in found["Detector delay A"]] == [73.5]
        variables = json.loads(dashboard_files()["dashboard.json"])["templating"]["list"]
        for one in variables[1:]:
            label = one["query"]["query"].rpartition(",")[2].strip(" )")
            assert json.loads(get(f"{base}/api/v1/label/{label}/values"))["data"], one["name"]
        # A run that comes later is seen without a restart.
        add(history, 20, "pass", p95_latency=0.5)
        ends = time.monotonic() + WAIT_S
        latency: list[float] = []
        while latency != [0.5] and time.monotonic() < ends:
            time.sleep(0.5)
            latency = [float(one["value"][1]) for one in asked(base, "drillmaster_mission_latency_seconds")]
        assert latency == [0.5]


def test_the_dashboard_names_no_data_source_and_no_id_of_an_installation() -> None:
    said = json.loads(dashboard_files()["dashboard.json"])
    assert "id" not in said
    assert said["uid"] == "drillmaster-drills"
    sources = [one["datasource"] for one in said["panels"]] + [
        t["datasource"] for p in said["panels"] for t in p["targets"]
    ]
    assert {json.dumps(one) for one in sources} == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert len({one["id"] for one in said["panels"]}) == len(said["panels"])


TYPED = """\
import type { Dashboard, Panel } from "@grafana/schema/dist/types/raw/dashboard/x/dashboard_types.gen";
const panels: Panel[] = PANELS;
const all: Partial<Dashboard> = REST;
export { panels, all };
"""


@pytest.mark.needs("node", "npm")
def test_the_dashboard_fits_grafanas_published_types(tmp_path: Path) -> None:
    npm = [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=peer"]
    done = subprocess.run(
        [*npm, "@grafana/schema@13.2.3", "typescript@5"], cwd=tmp_path, capture_output=True, timeout=170
    )
    if done.returncode:
        pytest.skip("needs npm's @grafana/schema and typescript packages")
    types = next((tmp_path / "node_modules/@grafana/schema/dist/types/raw/dashboard").rglob("*.d.ts"))
    said = json.loads(dashboard_files()["dashboard.json"])
    panels = said.pop("panels")
    text = TYPED.replace(
        "@grafana/schema/dist/types/raw/dashboard/x/dashboard_types.gen", f"./{types.relative_to(tmp_path)}"[:-5]
    )
    tsc = [str(tmp_path / "node_modules/.bin/tsc"), "--noEmit", "--skipLibCheck", "--strict", "--module", "esnext",
           "--moduleResolution", "bundler", "check.ts"]  # fmt: skip
    for name, changed, fits in (("as it is", {}, True), ("no such type", {"refresh": 5}, False)):
        rest = {**said, **changed}
        (tmp_path / "check.ts").write_text(text.replace("PANELS", json.dumps(panels)).replace("REST", json.dumps(rest)))
        ran = subprocess.run(tsc, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=os.environ)
        assert (ran.returncode == 0) == fits, f"{name}: {ran.stdout}"
