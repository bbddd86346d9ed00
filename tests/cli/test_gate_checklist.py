"""`drillmaster gate checklist`: a person is asked what no machine can know, by every gate."""

import pytest

from drillmaster import cli
from drillmaster.gates import names
from drillmaster.gates._asks import asks, shared


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["gate", "checklist", *words])
    return int(ended.value.code or 0), capsys.readouterr().out


@pytest.mark.parametrize("gate", names())
def test_each_question_of_the_gate_and_of_all_gates_is_a_box_with_its_reason(
    gate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = [line for line in (*asks(gate).line, *shared().line) if line.question]
    code, said = ran(capsys, gate)
    assert code == 0
    assert said.count("- [ ] ") == len(questions) >= 3
    assert all(line.question in said and line.why in said for line in questions)


def test_the_table_has_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = ran(capsys, "contract", "--table")
    assert code == 0
    assert all(line.text in said for line in (*asks("contract").line, *shared().line))


def test_a_gate_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, "contracts")[0] == 2
