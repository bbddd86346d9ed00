"""A fault that slows the primary and alters nothing: who is served by it was served by the primary."""

from tests.scene import Answer, Scene, judged


def slowed(*, intact: bool, terminal: bool = True) -> Scene:
    """Every user is answered in time, and behind each answer lies an attempt that the fault touched."""
    scene = Scene(lambda n, s, on: Answer(25), mode="throttle", marks=False)
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
