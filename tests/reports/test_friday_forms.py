"""Card and page of a Friday drill: what stands on them, and what nothing in the evidence can do to them."""

import re
from typing import Any

import msgspec
import pytest

from drillmaster.fridays import CUT, FAILED, OK, UNSENT, Friday
from drillmaster.gates._cases.matrix import ROWS, good, matrix
from drillmaster.judge import judge
from drillmaster.reports import form
from drillmaster.reports._friday_view import FridayView, friday_view
from drillmaster.reports.friday_card import MAX_LINES
from drillmaster.reports.html import MAX_BYTES
from drillmaster.rules.alerts import Alert
from drillmaster.verdict import Verdict

GOOD = good()
HOSTILE = "<script>alert(1)</script>|`x`\n# y \x1b[31m‮"


def judged(seen: Friday) -> Verdict:
    return judge(
        matrix(), seen, name="matrix", subject="x", pin=None, policy_digest="", evidence_digest="", evidence_end_ns=0,
        counts={}, now_ns=0, version="0",
    )  # fmt: skip


def shown(seen: Friday = GOOD, **over: Any) -> tuple[Verdict, FridayView]:
    verdict = judged(seen)
    seats = {"lead": "Ana", "scribe": "Ben", "verifier": "Chen"}
    view = friday_view(
        seen, verdict, ROWS, seats=seats, owners={"default": "Ana"}, gate_command="drillmaster gate matrix R"
    )
    return verdict, msgspec.structs.replace(view, **over)


def card(*args: Any) -> str:
    return str(form("friday_card").render(*(args or shown())))


def page(*args: Any) -> str:
    return str(form("friday_html").render(*(args or shown())))


def with_missions(**columns: Any) -> Friday:
    return msgspec.structs.replace(GOOD, missions=msgspec.structs.replace(GOOD.missions, **columns))


def test_every_row_stands_on_both_with_its_target_and_status() -> None:
    for row in ROWS:
        (line,) = [one for one in card().splitlines() if one.startswith(f"| {row.name} |")]
        assert line.endswith("| PASS |")
        assert row.name in page()


def test_figures_of_a_window_are_of_all_its_missions() -> None:
    _, view = shown()
    by_name = {one.name: one for one in view.stretches}
    whole = by_name["all"]
    assert whole.missions == GOOD.missions.n
    assert sum(by_name[name].missions for name in ("baseline", "chaos", "recovery")) == whole.missions


def test_what_was_held_is_counted_second_by_second() -> None:
    rest = GOOD.missions.n - 2
    begin_s, _ = GOOD.load_span or (0.0, 0.0)
    never = [float("nan")] * rest
    seen = with_missions(
        sent_s=[begin_s, begin_s + 0.5, *never],
        end_s=[begin_s + 2.0, begin_s + 1.25, *never],
        result=[OK, OK, *[UNSENT] * rest],
    )
    _, view = shown(seen)
    assert list(view.held[:4]) == pytest.approx([1.5, 1.25, 0.0, 0.0])


def test_missions_that_failed_have_no_latency_and_cut_ones_have_at_least_one() -> None:
    results = [*GOOD.missions.result]
    results[0], results[1] = FAILED, CUT
    _, view = shown(with_missions(result=results))
    assert view.dots[0].took_s is None
    assert view.dots[1].took_s is not None
    assert "failed (1)" in page(*shown(with_missions(result=results)))


def test_a_broken_row_comes_first_and_has_a_follow_up() -> None:
    verdict, view = shown(with_missions(end_s=[at + 9 for at in GOOD.missions.due_s]))
    assert verdict.status != "pass"
    text = page(verdict, view)
    tiles = re.findall(r'<span class="name">([^<]+)</span>', text)
    broken = [row.name for row in view.rows if row.status != "pass"]
    assert tiles[: len(broken)] == broken
    assert len(tiles) == len(view.rows)
    failed = next(row.name for row in view.rows if row.status == "fail")
    assert f"- follow-up: {failed}: Ana" in card(verdict, view)


def test_a_run_without_alerts_or_transcripts_says_so() -> None:
    seen = msgspec.structs.replace(GOOD, alerts=(), acks=(), census=None)
    verdict, view = shown(seen)
    assert "- alerts: none after the injection" in card(verdict, view)
    assert "None was received." in page(verdict, view)
    assert 'id="sample"' not in page(verdict, view)


def test_a_worker_saw_the_flags_so_long_after_the_injection_and_not_after_the_start() -> None:
    injected_s = GOOD.chaos[0].injected_s
    assert injected_s > 1
    first = msgspec.structs.replace(GOOD.sights[0], seen_s=injected_s + 0.25)
    _, view = shown(msgspec.structs.replace(GOOD, sights=(first, msgspec.structs.replace(first, seen_s=None))))
    assert [after for _, after, _ in view.workers] == ["0.25 s", "never"]


def test_a_load_that_was_not_held_is_told_apart_from_a_probe_that_did_not_run() -> None:
    verdict, view = shown(msgspec.structs.replace(GOOD, held=msgspec.structs.replace(GOOD.held, mean=[0.5] * 300)))
    text = card(verdict, view)
    assert "nothing: its load was not held" in text
    assert "shorter ramp_s" in page(verdict, view)
    assert "its probe did not run" not in text


def test_a_stopped_run_is_headed_partial() -> None:
    seen = msgspec.structs.replace(GOOD, ended="aborted", ended_why="SIGTERM: somebody ended the drill")
    assert "This run is partial" in page(*shown(seen))
    assert "This run is partial" not in page()


def test_nothing_in_the_evidence_is_markup() -> None:
    alert = Alert(at_ns=10**9, receiver=HOSTILE, rule=HOSTILE, severity=HOSTILE)
    seen = msgspec.structs.replace(GOOD, alerts=(*GOOD.alerts, *[alert] * 60), service=HOSTILE)
    verdict, view = shown(seen, seats={"lead": HOSTILE}, owners={"default": HOSTILE})
    text = page(verdict, view)
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert len(re.findall(r"<script", text)) == 1  # the machine form
    assert "\x1b" not in card(verdict, view)
    assert not re.search(r"(?<!\\)<script", card(verdict, view))  # escaped, it is text in every Markdown


def test_both_have_their_bound_whatever_was_measured() -> None:
    many = 40_000
    missions = msgspec.structs.replace(
        GOOD.missions,
        ids=[f"m{at}" for at in range(many)],
        flow=[0] * many,
        websocket=[0] * many,
        due_s=[at / 100 for at in range(many)],
        sent_s=[at / 100 for at in range(many)],
        end_s=[at / 100 + (at % 7) for at in range(many)],
        thought_s=[0.0] * many,
        result=[at % 4 for at in range(many)],
        steps=[1] * many,
        line=list(range(many)),
    )
    verdict, view = shown(msgspec.structs.replace(GOOD, missions=missions))
    rows = view.rows * 30
    view = msgspec.structs.replace(view, rows=rows)
    assert len(card(verdict, view).splitlines()) <= MAX_LINES
    text = page(verdict, msgspec.structs.replace(view, rows=view.rows[:6]))
    assert len(text.encode()) <= MAX_BYTES
    assert "of 40000 missions are drawn" in text
