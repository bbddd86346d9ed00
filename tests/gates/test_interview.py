"""The interview gate: the article's files as they are, and on every input that its script passed in error the right word."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.gates.interview import InterviewGate
from drillmaster.intake.interviews import judge_interview_file, open_interview_file, read_thresholds, with_breaches
from drillmaster.interviews import TIMES, Calls, Interview, Level
from drillmaster.judge import judge
from drillmaster.reports import form
from drillmaster.verdict import Check, Verdict

GOLDEN = Path(__file__).parents[1] / "golden" / "interview"
NOW_NS = parse_rfc3339("2026-12-01T00:00:00Z") or 0
GATE = {
    "warm_c1": {"p95_s": 20, "error_rate": 0.0},
    "warm_c4": {"p95_s": 35, "error_rate": 0.05},
    "warm_c8": {"p95_s": 60, "error_rate": 0.10},
    "cold_max_s": 90,
}


def row(label: str, p95: float = 4.0, errors: float = 0.0, **over: Any) -> dict[str, Any]:
    n = 1 if label == "cold" else 10
    return {"label": label, "n": n, "p50_s": min(3.0, p95), "p95_s": p95, "max_s": p95, "error_rate": errors, **over}


def told(*rows: dict[str, Any], levels: str = "1,4,8", **more: Any) -> dict[str, Any]:
    usual = (row("cold"), row("warm_c1"), row("warm_c4"), row("warm_c8"))
    return {"url": "http://host/v1/chat", "levels": levels, "results": list(rows or usual), **more}


def verdict_of(folder: Path, said: Any, gate: Any = GATE) -> Verdict:
    for name, content in (("interview.json", said), ("gate.json", gate)):
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    thresholds = read_thresholds(folder / "gate.json")
    return judge_interview_file(open_interview_file(folder / "interview.json"), thresholds, now_ns=NOW_NS)


def by_id(verdict: Verdict) -> dict[str, Check]:
    return {check.id: check for check in verdict.checks}


# What was kept


def golden_text(name: str) -> str:
    thresholds = read_thresholds(GOLDEN / "gate.json")
    verdict = judge_interview_file(open_interview_file(GOLDEN / f"{name}.json"), thresholds, now_ns=NOW_NS)
    assert verdict.status == name
    text: str = form("text").render(verdict, colour=False)
    return text


@pytest.mark.parametrize("name", ["pass", "fail", "refused"])
def test_a_kept_interview_gets_the_verdict_that_was_kept_with_it(name: str) -> None:
    assert golden_text(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


# What a row of ours says beside


def test_calls_made_again_on_a_kept_connection_are_counted_and_change_no_verdict(tmp_path: Path) -> None:
    rows = (row("cold"), row("warm_c1", made_again=2), row("warm_c4", made_again=1), row("warm_c8"))
    verdict = verdict_of(tmp_path, told(*rows))
    assert verdict.status == "pass"
    assert verdict.counts == {"levels": 4, "calls": 31, "calls made again on a kept connection": 3}


@pytest.mark.parametrize("made_again", [-1, 1.5, "2", True])
def test_a_number_of_calls_made_again_that_is_none_is_refused(tmp_path: Path, made_again: Any) -> None:
    with pytest.raises(Problem, match="made_again"):
        verdict_of(tmp_path, told(row("cold"), row("warm_c1", made_again=made_again), row("warm_c4"), row("warm_c8")))


# The article's words


def test_a_clean_interview_says_that_nothing_is_breached_and_what_ten_calls_support(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, told())
    assert (verdict.status, int(verdict.exit)) == ("pass", 0)
    assert verdict.headline[-1] == "BREACH: none"
    assert "59 calls would do for 95 %" in by_id(verdict)["warm_c1.p95"].title
    assert "25.9 %" in by_id(verdict)["warm_c1.errors"].title
    assert verdict.stamps == ("UNSEALED", "UNPROVEN", "UNDATED", "AGE AND TARGET NOT CHECKED", "UNPINNED")


def test_a_breach_is_said_part_by_part(tmp_path: Path) -> None:
    verdict = verdict_of(
        tmp_path, told(row("cold", 91.0), row("warm_c1", 25.0), row("warm_c4", 4, 0.1), row("warm_c8"))
    )
    assert verdict.status == "fail"
    assert verdict.headline[-1] == "BREACH: cold 91s; warm_c1 p95 25s; warm_c4 errors 0.1"


def test_equal_to_its_cap_passes(tmp_path: Path) -> None:
    equal = told(row("cold", 90), row("warm_c1", 20), row("warm_c4", 35), row("warm_c8", 60, 0.1))
    assert verdict_of(tmp_path, equal).status == "pass"


def test_a_url_is_shown_without_user_info_and_query(tmp_path: Path) -> None:
    shown = form("text").render(
        verdict_of(tmp_path, told() | {"url": "http://u:secret@host:81/v1?key=hidden"}), colour=False
    )
    assert "http://host:81/v1" in shown
    assert not re.search("secret|hidden", shown)


# What its script passed in error

REFUSED: dict[str, tuple[Any, Any]] = {
    "a level without a threshold": (told(row("cold"), row("warm_c1"), row("warm_c4"), row("warm_c16", 9999, 1.0)), GATE),
    "a level in another spelling": (told(row("cold"), row("Warm_c1"), row("warm_c4"), row("warm_c8")), GATE),
    "a level with a leading zero": (told(row("cold"), row("warm_c01"), row("warm_c4"), row("warm_c8")), GATE),
    "no rows": (told() | {"results": []}, GATE),
    "rows that are an object": (told() | {"results": {}}, GATE),
    "no limits": (told(), {}),
    "no limits but the cold one": (told(), {"cold_max_s": 90}),
    "a signed level that never ran": (told(row("cold"), row("warm_c1"), row("warm_c4"), levels="1,4"), GATE),
    "a declared level that is not there": (told(row("cold"), row("warm_c1")), {k: GATE[k] for k in ("warm_c1", "cold_max_s")}),
    "no cold row": (told(row("warm_c1"), row("warm_c4"), row("warm_c8")), GATE),
    "only a cold row": (told(row("cold")), GATE),
    "p50 over p95": (told(row("cold"), row("warm_c1", p50_s=5.0), row("warm_c4"), row("warm_c8")), GATE),
    "p95 over max": (told(row("cold"), row("warm_c1", max_s=1.0), row("warm_c4"), row("warm_c8")), GATE),
    "one level twice": (told(row("cold"), row("warm_c1"), row("warm_c1"), row("warm_c4"), row("warm_c8"), levels="1,1,4,8"), GATE),
    "a time limit under its caps": (told(time_limit_s=60.0), GATE),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_and_nothing_is_called_breached_or_not(tmp_path: Path, case: str) -> None:
    said, gate = REFUSED[case]
    try:
        verdict = verdict_of(tmp_path, said, gate)
    except Problem:
        return
    assert verdict.status == "refused"
    assert verdict.headline[-1].startswith("REFUSED: ")
    assert "BREACH" not in form("text").render(verdict, colour=False)
    assert all(check.remedy for check in verdict.checks if check.status == "refused")


UNREADABLE: dict[str, tuple[Any, Any]] = {
    "NaN": (json.dumps(told(row("cold"), row("warm_c1", float("nan")))), GATE),
    "p95 true": (told(row("cold"), row("warm_c1", p95_s=True)), GATE),
    "p95 null": (told(row("cold"), row("warm_c1", p95_s=None)), GATE),
    "negative": (told(row("cold"), row("warm_c1", p50_s=-1.0)), GATE),
    "n of 0": (told(row("cold"), row("warm_c1", n=0)), GATE),
    "no n": (told({k: v for k, v in row("cold").items() if k != "n"}), GATE),
    "errors of 5": (told(row("cold"), row("warm_c1", errors=5.0)), GATE),
    "half a failure": (told(row("cold"), row("warm_c1", errors=0.25)), GATE),
    "results null": (told() | {"results": None}, GATE),
    "truncated": (json.dumps(told())[:-9], GATE),
    "empty": ("", GATE),
    "a byte order mark": ("\ufeff" + json.dumps(told()), GATE),
    "levels 1,x": (told(levels="1,x"), GATE),
    "levels 1,0": (told(levels="1,0"), GATE),
    "a field twice": (json.dumps(told()).replace('"n": 10', '"n": 10, "n": 10', 1), GATE),
    "an unknown field": (told(surprise=1), GATE),
    "cap NaN": (told(), json.dumps(GATE).replace("20", "NaN", 1)),
    "cap 1e999": (told(), json.dumps(GATE).replace("20", "1e999", 1)),
    "cap of text": (told(), {**GATE, "warm_c1": {"p95_s": "20", "error_rate": 0.0}}),
    "cap true": (told(), {**GATE, "warm_c1": {"p95_s": 20, "error_rate": True}}),
    "cap of percent": (told(), {**GATE, "warm_c1": {"p95_s": 20, "error_rate": 5}}),
    "cap of everything": (told(), {**GATE, "warm_c1": {"p95_s": 20, "error_rate": 1}}),
    "cap of 0 s": (told(), {**GATE, "cold_max_s": 0}),
    "half a cap": (told(), {**GATE, "warm_c1": {"p95_s": 20}}),
    "a level twice": (told(), json.dumps(GATE)[:-1] + ', "warm_c1": {"p95_s": 99999, "error_rate": 0.9}}'),
    "thresholds and interview swapped": (GATE, told()),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_says_nothing_is_refused_with_its_place(tmp_path: Path, case: str) -> None:
    said, gate = UNREADABLE[case]
    with pytest.raises(Problem) as refused:
        verdict_of(tmp_path, said, gate)
    assert re.search(r"(interview|gate)\.json", refused.value.place)
    assert refused.value.remedy


def test_a_cold_call_that_was_refused_at_once_fails(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, told(row("cold", 0.001, 1.0), row("warm_c1"), row("warm_c4"), row("warm_c8")))
    assert verdict.status == "fail"
    assert verdict.headline[-1].startswith("BREACH: cold ")


WORDS = st.sampled_from(["url", "levels", "results", "label", "n", "p95_s", "warm_c1", "cold_max_s", "error_rate"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=4) | st.dictionaries(WORDS, one, max_size=5), max_leaves=12
)


@given(VALUES)
def test_no_value_of_any_shape_passes_or_breaks_it(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    for said, gate in ((value, GATE), (told(), value)):
        with pytest.raises(Problem):
            verdict_of(folder, said, gate)


# The pin beside the thresholds


def test_a_pin_names_an_owner_and_holds_for_these_bytes_alone(tmp_path: Path) -> None:
    import hashlib

    text = json.dumps(GATE)
    pin = tmp_path / "gate.json.pin.yaml"
    digest = hashlib.sha256(text.encode()).hexdigest()
    pin.write_text(f"source: runbook 12\nowner: Ana Ruiz\nreview_by: 2027-01-31\nsha256: {digest}\n")
    verdict = verdict_of(tmp_path, told(), text)
    assert "UNPINNED" not in verdict.stamps
    assert "Ana Ruiz" in by_id(verdict)["policy"].title
    with pytest.raises(Problem, match=r"pin\.yaml"):
        verdict_of(tmp_path, told(), text.replace("60", "6000"))
    pin.write_text(f"source: runbook 12\nowner: Ana Ruiz\nreview_by: 2026-01-31\nsha256: {digest}\n")
    assert verdict_of(tmp_path, told(), text).status == "refused"


# Raw samples, and the bound


def level(label: str, ok: list[float], *, cut: tuple[float, ...] = (), failed: int = 0, **more: Any) -> Level:
    kinds = {"timeout": len(cut)} if cut else {}
    if failed:
        kinds["http_5xx"] = failed
    return Level(
        label=label,
        kind="cold" if label == "cold" else "closed",
        n=len(ok) + len(cut) + failed,
        failed=kinds,
        ok_s=tuple(ok),
        cut_s=cut,
        **more,
    )


def raw(*levels: Level, decide: str = "observed", **limits: Any) -> Verdict:
    """Judge levels by the same limits for each; `block_s` is the gate's."""
    gate_limits = {"block_s": limits.pop("block_s")} if "block_s" in limits else {}
    limits = limits or {"p95_s": 2.0, "error_rate": 0.1}
    said = {
        "gate": "interview", "decide": decide, "cold_max_s": 30, **gate_limits,
        "levels": {one.label: limits for one in levels if one.label != "cold"},
    }  # fmt: skip
    gate = strict.as_type(said, InterviewGate, place="policy.yaml", path=())
    labels = tuple(one.label for one in levels)
    interview = Interview(name="run", url="http://x", declared=labels, levels=levels, time_limit_s=60)
    verdict = judge(
        gate, interview, name="interview", subject="", pin=None, policy_digest="", evidence_digest="", evidence_end_ns=0,
        counts={}, now_ns=NOW_NS, version="0",
    )  # fmt: skip
    return with_breaches(verdict, gate, interview)


