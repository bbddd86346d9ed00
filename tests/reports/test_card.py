import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from drillmaster import reports
from drillmaster.reports._view import PreflightView
from drillmaster.reports.card import MAX_LINES, owner, render
from drillmaster.reports.text import check_line
from drillmaster.verdict import Check, Verdict, conclude
from tests.reports import cases

PASSING = cases.frozen("pass")
FIELDS = ("# Eviction", "Budget:", "Roles:", "Rules:", "Pre-flight", "Run", "Verdict", "Gate output:")


def _replaced(name: str, **changes: object) -> str:
    verdict, view = cases.frozen(name)
    return render(verdict, replace(view, **changes))


def _verdict(checks: list[Check]) -> Verdict:
    return replace(PASSING[0], checks=tuple(checks), status=conclude(checks))


texts = st.text(max_size=60)
all_checks = st.lists(
    st.builds(
        Check,
        id=st.text(max_size=9),
        role=st.sampled_from(["admission", "judgement"]),
        status=st.sampled_from(["pass", "fail", "refused"]),
        title=texts,
        why=texts,
    ),
    max_size=60,
)


def test_the_command_of_a_drill_by_rules_names_no_mode_since_no_flag_gives_rules() -> None:
    case = cases.CASES["pass"]()
    assert case.manifest is not None
    plan = {**case.manifest.plan, "fault": {"rules": [{"mode": "503"}, {"mode": "reset"}]}}
    ruled = replace(case, manifest=replace(case.manifest, plan=plan, fault={"tag": "503 + reset"}))
    assert " --mode reset" in cases.both(case)[1].proxy_command
    assert cases.both(ruled)[1].proxy_command == cases.both(case)[1].proxy_command.replace(" --mode reset", "")


@settings(max_examples=150)
@given(all_checks, texts, texts, texts, st.floats(0, 1e9))
@example([], "\x1b[2J\n# Forged", "\u2028", "](x)<script>", 1e9)
def test_it_never_has_more_than_45_lines_whatever_is_in_it(
    checks: list[Check], service: str, budget: str, name: str, span_s: float
) -> None:
    old = PASSING[1]
    view = replace(
        PASSING[1],
        service=service * 4,
        budget=budget * 9,
        seats={"lead": name * 3},
        owners={"default": name},
        mode=name,
        drill=f"eviction {service}",
        date=name,
        stamps=(name,) * 20,
        issues=budget,
        proxy_command=service,
        model_base_url=budget,
        gate_command=name * 50,
        drill_log=service,
        every_s=span_s,
        phases=tuple(replace(p, name=p.name + name, end_s=p.start_s + span_s) for p in old.phases),
        windows=tuple(replace(w, fault=service * 9, injected_at=name, lifted_s=span_s) for w in old.windows) * 3,
        preflight=tuple(replace(p, by=name * 9, at=service) for p in old.preflight),
        notes=tuple(replace(n, text=name, by=service, at=budget) for n in old.notes),
    )
    card = render(_verdict(checks), view)
    assert len(card.splitlines()) <= MAX_LINES == 45
    assert [field for field in FIELDS if not re.search(f"^{re.escape(field)}", card, re.MULTILINE)] == []


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 30))
def test_while_it_fits_no_line_that_did_not_pass_is_left_out(failed: int, refused: int, passed: int) -> None:
    counts = {"fail": failed, "refused": refused, "pass": passed}
    checks = [
        Check(id=f"{status}{n}", role="judgement", status=status, title=f"{status} {n}")  # type: ignore[arg-type]
        for status, many in counts.items()
        for n in range(many)
    ]
    lines = render(_verdict(checks), PASSING[1]).splitlines()
    assert [check_line(check) for check in checks if check.status != "pass" and check_line(check) not in lines] == []
    shown = sum(bool(re.fullmatch(r"PASS pass \d+", line)) for line in lines)
    counted = next((int(m[1]) for line in lines if (m := re.match(r"PASS (\d+) checks more", line))), 0)
    assert shown + counted == passed


def test_what_does_not_fit_is_counted_and_said_where_it_is() -> None:
    checks = [Check(id=f"c{n}", role="judgement", status="fail", title=f"t{n}") for n in range(60)]
    lines = render(_verdict(checks), PASSING[1]).splitlines()
    shown = sum(line.startswith("FAIL t") for line in lines)
    assert f"... {60 - shown} FAIL, 0 REFUSED and 0 PASS lines more, in verdict.json" in lines
    assert any("60 issues, 60 of them OPEN" in line for line in lines)


def test_nothing_looked_at_is_no_empty_output() -> None:
    card = render(_verdict([]), PASSING[1])
    assert "REFUSED nothing was looked at" in card


def test_a_pass_of_the_whole_gate_is_there_line_by_line() -> None:
    verdict, view = PASSING
    lines = render(verdict, view).splitlines()
    start = lines.index("Gate output:")
    assert lines[start + 1] == lines[-1] == "```"
    assert lines[start + 2 : -2] == [check_line(check) for check in verdict.checks]
    assert "- [x] gate output below, verbatim" in lines


def test_the_output_cannot_end_its_own_fence() -> None:
    check = Check(id="c", role="judgement", status="fail", title="``` and ```` more")
    lines = render(_verdict([check]), PASSING[1]).splitlines()
    assert lines[-1] == "`````"
    assert lines.count("`````") == 2


