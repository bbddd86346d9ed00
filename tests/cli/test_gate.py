"""`drillmaster gate` from the command line: which words are a command line of it."""

from pathlib import Path

import pytest

from drillmaster import cli

GOLDEN = Path(__file__).parents[1] / "golden" / "interview"
PASS, FAIL, GATE = str(GOLDEN / "pass.json"), str(GOLDEN / "fail.json"), str(GOLDEN / "gate.json")


def _ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["gate", "interview", *words, "--now", "2026-12-01T00:00:00Z"])
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err


@pytest.mark.parametrize(("file", "code"), [(PASS, 0), (FAIL, 1)])
def test_thresholds_are_taken_as_the_second_word_or_by_name_and_come_to_the_same(
    file: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    by_place = _ran(capsys, file, GATE, "--unsealed")
    assert by_place[0] == code
    assert "UNSEALED" in by_place[1]
    assert _ran(capsys, file, "--unsealed", "--policy", GATE) == by_place


@pytest.mark.parametrize(
    ("words", "found", "remedy"),
    [
        ((PASS, GATE, "--unsealed", "--policy", GATE), "thresholds twice", "drop one of the two"),
        ((PASS, "--unsealed"), "no thresholds", f"gate interview {PASS} gate.json --unsealed"),
        ((), "no file", "gate interview interview.json gate.json --unsealed"),
        (
            (PASS, "no.json", "--unsealed"),
            'thresholds such as {"warm_c1"',
            "fill in the form of: drillmaster init interview",
        ),
        ((PASS, GATE), "one file that anybody can have written", f"gate interview {PASS} {GATE} --unsealed"),
    ],
)
def test_a_command_line_that_cannot_be_judged_gets_the_one_that_can(
    words: tuple[str, ...], found: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = _ran(capsys, *words)
    assert (code, out) == (2, "")
    assert found in said and remedy in said


def test_last_months_interview_is_refused_by_thresholds_that_say_how_old_it_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.interviewed import POLICY, sealed

    run = sealed(tmp_path / "runs")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("cold_max_s: 2", "cold_max_s: 2\n    max_age_s: 86400"))
    words = ("gate", "interview", str(run), "--policy", str(policy), "--no-record", "--now")
    codes = {}
    for day in ("2026-12-01T12:00:00Z", "2026-12-30T12:00:00Z"):
        with pytest.raises(SystemExit) as ended:
            cli.main(argv=[*words, day])
        codes[day[:10]] = (ended.value.code, "the interview is at most 24 h old" in capsys.readouterr().out)
    assert codes == {"2026-12-01": (0, True), "2026-12-30": (2, True)}