COLD = level("cold", [3.0])


def timed(
    label: str,
    took: list[float],
    *,
    every_s: float = 1.0,
    kinds: dict[int, str] | None = None,
    kind: str = "closed",
    times: dict[str, list[float]] | None = None,
    **more: Any,
) -> Level:
    """A level with its calls, one each `every_s`. Negative: cut after so long; `kinds`: of failures, by place."""
    failed, kinds = Counter((kinds or {}).values()), kinds or {}
    outcome = [2 if at in kinds else 1 if one < 0 else 0 for at, one in enumerate(took)]
    due = [at * every_s for at in range(len(took))]
    columns: dict[str, list[float]] = {name: [math.nan] * len(took) for name in TIMES}
    columns |= {"latency": [math.nan if at in kinds else one for at, one in enumerate(took)], **(times or {})}
    calls = Calls(
        due_s=due,
        end_s=[at + abs(one) for at, one in zip(due, took, strict=True)],
        outcome=outcome,
        kind=[kinds.get(at, "timeout" if one < 0 else "") for at, one in enumerate(took)],
        times=columns,
        tokens=more.pop("tokens", [10] * len(took)),
        attempts=more.pop("attempts", [1] * len(took)),
        gaps_s=more.pop("gaps_s", ()),
        gap_at_s=more.pop("gap_at_s", ()),
    )
    cut = tuple(-one for one in took if one < 0)
    return Level(
        label=label, kind=kind, n=len(took), failed=failed + Counter({"timeout": len(cut)}), cut_s=cut, calls=calls,  # type: ignore[arg-type]
        ok_s=tuple(one for at, one in enumerate(took) if one >= 0 and at not in kinds), **more,
    )  # fmt: skip