@pytest.mark.parametrize("line", ["quiet_window_agreed", "on_call_told", "status_note_drafted"])
@pytest.mark.parametrize("change", [{"by": ""}, {"at": ""}, {"status": "pass"}, None])
def test_the_human_line_is_ticked_only_when_all_of_it_is_attested_by_name_and_time(
    line: str, change: dict[str, str] | None
) -> None:
    _, view = PASSING
    preflight = tuple(
        replace(p, **change) if change and p.check == line else p for p in view.preflight if change or p.check != line
    )
    card = _replaced("pass", preflight=preflight)
    assert re.search(r"^- \[ \] quiet window agreed .*not attested", card, re.MULTILINE)


def test_the_human_line_names_who_said_so_and_when() -> None:
    line = "- [x] quiet window agreed (Ana, 07:30Z), on-call told (Ben, 07:31Z), status note drafted (Ana, 07:32Z)"
    assert line in render(*PASSING).splitlines()


def test_a_machine_line_is_not_ticked_by_hand() -> None:
    attested = PreflightView(check="timeline_writable", status="attested", by="Ana", at="2026-11-30T07:00:00Z")
    assert "- [ ] DRILL_LOG agreed" in _replaced("pass", preflight=(attested,))


def test_without_an_upstream_there_is_no_baseline_to_tick() -> None:
    assert "- [ ] baseline recorded with the real endpoint (none)" in _replaced("pass", upstream=None)


def test_a_fault_that_was_not_lifted_or_not_gone_is_not_ticked() -> None:
    (window,) = PASSING[1].windows
    for change, said in (({"lifted_s": None}, "never lifted"), ({"gone": False}, "it was not gone")):
        card = _replaced("pass", windows=(replace(window, **change),))
        assert re.search(rf"^- \[ \] .*{said}", card, re.MULTILINE)
    assert "- [ ] no fault was injected" in _replaced("pass", windows=())


def test_a_failed_line_without_an_owner_is_open_and_the_box_stays_empty() -> None:
    lines = render(*cases.frozen("fail")).splitlines()
    not_written = "- [ ] one follow-up issue per FAIL line, each with an owner: not written yet"
    assert f"{not_written} (drillmaster card RUN --issues DIR)" in lines
    assert "- [ ] one follow-up issue per FAIL line; an OPEN one has no owner: in `wiki`" in _replaced(
        "fail", issues="wiki"
    )
    assert "  - fallback: Dana" in lines
    assert "  - failed: OPEN" in lines


@pytest.mark.parametrize(
    ("owners", "wanted"),
    [
        ({}, None),
        ({"fallback": ""}, None),
        ({"default": "Ana"}, "Ana"),
        ({"default": "Ana", "fallback": "Dana"}, "Dana"),
    ],
)
def test_the_owner_is_the_checks_own_or_the_default(owners: dict[str, str], wanted: str | None) -> None:
    assert owner("fallback", owners) == wanted


def test_the_box_of_the_issues_is_ticked_once_they_are_written_and_owned() -> None:
    card = _replaced("fail", issues="wiki/issues", owners={"default": "Ana"})
    assert "- [x] one follow-up issue per FAIL line, each with an owner: in `wiki/issues`" in card.splitlines()
    assert "- [ ] one follow-up" in _replaced("fail", owners={"default": "Ana"})
    assert "- [x] one follow-up issue per FAIL line, each with an owner: no FAIL line" in render(*PASSING)


def test_stamps_are_in_the_heading() -> None:
    heading = render(*cases.frozen("rehearsal")).splitlines()[0]
    assert heading == "# Eviction Drill - support-agent - 2026-11-30 [REHEARSAL, DEMO, COMPRESSED 30x]"


def test_names_cannot_add_markup_or_call_people() -> None:
    card = render(*cases.frozen("hostile"))
    outside = card.partition("Gate output:")[0]
    outside = re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)  # code spans show what they hold as it is
    assert not re.search(r"(?<!\\)<", outside)
    assert not re.search(r"(?<!\\)!?(?<!\\)\[(?![x ]\])", outside.replace(" [REHEARSAL", ""))
    assert not re.search(r"(?<![\w.])@\w", outside)
    assert "\x1b" not in card and "\u202e" not in card


@pytest.mark.parametrize("name", cases.CASES)
def test_lines_can_be_read_out(name: str) -> None:
    if name != "hostile":
        own = render(*cases.frozen(name)).partition("Gate output:")[0].splitlines()
        assert max(map(len, own)) <= 112


@pytest.mark.parametrize("name", cases.CASES)
def test_golden_cases(name: str) -> None:
    assert render(*cases.frozen(name)) == (cases.GOLDEN / name / "card.md").read_text(encoding="utf-8")


def test_a_drill_by_rules_says_on_paper_whom_it_met() -> None:
    verdict, view = cases.frozen("fail")
    rules = tuple(f"r{n}: reset for model large-{n}, the first 10, met {n}" for n in range(1, 6))
    window = replace(view.windows[0], fault="reset", rules=rules)
    ruled = replace(view, windows=(window,))
    card = " ".join(render(verdict, ruled).split())
    assert "of reset by rules (r1: reset for model large-1, the first 10, met 1; r2: reset for model" in card
    assert len(render(verdict, ruled).splitlines()) <= MAX_LINES
    assert "by rules (r1: reset for model large-1" in next(iter(reports.form("issues").render(verdict, ruled).values()))
    page = reports.form("html").render(verdict, ruled)
    assert all(f"<dd>{rule}</dd>" in page for rule in rules)


def test_the_parameters_of_a_fault_stand_on_paper() -> None:
    verdict, view = cases.frozen("fail")
    window = replace(view.windows[0], said="rate-limit (retry_after_s 2)")
    said = replace(view, windows=(window,))
    assert "of rate-limit (retry_after_s 2), acted on" in " ".join(render(verdict, said).split())
    assert "<dd>rate-limit (retry_after_s 2)</dd>" in reports.form("html").render(verdict, said)
