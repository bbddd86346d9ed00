"""The stand-in that acts: what it makes of a mission, when its alarm goes, and what each mistake is."""

import asyncio
from typing import Any

import pytest

from drillmaster.adapters.worker import chaos, transcript
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.standins.concierge import CONCIERGE_BUGS, Alarm, Concierge, Pace, Reply, concierge_class

QUICK = Pace(first_model_s=0, second_model_s=0, tool_s=0, tool_limit_s=5)


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("CHAOS_URL", "DRILL_LOG", "DRILL_TRANSCRIPTS"):
        monkeypatch.delenv(name, raising=False)
    yield
    chaos.stop()


def served(asked: dict[str, Any], agent: Concierge | None = None) -> Reply:
    agent = agent or Concierge(QUICK, ManualClock())
    return asyncio.run(agent.serve(asked, transcript.mission(""), "m1"))


def mission(content: str, **metadata: Any) -> dict[str, Any]:
    return {"user_id": "u", "history": [{"role": "user", "content": content}], "metadata": metadata}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (mission("Money back for #1234"), "refunded"),
        (mission("I want $5000 back for #1234"), "needs approval"),
        (mission("I want $20 back for #1234", force_refund_limit=True), "needs approval"),
        (mission("I want $20 back for #1234", force_refund_limit="true"), "refunded"),  # text is no true
    ],
)
def test_a_mission_is_answered_with_its_order(asked: dict[str, Any], status: str) -> None:
    code, reply = served(asked)
    assert (code, reply["status"], reply["order"]) == (200, status, "1234")
    assert "1234" in reply["answer"]


@pytest.mark.parametrize(
    "asked",
    [{}, {"user_id": "u"}, {"user_id": "u", "history": []}, {"user_id": 1, "history": [{"content": "x"}]},
     {"user_id": "u", "history": [{"content": 5}]}, {"user_id": "u", "history": [{"content": "x"}], "metadata": 1}],
)  # fmt: skip
def test_what_is_no_mission_is_a_400(asked: dict[str, Any]) -> None:
    assert served(asked)[0] == 400


class _Broken(Concierge):
    """A tool that returns these, one after another."""

    results: Any = ()

    async def _pay(self, order: str, amount: int) -> dict[str, Any]:
        found = next(self.results)
        if isinstance(found, Exception):
            raise found
        return {"order": order, "amount": amount, "state": "paid", **found}


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([TimeoutError(), {}], "refunded"),  # the second try recovers
        ([{"amount": 80}, {}], "refunded"),  # a wrong amount is no answer
        ([{"order": "9"}, {"amount": 1}, TimeoutError()], "handed over"),  # three tries, and a person has it
        ([chaos.Killed("refund is killed")], "paused"),  # not tried again
    ],
)
def test_a_tool_that_fails_is_tried_again_unless_it_was_killed(results: list[Any], status: str) -> None:
    agent = _Broken(QUICK, ManualClock())
    agent.results = iter(results)
    assert served(mission("Money back for #77"), agent)[1]["status"] == status
    assert next(agent.results, None) is None


def test_the_alarm_goes_by_share_and_number_and_ends_again() -> None:
    clock = ManualClock()
    alarm = Alarm(clock, severity="sev2", span_s=5, least=20, share=0.1)
    for _ in range(19):
        alarm.count(well=False)
    assert alarm.look() is None  # too few to say
    alarm.count(well=False)
    assert alarm.look() is True
    assert alarm.look() is None  # told once
    clock.advance(6)
    assert alarm.look() is False
    for at in range(100):
        alarm.count(well=at % 10 != 0)
    assert alarm.look() is None  # one in ten is not over it


def test_each_mistake_is_one_and_says_what_it_is() -> None:
    assert concierge_class(None) is Concierge
    for name, kind in CONCIERGE_BUGS.items():
        assert concierge_class(name) is kind
        assert len((kind.__doc__ or "").split()) > 5
        changed = [field for field in vars(kind) if not field.startswith("__")]
        assert len(changed) == 1, (name, changed)
    with pytest.raises(Problem, match="no-retry"):
        concierge_class("no-retri")


def test_every_fiftieth_mission_of_the_forgetful_one_leaves_nothing() -> None:
    agent = CONCIERGE_BUGS["lost-transcripts"](QUICK, ManualClock())
    assert [agent.records() for _ in range(100)].count(False) == 2
    assert all(Concierge(QUICK, ManualClock()).records() for _ in range(100))
