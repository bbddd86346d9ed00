"""The course of a matrix against a drill on paper: what it lays out, when it goes on, and what it says when it cannot."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.clock import ManualClock
from drillmaster.conduct import State
from drillmaster.errors import Problem
from drillmaster.matrix import choose
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.plan import Matrix, Permit, Phases, Plan, Proxy, Spend, Target, Traffic, Window, Worker
from drillmaster.run import Options, Picked
from drillmaster.run.course import Turn
from drillmaster.run.folder import Folder
from drillmaster.run.matrix import Cells, prepare_matrix
from drillmaster.run.tail import Tail
from drillmaster.run.traffic import Answer, Tally
from drillmaster.run.watch import requests_spent

S = 10**9


class Drill:
    """What the course sees; time passes in `pause` alone, and `agent` says what happens meanwhile."""

    def __init__(self, folder: Path, **over: Any) -> None:
        self.clock = ManualClock()
        (folder / "events").mkdir(parents=True)
        self.folder = Folder(run="r", path=folder, wall0_ns=self.clock.wall_ns(), mono0_ns=self.clock.mono_ns())
        self.plan = Plan(
            kind="plan", drill="matrix", service="toy", target=Target(url="http://127.0.0.1:1/"),
            traffic=Traffic(every_s=1, time_limit_s=5), proxy=Proxy(upstream="http://127.0.0.1:2"),
            phases=Phases(baseline_s=10, fault_s=5, recovery_s=2),
            **{"matrix": Matrix(back_within_s=20), **over},
        )  # fmt: skip
        self.state = State.BASELINE
        self.tally = Tally(20)
        self.worker_alive = self.plan.worker is not None
        self.restarts = 0
        self.counts: dict[str, int] = {}
        self.proxy: dict[str, Any] = {"counts": self.counts, "spent": None}
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.said: list[str] = []
        self.agent: Any = lambda: self.served()
        self.during_restart: Any = lambda: None

    def course(self, *tags: str, share: float = 0.0, time_limit_s: float | None = None) -> Cells:
        wanted = choose(Matrix(), tags=tags or ("503", "reset"))
        return Cells(
            self.plan, wanted, self.folder, self.clock, max_baseline_failed_ratio=share, time_limit_s=time_limit_s
        )

    # The stage

    def write(self, event: str, /, **fields: Any) -> bool:
        self.written.append((event, fields))
        return True

    def say(self, text: str) -> None:
        self.said.append(text)

    async def pause(self, seconds: float) -> bool:
        before = self.state
        self.clock.advance(1)
        self.agent()
        return self.state is before

    async def requests_spent(self) -> int:
        return requests_spent(self.proxy)

    async def restart_worker(self) -> bool:
        self.restarts += 1
        self.worker_alive = True
        self.during_restart()
        return True

    # What happens

    @property
    def now_ns(self) -> int:
        return self.clock.mono_ns() - self.folder.mono0_ns

    def line(self, file: str, **fields: Any) -> None:
        with (self.folder.events / file).open("a") as out:
            out.write(json.dumps(fields) + "\n")

    def served(
        self, *, primary: bool = True, ok: bool = True, stream: bool = False, dialect: str = "openai_chat"
    ) -> None:
        """A user was answered, by the real endpoint or without it."""
        now = self.now_ns
        if primary:
            self.line(
                "proxy.jsonl", event="attempt", dialect=dialect, stream=stream, window=None, status=200, upstream=True,
                start_ns=now, trace="a" * 32,
            )  # fmt: skip
        answer = "ok" if ok else None
        status = 200 if ok else 500
        self.line("traffic.jsonl", event="user_request", phase="end", sent_ns=now, answer=answer, status=status)
        self.tally.count(
            Answer(result="answered", status=status, answer=answer, why="", sent_ns=now, first_ns=now, end_ns=now)
        )
        self.counts["requests"] = self.counts.get("requests", 0) + 1

    def window(self, turn: Turn) -> None:
        """A window is put on, and lifted five seconds later."""
        self.clock.advance(5)
        self.line("proxy.jsonl", event="fault_lifted", window=turn.window, lifted_ns=self.now_ns)
        self.state = State.RECOVERY

    def events(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.written if event == name]


def next_of(course: Cells, drill: Drill) -> Turn | None:
    return asyncio.run(course.next(drill))


@pytest.fixture
def drill(tmp_path: Path) -> Drill:
    return Drill(tmp_path / "run")


def baseline(drill: Drill, **how: Any) -> None:
    for _ in range(5):
        drill.served(**how)


def after_one_cell(drill: Drill) -> Cells:
    """A healthy baseline, and the window of the first cell, which is over."""
    baseline(drill)
    course = drill.course()
    turn = next_of(course, drill)
    assert turn is not None
    drill.window(turn)
    return course


def whole_walk(drill: Drill, course: Cells) -> list[Turn]:
    found = []
    while (turn := next_of(course, drill)) is not None:
        found.append(turn)
        drill.window(turn)
    return found


def test_cells_come_one_after_another_and_are_written_before_the_first(drill: Drill) -> None:
    baseline(drill)
    turns = whole_walk(drill, drill.course("503", "reset", "stall"))
    assert [(t.window, t.fault) for t in turns] == [("w1", "503"), ("w2", "reset")]
    assert [(f["cell"], f["label"], f["stream"]) for f in drill.events("cell_planned")] == [
        ("w1", "503", False),
        ("w2", "reset", False),
    ]
    assert {f["label"] for f in drill.events("cell_left_out")} == {"503", "reset", "stall"}  # streams were not heard
    assert [f["back"] for f in drill.events("agent_back")] == [True, True]
    assert drill.written.index(("cell_planned", drill.events("cell_planned")[1])) < len(drill.written)


def test_what_the_drill_itself_asked_is_not_what_the_agent_speaks(drill: Drill) -> None:
    baseline(drill)
    drill.line("proxy.jsonl", event="attempt", dialect="plain", stream=False, trace=PROBE_TRACE + "0" * 16, start_ns=1)
    whole_walk(drill, drill.course("503"))
    assert {f["dialect"] for f in drill.events("cell_planned")} == {"openai_chat"}


def test_a_sick_baseline_leaves_all_cells_out_and_blames_nobody(drill: Drill) -> None:
    baseline(drill)
    drill.served(ok=False)
    assert next_of(drill.course(), drill) is None
    assert {f["why"] for f in drill.events("cell_not_run")} == {
        "the baseline was sick, with nothing injected: 1 of 6 failed (1 http 500)"
    }
    assert len(drill.events("cell_not_run")) == 2


def test_a_policys_share_may_fail_in_the_baseline(drill: Drill) -> None:
    baseline(drill)
    drill.served(ok=False)
    assert next_of(drill.course(share=0.2), drill) is not None


def test_an_agent_that_asked_for_nothing_has_no_cells(drill: Drill) -> None:
    drill.served(primary=False)
    assert next_of(drill.course(), drill) is None
    assert {f["why"] for f in drill.events("cell_left_out")} == {"the agent asked for nothing"}


def test_users_who_are_answered_are_not_enough_the_endpoint_must_be_asked_again(drill: Drill) -> None:
    course = after_one_cell(drill)
    drill.agent = lambda: drill.served(primary=False)  # its breaker is open
    assert next_of(course, drill) is None
    (back,) = drill.events("agent_back")
    assert back["back"] is False and "circuit breaker" in back["why"] and back["after_s"] >= 20
    assert [f["cell"] for f in drill.events("cell_not_run")] == ["w2"]
    assert "not back after 503" in drill.events("cell_not_run")[0]["why"]


def test_the_other_way_of_asking_does_not_show_that_this_one_is_back(drill: Drill) -> None:
    course = after_one_cell(drill)
    drill.agent = lambda: drill.served(stream=True)
    assert next_of(course, drill) is None


def test_a_breaker_that_closes_in_time_is_waited_for(drill: Drill) -> None:
    course = after_one_cell(drill)
    opened_ns = drill.now_ns
    drill.agent = lambda: drill.served(primary=drill.now_ns > opened_ns + 9 * S)
    assert next_of(course, drill) is not None
    (back,) = drill.events("agent_back")
    assert back["back"] is True and 9 < back["after_s"] <= 11


@pytest.mark.parametrize(
    ("answers", "after_s"),
    [
        ([True] * 8, 1),  # a recovery of eight seconds, and the first answer was good
        ([False] * 3 + [True] * 5, 4),
        ([True] * 4 + [False] + [True] * 3, 6),  # a relapse: before it the agent was not back
    ],
)
def test_the_agent_is_back_since_the_first_of_the_good_answers_and_not_since_the_last_few(
    drill: Drill, answers: list[bool], after_s: float
) -> None:
    course = after_one_cell(drill)
    for ok in answers:
        drill.clock.advance(1)
        drill.served(ok=ok)
    assert next_of(course, drill) is not None
    (back,) = drill.events("agent_back")
    assert (back["back"], back["after_s"]) == (True, after_s)


def test_users_who_still_fail_are_told_with_how(drill: Drill) -> None:
    course = after_one_cell(drill)
    drill.agent = lambda: drill.served(ok=False)
    assert next_of(course, drill) is None
    assert "its users still failed (500)" in drill.events("cell_not_run")[0]["why"]


def test_an_agent_of_the_drills_own_is_started_anew_when_its_process_has_ended(tmp_path: Path) -> None:
    drill = Drill(tmp_path / "run", worker=Worker(cmd=("agent",), ready_s=10))
    course = after_one_cell(drill)
    drill.worker_alive = False
    assert next_of(course, drill) is not None
    assert drill.restarts == 1
    assert drill.events("agent_restarted") == [{"cell": "w1", "why": "its process had ended by itself"}]
    assert drill.events("agent_back")[0]["back"] is False  # the cell's own record stays what it was


def test_an_agent_that_does_not_come_back_even_then_ends_the_matrix(tmp_path: Path) -> None:
    drill = Drill(tmp_path / "run", worker=Worker(cmd=("agent",), ready_s=10))
    course = after_one_cell(drill)
    drill.agent = lambda: drill.served(primary=False)
    assert next_of(course, drill) is None
    assert drill.restarts == 1
    assert "started anew, its users were answered" in drill.events("cell_not_run")[0]["why"]


def test_a_stop_meanwhile_says_nothing_of_the_agent(drill: Drill) -> None:
    course = after_one_cell(drill)

    def stopped() -> None:
        drill.state = State.STOPPING

    drill.agent = stopped
    assert next_of(course, drill) is None
    assert drill.events("agent_back") == drill.events("cell_not_run") == []


def test_a_stop_while_the_agent_is_started_anew_is_not_waited_out(tmp_path: Path) -> None:
    drill = Drill(tmp_path / "run", worker=Worker(cmd=("agent",), ready_s=10))
    course = after_one_cell(drill)
    drill.worker_alive = False
    drill.agent = lambda: drill.served(ok=False)

    def stopped() -> None:
        drill.state = State.STOPPING

    drill.during_restart = stopped
    before_ns = drill.now_ns
    assert next_of(course, drill) is None
    assert (drill.restarts, drill.now_ns) == (1, before_ns)
    assert drill.events("cell_not_run") == []  # what is left is named by the stop


def test_a_stop_that_comes_while_it_is_asked_what_was_spent_leaves_nothing_out(drill: Drill) -> None:
    baseline(drill)
    course = drill.course(time_limit_s=1)
    drill.state = State.STOPPING
    assert next_of(course, drill) is None
    assert drill.events("cell_not_run") == []


CAPPED = Target(
    url="http://127.0.0.1:1/", permit=Permit(host="h", owner="o", until="2199-01-01", max_per_s=1, max_requests=5)
)


@pytest.mark.parametrize(
    ("over", "time_limit_s", "requests", "why"),
    [
        ({}, 6.0, 0, "--time-limit 6 s has no room"),
        ({"spend": Spend(max_requests=20)}, None, 10, "spend.max_requests 20 has no room for another: 15 went"),
        ({"window": Window(start="2000-01-01T00:00:00Z", end="2000-01-01T01:00:00Z")}, None, 0, "the agreed window"),
        ({"target": CAPPED}, None, 0, "target.permit.max_requests 5"),
    ],
)
def test_what_there_is_no_room_for_is_named_and_not_run(
    tmp_path: Path, over: dict[str, Any], time_limit_s: float | None, requests: int, why: str
) -> None:
    drill = Drill(tmp_path / "run", **{name: value for name, value in over.items() if name != "target"})
    if "target" in over:
        drill.plan = msgspec.structs.replace(drill.plan, target=over["target"])
    baseline(drill)
    drill.counts["requests"] += requests
    assert next_of(drill.course(time_limit_s=time_limit_s), drill) is None
    assert [why in f["why"] for f in drill.events("cell_not_run")] == [True, True], drill.events("cell_not_run")


@pytest.mark.parametrize(
    ("counts", "purse", "why"),
    [
        ({"requests": 0, "met": 0}, 15, "15 went"),  # the proxy was replaced and counts anew, the purse does not
        ({"requests": 15, "met": 15}, 15, "15 went"),  # a fault met them all, and all of them still went up
        ({"requests": 15, "met": 15}, 0, None),  # nothing went up
    ],
)
def test_what_was_spent_is_what_the_purse_says(
    tmp_path: Path, counts: dict[str, int], purse: int, why: str | None
) -> None:
    drill = Drill(tmp_path / "run", spend=Spend(max_requests=40))
    baseline(drill)
    drill.proxy = {"counts": counts, "spent": {"requests": purse, "tokens": 0}}
    turn = next_of(drill.course(), drill)
    said = [f["why"] for f in drill.events("cell_not_run")]
    assert (turn is None) == (why is not None)
    assert all(why is not None and why in one for one in said)


def test_time_that_runs_out_later_keeps_the_cells_before(drill: Drill) -> None:
    for _ in range(2):
        baseline(drill)
    turns = whole_walk(drill, drill.course("503", "reset", "hang", time_limit_s=16))
    assert [t.fault for t in turns] == ["503", "reset"]
    assert [f["cell"] for f in drill.events("cell_not_run")] == ["w3"]


def test_an_api_that_is_seldom_asked_gets_a_longer_window_unless_the_plan_says_how_long(drill: Drill) -> None:
    baseline(drill)
    for _ in range(5):
        drill.served()
    drill.served(stream=True)
    turns = whole_walk(drill, drill.course("503"))
    # Ten whole and one streamed in ten seconds: seven requests a cell are due in 5 s and 5 s + 7 x 9 s, ten times 5 s at most.
    assert [turn.fault_s for turn in turns] == [5, 50]
    again = Drill(drill.folder.path.parent / "again", matrix=Matrix(window_s=5, back_within_s=20))
    baseline(again)
    again.served(stream=True)
    assert {turn.fault_s for turn in whole_walk(again, again.course("503"))} == {5}


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = Tail(path)
    assert list(tail.rows()) == []
    path.write_bytes(b'{"event":"a"}\nnot json\n[1]\n\n{"event":')
    assert [row["event"] for row in tail.rows()] == ["a"]
    path.write_bytes(path.read_bytes() + b'"b"}\n')
    assert [row["event"] for row in tail.rows()] == ["b"]
    assert list(tail.rows()) == []


# From a file to a plan with a matrix's times


def write_plan(folder: Path, **over: Any) -> Path:
    plan = {
        "kind": "plan", "drill": "eviction", "service": "toy", "target": {"url": "http://127.0.0.1:8000/"},
        "traffic": {"every_s": 5, "time_limit_s": 30}, "proxy": {"upstream": "http://127.0.0.1:9000"},
    }  # fmt: skip
    path = folder / "plan.yaml"
    path.write_text(json.dumps({name: value for name, value in (plan | over).items() if value is not None}))
    return path


def prepared(path: Path, *, compress: Any = None, **picked: Any) -> Any:
    options = Options(matrix=Picked(**picked), rehearsal=True, compress=compress)
    return prepare_matrix(path, options, wall_ns=1_796_000_000 * S)


def test_an_eviction_drills_plan_is_a_matrixs_with_short_times(tmp_path: Path) -> None:
    ready = prepared(write_plan(tmp_path))
    assert ready.plan.drill == "matrix"
    assert (ready.plan.phases.baseline_s, ready.plan.phases.fault_s, ready.plan.phases.recovery_s) == (60, 45, 15)
    assert ready.gate is None and ready.policy_path is None
    assert any("no policy" in warning for warning in ready.warnings)
    assert ready.plan.spend == Spend(max_requests=3 * (60 + 2 * 16 * 60) // 5 + 20)


def test_a_time_limit_that_holds_one_cell_is_taken(tmp_path: Path) -> None:
    assert prepared(write_plan(tmp_path), time_limit_s=120).wanted  # 60 s of baseline, 45 of the fault, 15 to recover


def test_compress_max_brings_requests_closer_and_leaves_patience(tmp_path: Path) -> None:
    ready = prepared(write_plan(tmp_path), compress="max")
    assert ready.plan.traffic.every_s == pytest.approx(5 / 30)
    assert ready.plan.traffic.time_limit_s == 30
    assert ready.plan.phases.fault_s == pytest.approx(10 + 7 * 5 / 30)
    assert "COMPRESSED 30x" in ready.stamps


@pytest.mark.parametrize(
    ("over", "picked", "where"),
    [
        ({"matrix": {"window_s": 6}}, {}, "/matrix/window_s"),
        ({"matrix": {"requests_per_cell": 0}}, {}, "/matrix/requests_per_cell"),
        ({"matrix": {"back_within_s": -1}}, {}, "/matrix/back_within_s"),
        ({"matrix": {"faults": ["no-such"]}}, {}, "plan.yaml: fault"),
        ({}, {"faults": ("no-such",)}, "--faults: fault"),
        ({}, {"groups": ("no-such",)}, "--group: group"),
        ({"policy": "no-such.yaml"}, {}, "no-such.yaml"),
        ({"target": {"url": "http://192.0.2.1/"}}, {}, "/target/url"),
        ({"matrix": {"fault": ["reset"]}}, {}, "fault"),  # a field that there is not
        # A matrix takes its times from others: what it starts from has to be sound all the same.
        ({"traffic": {"every_s": 0, "time_limit_s": 30}}, {}, "/traffic/every_s"),
        ({"traffic": {"every_s": -5, "time_limit_s": 30}}, {}, "/traffic/every_s"),
        ({"traffic": {"every_s": 1e-9, "time_limit_s": 30}}, {}, "/traffic/every_s"),
        ({"traffic": {"every_s": 5, "time_limit_s": -3}}, {}, "/traffic/time_limit_s"),
        ({"phases": {"baseline_s": -5, "fault_s": 900, "recovery_s": 300}}, {}, "/phases/baseline_s"),
        ({"phases": {"baseline_s": 600, "fault_s": 0, "recovery_s": 300}}, {}, "/phases/fault_s"),
        ({"matrix": {"window_s": 1e300}}, {}, "/matrix/window_s"),
        ({"matrix": {"baseline_s": 1e308}}, {}, "/matrix/baseline_s"),
        ({"matrix": {"recovery_s": 1e308}}, {}, "/matrix/recovery_s"),
        ({"matrix": {"back_within_s": 1e308}}, {}, "/matrix/back_within_s"),
        # What is known to hold no cell is refused before the agent is asked for anything.
        ({}, {"time_limit_s": 100}, "--time-limit"),
        ({}, {"time_limit_s": 0}, "--time-limit"),
    ],
)
def test_a_matrix_that_makes_no_sense_is_refused_by_its_place(
    tmp_path: Path, over: dict[str, Any], picked: dict[str, Any], where: str
) -> None:
    with pytest.raises(Problem) as refused:
        prepared(write_plan(tmp_path, **over), **picked)
    assert where in str(refused.value)
