"""`drillmaster init guards`: a file for any guard of the catalogue, with every limit a blank."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster import strict
from drillmaster.cli import main
from drillmaster.errors import Problem
from drillmaster.guards import names
from drillmaster.intake.guards_fields import fields_of
from drillmaster.intake.guards_files import decode_guards, kind_of
from drillmaster.scaffold import blanks, fill
from drillmaster.scaffold.guards_file import guards_template


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(argv=["init", "guards", *words])
    said = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return code, said.out, said.err


@pytest.mark.parametrize("tag", names())
def test_of_any_guard_each_limit_that_has_to_be_given_is_a_blank(tag: str) -> None:
    text = guards_template([tag])
    wanted = {f"/guards/0/{field.name}" for field in fields_of(kind_of(tag).guard) if field.needed}
    assert set(blanks(text)) == wanted | {"/source", "/owner", "/reviewers", "/review_by"}
    assert strict.load(text.encode(), place="x", fmt="yaml")["guards"][0]["guard"] == tag
    assert max(map(len, text.splitlines())) <= 132
    with pytest.raises(Problem, match=f"{len(wanted) + 4} blanks"):
        decode_guards(text.encode(), place="x", fmt="yaml")


def test_the_examples_of_the_template_make_a_file_that_can_be_used() -> None:
    text = guards_template(["quota", "retry"])
    examples: dict[str, Any] = {
        pointer: strict.load(f"v: {example}".encode(), place="x", fmt="yaml")["v"]
        for pointer, example in blanks(text).items()
    }
    guards = decode_guards(fill(text, examples).encode(), place="x", fmt="yaml")
    assert list(guards.entries) == ["quota", "retry"]
    for lines in ("    #also:", "    #hold_ms"):  # what is commented out holds as well
        assert lines in text
    more = fill(text, examples)
    for line in more.splitlines():
        if (line.startswith("    #") and not line.startswith("    # ")) or line.startswith("    #  - {"):
            more = more.replace(line, line.replace("#", "", 1))
    whole = decode_guards(more.encode(), place="x", fmt="yaml")
    assert len(whole.entries["quota"].also) == 2
    assert whole.entries["retry"].hold_ms == 60_000


def test_a_field_that_may_be_left_out_stands_there_with_what_that_means() -> None:
    text = guards_template(["webhook"])
    for field in fields_of(kind_of("webhook").guard):
        if not field.needed:
            assert f"    #{field.name}: {field.default}" in text


def test_it_writes_once_and_says_what_is_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--guard", "quota", "--dir", str(tmp_path))
    assert code == 0
    assert "9 blanks to fill in" in out
    assert "drillmaster guard check" in out
    assert "quota counts in a store" in out
    (tmp_path / "guards.yaml").write_text("mine: true\n")
    told = json.loads(run(capsys, "--guard", "retry", "--dir", str(tmp_path), "--json")[1])
    assert told["kept"] == [str(tmp_path / "guards.yaml")]
    assert (tmp_path / "guards.yaml").read_text() == "mine: true\n"


def test_a_guard_that_there_is_not_is_named_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "--guard", "qouta", "--dir", str(tmp_path))
    assert (code, "did you mean quota?" in err) == (2, True)
    assert not list(tmp_path.iterdir())


class Limits(msgspec.Struct):
    one: int
    """How many."""
    two: str = "x"


def test_a_field_is_told_in_words() -> None:
    first, second = fields_of(Limits)
    assert (first.type, first.needed, first.said) == ("integer", True, "How many.")
    assert (second.type, second.needed, second.default) == ("string", False, '"x"')