def test_a_policy_that_decides_on_the_bound_refuses_too_few_and_fails_what_the_bound_breaks() -> None:
    def of(*took: float, every_s: float = 5.0) -> Verdict:
        return raw(COLD, timed("warm_c1", [*took], every_s=every_s), decide="bound", block_s=5, p95_s=2.0)

    few = of(*[1.0] * 10)
    assert few.status == "refused"
    assert by_id(few)["warm_c1.p95"].remedy == (
        "make 59 calls at this level or more, and let this level run for 295 s or longer, with a call in each block: "
        "--seconds 440 --warm 200, or seconds: 440 and warm: 200 in the plan (the most calls that it makes in that time)"
    )
    assert of(*[1.0] * 59).status == "pass"
    tail = [1.0] * 57 + [1.5, 3.0]  # p95 is 1.0, and no more can be said than that it is at most 3.0
    assert raw(COLD, timed("warm_c1", tail)).status == "pass"
    over = of(*tail)
    assert over.status == "fail"
    assert "95 % sure only of 3 s" in by_id(over)["warm_c1.p95"].title


def test_many_calls_in_a_short_time_bound_nothing() -> None:
    level = timed("warm_c1", [1.0] * 1_000, every_s=0.01)
    verdict = raw(COLD, level, decide="bound", block_s=5, p95_s=2.0)
    check = by_id(verdict)["warm_c1.p95"]
    assert (verdict.status, check.remedy) == (
        "refused", "let this level run for 295 s or longer, with a call in each block: --seconds 295 --warm 60000, or "
        "seconds: 295 and warm: 60000 in the plan (the most calls that it makes in that time)",
    )  # fmt: skip
    assert "so short a time bounds nothing" in check.title
    batch = raw(COLD, timed("drain", [1.0] * 100, every_s=0.0, kind="drain"), decide="bound", block_s=5, p95_s=2.0)
    assert by_id(batch)["drain.p95"].remedy.startswith("sign drain_s or max_s")
    by_clock = raw(COLD, timed("open_r9", [1.0] * 100, every_s=0.1, kind="open"), decide="bound", block_s=5, p95_s=2.0)
    assert by_id(by_clock)["open_r9.p95"].remedy.endswith(
        "with a call in each block: a longer --open, or seconds of that stage"
    )


