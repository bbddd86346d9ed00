"""A fault that slows the primary and alters nothing: who is served by it was served by the primary."""

from typing import Any

from drillmaster.verdict import Exact
from tests.scene import Answer, Scene, judged


def slowed(*, intact: bool, terminal: bool = True, ms: float = 25, fault_ms: float = 25, **more: Any) -> Scene:
    """Every user is answered in time, and behind each answer lies an attempt that the fault touched."""
    scene = Scene(lambda n, s, on: Answer(fault_ms if on else ms), mode="throttle", marks=False, **more)
    for row in scene.rows:
        if row.event == "attempt" and row.fields["window"] == "w1":
            row.fields.update(status=200, end="clean", terminal=terminal, upstream=True, intact=intact)
    return scene


def test_a_primary_that_is_slow_and_whole_is_no_fallback_and_needs_none() -> None:
    run = slowed(intact=True).run()
    assert {request.outcome for request in run.during(run.windows[0])} == {"ok_primary"}
    status, checks, _ = judged(run)
    assert (status, checks["fallback"].status) == ("pass", "pass")
    assert "no fallback was needed" in checks["fallback"].title
    assert "not rehearsed" in checks["fallback"].why


def test_one_user_whom_the_slow_primary_lost_needs_a_fallback_that_did_not_come() -> None:
    scene = slowed(intact=True)
    ends = (r for r in scene.rows if r.event == "user_request" and r.fields["phase"] == "end")
    lost = next(r for r in ends if r.fields["ns"] > scene.inject_ns)
    lost.fields.update(status=504, answer=None)
    status, checks, _ = judged(scene.run())
    assert (status, checks["fallback"].status) == ("fail", "fail")


def test_an_answer_behind_which_lies_an_altered_one_came_from_a_fallback() -> None:
    for scene in (slowed(intact=False), slowed(intact=True, terminal=False)):
        run = scene.run()
        assert {request.outcome for request in run.during(run.windows[0])} == {"ok_fallback"}


def test_users_whom_a_slow_primary_kept_longer_than_a_fallback_may_take_were_not_spared() -> None:
    """All are answered, and well: seven seconds later than usual, where a fallback has five."""
    status, checks, _ = judged(slowed(intact=True, fault_ms=7_025, time_limit_s=30))
    assert (status, checks["fallback"].status) == ("fail", "fail")
    status, checks, _ = judged(slowed(intact=True, ms=6_000, fault_ms=9_000, time_limit_s=30), max_recovery_s=10)
    assert (status, checks["fallback"].status) == ("pass", "pass")
    assert checks["fallback"].observed == Exact(3.0, n=51)


def test_users_who_hung_until_the_lift_and_were_answered_then_were_not_spared() -> None:
    """One met the fault and was served at once; the others waited for its end."""

    def behave(n: int, since_s: float, on: bool) -> Answer:
        return Answer((60 - since_s) * 1e3 + 10 if on and n > 20 else 25)

    scene = Scene(behave, mode="hang", marks=False, time_limit_s=90)
    for row in scene.rows:
        if row.event == "attempt" and row.fields["window"] == "w1":
            row.fields.update(status=200, end="clean", terminal=True, upstream=True, intact=True)
    status, checks, _ = judged(scene)
    assert (status, checks["fallback"].status) == ("fail", "fail")
