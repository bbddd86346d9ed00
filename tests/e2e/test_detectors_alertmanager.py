"""Real Alertmanager and Prometheus: the delay is that of this injection, and within what the arithmetic says."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drillmaster.intake.alerting import read_facts
from drillmaster.rules.alert_delay import estimate
from drillmaster.rules.alerts import Detection, Injection, Looked, Wanted, match
from drillmaster.verdict import AtLeast, Exact
from tests.e2e.alertlab import Listening, Manager, Sink, alertmanager, answers, free_port, listening, program, until

pytestmark = [pytest.mark.e2e, pytest.mark.needs("prometheus-alertmanager")]

ROUTE = """\
  group_by: [alertname, round]
  group_wait: 1s
  group_interval: 1s
  repeat_interval: 2s
"""
CLOSE_S = 0.5
"""How far two receivers of one delivery may see it apart, on a machine that has others to serve."""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Listening, Sink, Manager]]:
    sink = Sink()
    try:
        with listening(tmp_path) as listener, alertmanager(tmp_path, listener.url, sink.url, route=ROUTE) as manager:
            yield listener, sink, manager
    finally:
        sink.close()


def seen(listener: Listening, state: str = "firing", after_ns: int = 0, **labels: str) -> bool:
    return any(
        row["ns"] > after_ns and row["state"] == state and labels.items() <= row["labels"].items()
        for row in listener.rows("alert_received")
    )


def judged(listener: Listening, injected_ns: int, least: str = "sev2") -> Detection:
    alerts, acks = listener.told()
    return match(
        alerts,
        acks,
        Injection(run="R", window="w", injected_ns=injected_ns),
        Wanted(rule="ToolFailures", least=least),
        Looked(from_ns=0, until_ns=listener.ns()),
    )


def independent_s(sink: Sink, listener: Listening, injected_ns: int, after_ns: int = 0, **labels: str) -> float:
    """The delay by the other receiver and this process' clock."""

    def first() -> int | None:
        return next(
            (
                at_ns
                for at_ns, delivery in sink.got
                for one in delivery["alerts"]
                if at_ns > after_ns and one["status"] == "firing" and labels.items() <= one["labels"].items()
            ),
            None,
        )

    at_ns = int(until(first))  # two deliveries of one flush do not end together
    return (at_ns - listener.mono0_ns - injected_ns) / 1e9


def test_open_before_and_grouped_with_the_drills_own(scene: tuple[Listening, Sink, Manager]) -> None:
    listener, sink, manager = scene
    manager.put(starts_s=-60, instance="old")
    until(lambda: seen(listener, instance="old"))
    first_ns = listener.ns()
    until(lambda: seen(listener, after_ns=first_ns, instance="old"))  # sent again, by repeat_interval
    time.sleep(0.3)  # not in step with the group's ticks
    injected_ns = listener.ns()
    time.sleep(0.2)
    manager.put(starts_s=0, instance="new")
    until(lambda: seen(listener, instance="new"))
    time.sleep(CLOSE_S)
    found = judged(listener, injected_ns)
    assert isinstance(found.delay, Exact) and found.alert is not None
    assert found.alert.labels["instance"] == "new"
    assert 0.2 <= found.delay.value <= 0.2 + 1 + CLOSE_S  # it joined an open group: group_interval, not group_wait
    assert found.delay.value == pytest.approx(independent_s(sink, listener, injected_ns, instance="new"), abs=CLOSE_S)
    assert [one.labels["instance"] for one in found.false_positives] == ["old"]
    assert found.repeats >= 2  # once before, and with the new one
    assert [one.id for one in found.findings] == ["alert-before-injection"]


def test_flapping_before_resolved_in_between_and_fired_anew(scene: tuple[Listening, Sink, Manager]) -> None:
    listener, sink, manager = scene
    for _ in range(2):  # flaps: the same labels, so the same fingerprint
        began_ns = listener.ns()
        manager.put(starts_s=0, instance="a")
        until(lambda since=began_ns: seen(listener, after_ns=since, instance="a"))
        manager.put(starts_s=-0.5, ends_s=0, instance="a")
        until(lambda since=began_ns: seen(listener, "resolved", after_ns=since, instance="a"))
    injected_ns = listener.ns()
    time.sleep(0.5)
    manager.put(starts_s=0, instance="a")
    until(lambda: seen(listener, after_ns=injected_ns, instance="a"))
    manager.put(starts_s=-0.1, ends_s=0, instance="a")  # and flaps on
    until(lambda: seen(listener, "resolved", after_ns=injected_ns, instance="a"))
    time.sleep(CLOSE_S)
    found = judged(listener, injected_ns)
    assert isinstance(found.delay, Exact)
    assert 0.5 <= found.delay.value <= 0.5 + 1 + CLOSE_S
    after_ns = injected_ns + listener.mono0_ns
    assert found.delay.value == pytest.approx(
        independent_s(sink, listener, injected_ns, after_ns, instance="a"), abs=CLOSE_S
    )
    assert len(found.false_positives) == 2