def test_calls_that_are_rarer_than_blocks_take_longer_to_bound_anything() -> None:
    level = timed("warm_c1", [6.0] * 49, every_s=6.0)  # 295 s of them, and ten blocks without one
    remedy = by_id(raw(COLD, level, decide="bound", block_s=5, p95_s=20.0))["warm_c1.p95"].remedy
    assert "--seconds 570 --warm 200, or seconds: 570 and warm: 200 in the plan" in remedy
    longer = timed("warm_c1", [6.0] * 95, every_s=6.0)
    assert raw(COLD, longer, decide="bound", block_s=5, p95_s=20.0).status == "pass"


def test_the_larger_of_both_bounds_decides() -> None:
    # Two of a hundred blocks are slow: calls by the thousand hide it, blocks do not.
    level = timed("warm_c1", [9.0 if at // 12 in (10, 61) else 1.0 for at in range(1_200)], every_s=5 / 12)
    assert raw(COLD, level, p95_s=2.0).status == "pass"
    assert raw(COLD, level, decide="bound", block_s=5, p95_s=2.0).status == "fail"
    calm = timed("warm_c1", [1.0] * 1_200, every_s=5 / 12)
    assert raw(COLD, calm, decide="bound", block_s=5, p95_s=2.0).status == "pass"


def gate_of(**said: Any) -> InterviewGate:
    return strict.as_type({"gate": "interview", "cold_max_s": 30, **said}, InterviewGate, place="policy.yaml", path=())


def test_a_gate_says_before_any_load_what_its_bounds_take() -> None:
    levels = {
        "warm_c1": {"p95_s": 2, "max_s": 9},
        "warm_c4": {"ttft_p99_s": 1, "error_rate": 0.01},
        "warm_c8": {"max_s": 9},
    }
    assert gate_of(decide="bound", block_s=5, levels=levels).wants() == {
        "warm_c1": (59, 295.0), "warm_c4": (299, 1_495.0), "warm_c8": (0, 0.0),
    }  # fmt: skip
    assert gate_of(decide="observed", levels=levels).wants() == {}


def test_what_will_be_refused_whatever_comes_of_it_is_known_before_any_load() -> None:
    gate = gate_of(decide="observed", levels={"warm_c1": {"p95_s": 60}, "warm_c4": {"p95_s": 2}})
    found = gate.foreseen(("cold", "warm_c1", "warm_c8"), 60.0)
    assert [check.id for check in found] == ["complete", "time-limit"]
    assert "no threshold for warm_c8" in found[0].why
    assert "warm_c4 has a threshold and was not run" in found[0].why
    assert gate.foreseen(("cold", "warm_c1", "warm_c4"), 61.0) == []


def test_a_bound_needs_to_be_told_how_long_a_stall_is() -> None:
    with pytest.raises(Problem, match="a line `block_s: 5` beside `decide: bound`"):
        raw(COLD, timed("warm_c1", [1.0] * 100), decide="bound", p95_s=2.0)


def test_a_bound_among_cut_calls_fails_and_their_quantile_is_at_least() -> None:
    cut = timed("warm_c1", [1.0] * 580 + [-60.0] * 20, every_s=1.0)
    verdict = raw(COLD, cut, decide="bound", block_s=5, p95_s=2.0)
    assert verdict.status == "fail"
    assert "what cut calls would have taken" in by_id(verdict)["warm_c1.p95"].title
    assert raw(COLD, cut, p95_s=2.0).status == "pass"


def test_a_call_that_was_cut_took_at_least_so_long_and_is_no_latency() -> None:
    settled = raw(COLD, level("warm_c1", [1.0] * 99, cut=(60.0,)))
    assert settled.status == "pass"
    open_end = raw(COLD, level("warm_c1", [1.0] * 9, cut=(1.5,)))
    assert open_end.status == "refused"
    assert "longer --timeout" in by_id(open_end)["warm_c1.p95"].remedy
    over = raw(COLD, level("warm_c1", [1.0] * 9, cut=(3.0,)))
    assert over.status == "fail"


def test_failures_lower_no_latency_and_count_against_their_own_limit() -> None:
    verdict = raw(COLD, level("warm_c1", [3.0] * 20, failed=180))
    checks = by_id(verdict)
    assert (checks["warm_c1.p95"].status, checks["warm_c1.errors"].status) == ("fail", "fail")
    assert "180 http_5xx" in checks["warm_c1.errors"].why
    nobody = raw(COLD, level("warm_c1", [], failed=10))
    assert by_id(nobody)["warm_c1.p95"].status == "refused"
    assert nobody.status == "fail"


def test_a_level_that_the_client_could_not_hold_is_void_and_refused() -> None:
    verdict = raw(COLD, level("warm_c64", [1.0] * 100, void=("10 of 64 in flight",)))
    assert verdict.status == "refused"
    assert "10 of 64 in flight" in by_id(verdict)["warm_c64.usable"].why


@pytest.mark.parametrize(
    ("why", "end_s", "remedy"),
    [
        ("it was stopped before its end, after 1 of 9 calls", 0.5, "run the interview again, to its end"),
        ("6.46 calls were in flight on average, and 8 were to be", 0.001, "last longer than 0.001 s, .*: --seconds 5"),
        ("6.46 calls were in flight on average, and 8 were to be", 10.0, "from a machine with room to spare"),
    ],
)
def test_a_void_level_is_mended_by_what_made_it_void(why: str, end_s: float, remedy: str) -> None:
    calls = Calls(due_s=(0.0,), end_s=(end_s,), outcome=(0,), kind=("",), times={}, tokens=(-1,), attempts=(1,))
    refused = by_id(raw(COLD, level("warm_c8", [0.001], void=(why,), calls=calls)))["warm_c8.usable"]
    assert re.search(remedy, refused.remedy)


def test_thresholds_for_the_cold_call_alone_are_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="for the cold call alone"):
        verdict_of(tmp_path, told(), {"cold_max_s": 90})


def test_of_a_run_that_was_stopped_the_levels_are_not_to_blame() -> None:
    limits = {"warm_c1": {"p95_s": 2}, "warm_c4": {"p95_s": 2}}
    said = {"gate": "interview", "decide": "observed", "cold_max_s": 30, "levels": limits}
    gate = strict.as_type(said, InterviewGate, place="policy.yaml", path=())
    levels = (COLD, level("warm_c1", [1.0]))
    for declared, remedy in ((("cold", *limits), "again, to its end"), (("cold", "warm_c1"), "levels that are signed")):
        stopped = Interview(name="r", url="http://x", declared=declared, levels=levels)
        (complete,) = [check for check in gate.checks(stopped) if check.id == "complete"]
        assert remedy in complete.remedy


@pytest.mark.parametrize(("idle_s", "status"), [(120.0, "pass"), (119.0, "refused"), (None, "refused")])
def test_a_call_is_cold_after_as_long_a_silence_as_the_policy_says(idle_s: float | None, status: str) -> None:
    limits = {"decide": "observed", "cold_max_s": 30, "levels": {"warm_c1": {"p95_s": 2}}, "min_idle_s": 120}
    gate = strict.as_type({"gate": "interview", **limits}, InterviewGate, place="policy.yaml", path=())
    levels = (COLD, level("warm_c1", [1.0] * 10))
    interview = Interview(name="r", url="http://x", declared=("cold", "warm_c1"), levels=levels, idle_s=idle_s)
    checks = {check.id: check for check in gate.checks(interview)}
    assert checks["idle"].status == status
    assert status == "pass" or checks["idle"].remedy == "run the interview again with --idle 120"


# Who reads


@pytest.mark.parametrize(
    "reader, authors, status",
    [
        ("Bea", ("Ada <ada@example.invalid>",), "pass"),
        ("Bea", ("Ada <ada@example.invalid>", "Bea <b@example.invalid>"), "refused"),
        ("bea  Ä.", ("Bea ä. <b@example.invalid>",), "refused"),  # case and spacing
        ("b@example.invalid", ("Bea <B@Example.invalid>",), "refused"),
        ("Bea", ("Beatrice <b@example.invalid>",), "pass"),
        ("Bea", None, "pass"),  # no git: told, and not held against anybody
        ("", ("Ada <ada@example.invalid>",), None),
    ],
)
def test_the_reader_wrote_nothing_of_what_was_run(
    reader: str, authors: tuple[str, ...] | None, status: str | None
) -> None:
    gate = InterviewGate(decide="observed", cold_max_s=2, levels={"warm_c1": {"p95_s": 1}})  # type: ignore[dict-item]
    interview = Interview(name="r", url="http://host/", declared=(), levels=(), reader=reader, authors=authors)
    checks = {check.id: check for check in gate.checks(interview)}
    found = checks.get("reader")
    assert (found.status if found else None) == status
    if authors is None:
        assert found is not None and "git does not say" in found.title


if __name__ == "__main__":
    for case in ("pass", "fail", "refused"):
        (GOLDEN / f"{case}.txt").write_text(golden_text(case), encoding="utf-8")


@pytest.mark.parametrize(
    ("limits", "kinds", "status"),
    [
        ({"p95_s": 2.0}, {0: "http_500"}, "refused"),
        ({"p95_s": 2.0}, dict.fromkeys(range(99), "http_500"), "refused"),
        ({"p95_s": 2.0, "max_tokens": 10_000, "min_calls_per_s": 0.001}, {0: "http_500"}, "refused"),
        ({"p95_s": 2.0, "error_rates": {"http_429": 0.5}}, {0: "http_429", 1: "reset"}, "refused"),
        ({"p95_s": 2.0, "goodput": {"slo": {"latency_s": 2}, "min_per_s": 0.001}}, {0: "http_500"}, "refused"),
        # Somebody said how many may fail, or nobody failed.
        ({"p95_s": 2.0}, {}, "pass"),
        ({"p95_s": 2.0, "error_rate": 0.5}, {0: "http_500"}, "pass"),
        ({"p95_s": 2.0, "error_rates": {"http_4xx": 0.5, "reset": 0.5}}, {0: "http_429", 1: "reset"}, "pass"),
        ({"p95_s": 2.0, "goodput": {"slo": {"latency_s": 2}, "min_ratio": 0.5}}, {0: "http_500"}, "pass"),
        ({"p95_s": 2.0, "apdex": {"t_s": 2, "min_score": 0.5}}, {0: "http_500"}, "pass"),
        # What is over its limit is over it, whatever nobody limited.
        ({"p95_s": 0.5}, {0: "http_500"}, "fail"),
    ],
)
def test_failures_that_nobody_limited_are_not_passed_over(
    limits: dict[str, Any], kinds: dict[int, str], status: str
) -> None:
    verdict = raw(COLD, timed("warm_c1", [1.0] * 100, kinds=kinds), **limits)
    assert verdict.status == status
    assert ("warm_c1.failures" in by_id(verdict)) == (status != "pass")


def test_failures_that_nobody_limited_are_named() -> None:
    verdict = raw(COLD, timed("warm_c1", [1.0] * 9, kinds={0: "http_500", 3: "reset"}), p95_s=2.0)
    check = by_id(verdict)["warm_c1.failures"]
    assert check.why == "1 http_500, 1 reset: they are in no latency, and no limit says how many may fail"
    assert check.remedy == "sign an error_rate for warm_c1"


def test_both_bounds_stand_beside_what_was_observed_and_the_larger_is_said_to_decide() -> None:
    level = timed("warm_c1", [9.0 if at // 12 in (10, 61) else 1.0 for at in range(1_200)], every_s=5 / 12)
    said = by_id(raw(COLD, level, decide="bound", block_s=5, p95_s=2.0))["warm_c1.p95"].title
    assert said.endswith("; 95 % sure only of 1 s by calls and of 9 s by blocks of 5 s, which decides)")
    seen = by_id(raw(COLD, level, decide="observed", block_s=5, p95_s=2.0))["warm_c1.p95"]
    assert seen.status == "pass"  # what was observed decides, and the bounds are told
    assert seen.title.endswith("; 95 % sure only of 1 s by calls and of 9 s by blocks of 5 s)")
    calm = timed("warm_c1", [1.0] * 1_200, every_s=5 / 12)
    assert "95 % sure only of 1 s, by calls and by blocks of 5 s alike)" in (
        by_id(raw(COLD, calm, decide="bound", block_s=5, p95_s=2.0))["warm_c1.p95"].title
    )
    short = timed("warm_c1", [1.0] * 1_000, every_s=0.01)
    assert "95 % sure only of 1 s by calls, and by blocks of 5 s so short a time bounds nothing, 295 s would do" in (
        by_id(raw(COLD, short, decide="observed", block_s=5, p95_s=2.0))["warm_c1.p95"].title
    )


@pytest.mark.parametrize(
    ("cold", "status"),
    [(row("cold", 60.0, 1.0), "fail"), (row("cold"), "refused")],  # a hung call that was cut, and one that was answered
)
def test_a_time_limit_under_its_caps_passes_nothing_and_hides_no_failure(
    tmp_path: Path, cold: dict[str, Any], status: str
) -> None:
    said = told(cold, row("warm_c1"), row("warm_c4"), row("warm_c8"), time_limit_s=60.0)
    verdict = verdict_of(tmp_path, said)
    assert verdict.status == status
    assert by_id(verdict)["time-limit"].status == "refused"
    assert verdict.headline[-1].startswith({"fail": "BREACH: cold", "refused": "REFUSED: time-limit"}[status])
