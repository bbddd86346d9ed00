"""The built-in detector over a timeline."""

import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import ManualClock, rfc3339
from drillmaster.detectors.reading import read
from drillmaster.detectors.watch import Change, Counted, Detector, Sender, payload, refuse_missing
from drillmaster.errors import Problem, Refused
from drillmaster.friday.detectors import Alertmanager
from drillmaster.rules.burn_rate import Pair, Watch

WATCH = Watch(rule="ToolFailures", target=0.99, pairs=(Pair(long_s=60, short_s=10, factor=10.0, severity="sev2"),))


class Scene:
    """A timeline, a clock and whoever is posted to."""

    def __init__(self, folder: Path, **extra: Any) -> None:
        self.log = folder / "timeline.jsonl"
        self.clock = ManualClock()
        self.posted: list[dict[str, Any]] = []
        self.why = ""
        self.detector = Detector(WATCH, self.log, self._post, self.clock, labels={"team": "agents"}, **extra)

    def _post(self, body: bytes) -> str:
        if not self.why:
            self.posted.append(json.loads(body))
        return self.why

    def second(self, *results: str, **extra: Any) -> list[Change]:
        self.clock.advance(1)
        with self.log.open("a", encoding="utf-8") as file:
            for result in results:
                t = rfc3339(self.clock.wall_ns())
                file.write(
                    json.dumps({"t": t, "event": "tool_attempted", "tool": "refund", "result": result, **extra}) + "\n"
                )
        return self.detector.step()


def test_an_alert_is_sent_when_it_begins_again_while_it_lasts_and_once_when_it_is_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, repeat_s=5)
    said: list[Change] = []
    for second in range(60):
        said += scene.second(*(["timeout"] * 5 if 20 <= second < 32 else ["ok"] * 5))
    states = [one["status"] for one in scene.posted]
    assert states[0] == "firing" and states[-1] == "resolved" and states.count("resolved") == 1
    assert states.count("firing") > 2
    assert [change.words.split(":")[0] for change in said] == ["ToolFailures sev2 fires", "ToolFailures sev2 is over"]
    assert len({one["alerts"][0]["startsAt"] for one in scene.posted}) == 1
    (alert,) = read(Alertmanager(name="a", path="/a", secret_env="A"), scene.posted[0]).alerts
    assert (alert.rule, alert.severity, alert.state, alert.labels["team"]) == (
        "ToolFailures",
        "sev2",
        "firing",
        "agents",
    )


def test_what_could_not_be_delivered_is_tried_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.why = "ConnectionRefusedError"
    for _ in range(3):
        scene.second("timeout")
    assert scene.detector.failed == 3 and not scene.posted
    scene.why = ""
    scene.second("timeout")
    assert [one["status"] for one in scene.posted] == ["firing"]


def test_lines_of_other_tools_and_torn_ones_are_no_calls(tmp_path: Path) -> None:
    scene = Scene(tmp_path, tool="refund")
    scene.log.write_text(
        '{"t":"2026-01-01T00:00:00Z","event":"tool_attempted","resu\n[1]\n"tool_attempted"\n', encoding="utf-8"
    )
    scene.second("timeout", tool="search")
    scene.second("timeout", t="yesterday")
    assert (scene.detector.events, scene.posted) == (0, [])
    scene.second("timeout")
    assert (scene.detector.events, scene.detector.bad) == (1, 1)


@pytest.mark.parametrize(
    ("count", "fields", "bad"),
    [
        ("tool_attempted", {"result": "ok"}, 0), ("tool_attempted", {"result": "killed"}, 1), ("tool_attempted", {}, None),
        ("tool_finished", {"ok": True}, 0), ("tool_finished", {"ok": False}, 1), ("tool_finished", {"ok": "no"}, None),
        ("user_request", {"status": 200}, 0), ("user_request", {"status": 404}, 0), ("user_request", {"status": 503}, 1),
        ("user_request", {"status": 0}, 1), ("user_request", {"status": "503"}, None), ("user_request", {"status": True}, None),
    ],
)  # fmt: skip  # one line a piece
def test_each_kind_of_line_says_what_failed(
    count: Counted, fields: dict[str, Any], bad: int | None, tmp_path: Path
) -> None:
    log = tmp_path / "timeline.jsonl"
    log.write_text(json.dumps({"t": "2026-01-01T00:00:00Z", "event": count, **fields}) + "\n", encoding="utf-8")
    detector = Detector(WATCH, log, lambda body: "", ManualClock(), count=count)
    detector.step()
    assert (detector.events, detector.bad) == ((0, 0) if bad is None else (1, bad))


def test_the_drills_end_is_the_detectors(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.log.write_text('{"t":"2026-01-01T00:00:00Z","event":"drill_ended"}\n', encoding="utf-8")
    scene.detector.step()
    assert scene.detector.ended


@pytest.mark.parametrize("url", ["http://example.com/x", "https://127.0.0.1/x", "http://a:b@127.0.0.1/", "nonsense"])
def test_alerts_stay_on_this_machine(url: str) -> None:
    with pytest.raises(Refused, match="--to"):
        Sender(url, None)


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no folder"):
        refuse_missing(tmp_path / "run")


def test_an_alert_has_one_fingerprint_whatever_its_state() -> None:
    one = payload(WATCH, {"a": "b"}, "sev2", 1, None)["alerts"][0]["fingerprint"]
    assert one == payload(WATCH, {"a": "b"}, "sev2", 5, 9)["alerts"][0]["fingerprint"]
    assert one != payload(WATCH, {"a": "c"}, "sev2", 1, None)["alerts"][0]["fingerprint"]


def test_a_long_timeline_is_caught_up_with_in_one_step(tmp_path: Path) -> None:
    row = json.dumps({"t": "2026-01-01T00:00:00Z", "event": "tool_attempted", "result": "ok", "pad": "x" * 1_000})
    (tmp_path / "timeline.jsonl").write_text(f"{row}\n" * 5_000, encoding="utf-8")
    scene = Scene(tmp_path)
    scene.detector.step()
    assert scene.detector.events == 5_000
