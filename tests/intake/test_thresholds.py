"""Who changed thresholds last, against who ran the interview: refused, stamped, or told."""

from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.intake.change import LastChange
from drillmaster.intake.thresholds import AFTER, UNCOMMITTED, apart, kept, kept_text

ADA, BEA, CEM = "Ada <ada@example.com>", "Bea <bea@example.com>", "Cem <cem@example.com>"


def change(*authors: str, **more: object) -> LastChange:
    return LastChange(commit="0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c", authors=authors, **more)  # type: ignore[arg-type]  # fields of it


def told(
    given: LastChange | None, *, driver: str = "Ada", reader: str = "Bea", rehearsal: bool = False
) -> tuple[str, ...]:
    check, stamps = apart(given, driver=driver, reader=reader, rehearsal=rehearsal, name="gate.json")
    assert (check.id, check.role) == ("thresholds-apart", "admission")
    assert bool(check.why) is bool(check.remedy) is (check.status == "refused")
    return (check.status, *stamps)


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        (change(ADA), "Ada"),
        (change(ADA), "  aDA "),
        (change(ADA), "ada@example.com"),
        (change(ADA), "Ada <ada@example.com>"),
        (change(BEA, ADA), "Ada"),  # written together
        (change(ADA, when="before"), "Ada"),
        (change(ADA, when="after"), "Ada"),
        (change(ADA, when="same", alone=True), "Ada"),
        (change("Ädä <a@example.com>"), "ÄDÄ"),
        (change(CEM, when="same", alone=False), "Ada"),  # in the commit that was run, with its plan
        (change(CEM, when="same", alone=False), ""),
    ],
)
def test_thresholds_of_the_driver_or_of_the_commit_that_was_run_are_refused(given: LastChange, driver: str) -> None:
    assert told(given, driver=driver)[0] == "refused"


@pytest.mark.parametrize(
    ("given", "stamps"),
    [
        (None, ()),  # git does not say
        (change(BEA), ()),
        (change(CEM, when="before", alone=False), ()),  # a long time ago, with anything
        (change(CEM, when="same"), ()),  # a commit of nothing else
        (change(BEA, when="same", alone=False), ()),  # the Reader's own
        (change(CEM, BEA, when="same", alone=False), ()),
        (change("Adam <adam@example.com>"), ()),  # no Ada
        (LastChange(commit=None), (UNCOMMITTED,)),
        (change(BEA, when="after"), (AFTER,)),
        (change(CEM, when="after", alone=False), (AFTER,)),
    ],
)
def test_thresholds_of_somebody_else_pass_and_what_is_odd_is_stamped(
    given: LastChange, stamps: tuple[str, ...]
) -> None:
    assert told(given) == ("pass", *stamps)


@pytest.mark.parametrize("given", [change(ADA), change(CEM, when="same", alone=False)])
def test_in_a_rehearsal_one_person_may_be_all_of_them(given: LastChange) -> None:
    assert told(given, rehearsal=True) == ("pass",)


def test_without_a_named_driver_nobody_is_him() -> None:
    assert told(change(ADA), driver="") == ("pass",)


def test_what_git_said_is_kept_as_it_was(tmp_path: Path) -> None:
    for given in (None, LastChange(commit=None), change(ADA, BEA, when="same", alone=False)):
        path = tmp_path / "gate.json.git.json"
        path.write_bytes(kept_text(given))
        assert kept(path) == given


@pytest.mark.parametrize(
    "text", ["", "null", "{}", '{"last_change": {"commit": null, "when": "never"}}', '{"last_change": 1}']
)
def test_what_was_kept_and_edited_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gate.json.git.json"
    path.write_text(text)
    with pytest.raises(Problem):
        kept(path)