def test_an_old_alert_that_is_sent_for_ever_detects_nothing(scene: tuple[Listening, Sink, Manager]) -> None:
    listener, _, manager = scene
    manager.put(starts_s=-5, instance="old")
    until(lambda: seen(listener, instance="old"))
    injected_ns = listener.ns()
    until(lambda: seen(listener, after_ns=injected_ns, instance="old"))
    found = judged(listener, injected_ns)
    assert isinstance(found.delay, AtLeast)
    assert len(found.false_positives) == 1 and found.repeats >= 1


def test_a_lower_severity_first_and_the_right_one_later(scene: tuple[Listening, Sink, Manager]) -> None:
    listener, _, manager = scene
    injected_ns = listener.ns()
    manager.put(starts_s=0, severity="sev3")
    until(lambda: seen(listener, severity="sev3"))
    assert isinstance(judged(listener, injected_ns).delay, AtLeast)
    manager.put(starts_s=0, severity="sev2")
    until(lambda: seen(listener, severity="sev2"))
    found = judged(listener, injected_ns)
    assert isinstance(found.delay, Exact) and found.alert is not None
    assert found.alert.severity == "sev2"
    assert [one.severity for one in found.lower] == ["sev3"]


class Exporter:
    """A worker's counters, as Prometheus reads them; one of them `fails`, once more with each read.

    Each has a group of its own at Alertmanager, which keeps an empty one for up to 30 s: what joins that waits for no group_wait.
    """

    def __init__(self) -> None:
        self.failures = [0, 0, 0]
        self.fails: int | None = None
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if exporter.fails is not None:
                    exporter.failures[exporter.fails] += 1
                rows = [f'tool_failures_total{{round="{nth}"}} {count}' for nth, count in enumerate(exporter.failures)]
                text = ("\n".join(rows) + "\n").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


PROMETHEUS = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
alerting:
  alertmanagers: [{{static_configs: [{{targets: ["{manager}"]}}]}}]
scrape_configs:
  - job_name: agent
    static_configs: [{{targets: ["{exporter}"]}}]
"""
RULES = """\
groups:
  - name: agent
    interval: 2s
    rules:
      - alert: ToolFailures
        expr: increase(tool_failures_total[4s]) > 0
        for: 1s
        labels: {severity: sev2}
"""
SLACK_S = 0.8
"""What no file says: HTTP, and a machine that has others to serve."""


@pytest.mark.needs("prometheus")
@pytest.mark.timeout(180)
def test_measured_delays_lie_within_the_arithmetic(scene: tuple[Listening, Sink, Manager], tmp_path: Path) -> None:
    listener, sink, manager = scene
    exporter = Exporter()
    try:
        (tmp_path / "prometheus.yml").write_text(
            PROMETHEUS.format(manager=manager.url.removeprefix("http://"), exporter=exporter.address)
        )
        (tmp_path / "rules.yml").write_text(RULES)
        said = estimate(read_facts(tmp_path / "prometheus.yml", tmp_path / "alertmanager.yml", "ToolFailures"))
        assert said is not None and said.worst_s is not None
        # scrape 0..1, evaluation 0..2, `for` of 1 s in whole evaluations of 2 s, group_wait 1
        assert (said.best_s, said.worst_s) == (3, 6)
        port = free_port()
        words = [f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        with program("prometheus", *words, f"--web.listen-address=127.0.0.1:{port}", log=tmp_path / "prometheus.log"):
            until(lambda: answers(f"http://127.0.0.1:{port}/-/ready"))
            time.sleep(5)  # a counter that was there before
            delays = []
            for nth, wait_s in enumerate((0.0, 0.7, 1.3)):  # at several places of the periods
                time.sleep(wait_s)
                injected_ns = listener.ns()
                exporter.fails = nth
                until(lambda since=injected_ns: seen(listener, after_ns=since), within_s=30)
                exporter.fails = None
                found = judged(listener, injected_ns)
                assert isinstance(found.delay, Exact)
                delays.append(found.delay.value)
                apart_s = found.delay.value - independent_s(
                    sink, listener, injected_ns, injected_ns + listener.mono0_ns
                )
                assert abs(apart_s) < CLOSE_S
                until(lambda since=injected_ns: seen(listener, "resolved", after_ns=since), within_s=30)
            assert all(said.best_s - 0.05 <= one <= said.worst_s + SLACK_S for one in delays), delays
    finally:
        exporter.close()
