"""Drill debt: what is owed, why a pass no longer counts, and what is refused."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.debt import DebtFile, Line, Then, check_file, differences, named_in, owed
from drillmaster.errors import Problem, Refused
from drillmaster.history import Entry, open_history
from drillmaster.intake.lockfiles import versions_of
from tests.fridays.paper import MATRIX

NOW = "2026-12-01T08:00:00Z"
NOW_NS = parse_rfc3339(NOW) or 0
OLD, NEW = "a" * 40, "b" * 40
HELD = Then(
    lockfiles={"uv.lock": "1"},
    packages={"openai of uv.lock": ("1.2",)},
    models={"c.yaml: /m": '"m-1"'},
    path={"f.py": "x"},
)


def file(**more: Any) -> DebtFile:
    fields: dict[str, Any] = {
        "kind": "drill-debt", "version": 1, "source": "runbooks/fallback.md", "owner": "sre", "review_by": "2027-02-28",
        "service": "shop", "max_age_days": 30, "faults": ("reset",),
    }  # fmt: skip
    return DebtFile(**(fields | more))


def run(day: str, what: str = "pass", item: str = "fault/reset", **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "run": f"{day.replace('-', '')}T120000Z-0001", "drill": "eviction", "name": "shop", "target": "", "status": what,
        "ended_at": f"{day}T12:00:00.000000Z", "evidence_digest": "sha256:" + "a" * 64, "proved": {item: what},
        "commit": OLD, "clean": True,
    }  # fmt: skip
    return Entry(**(fields | more))


def told(runs: list[Entry], said: DebtFile | None = None, **more: Any) -> Line:
    (line,) = owed(said or file(), runs, now_ns=NOW_NS, now=NOW, **more).lines
    return line


@pytest.mark.parametrize(
    "runs, state, why",
    [
        ([], "never", "never drilled"),
        ([run("2026-11-20", "refused")], "never", "1 run of it, each refused"),
        ([run("2026-11-20", "fail")], "failed", "and never passed"),
        ([run("2026-11-20"), run("2026-11-21", "fail")], "failed", "after it had passed"),
        ([run("2026-11-20", "fail"), run("2026-11-21")], "paid", ""),
        ([run("2026-11-20"), run("2026-11-21", "refused")], "paid", ""),  # it says nothing
        ([run("2026-10-20")], "expired", "passed 41 days ago, and a pass holds 30"),
        ([run("2026-11-20", stamps=("REHEARSAL",))], "never", "worth less: 20261120T120000Z-0001 is REHEARSAL"),
        ([run("2026-11-20", name="other")], "never", "never drilled"),
        ([run("2026-11-20", item="fault/hang")], "never", "never drilled"),
        ([run("2027-11-20")], "expired", "no time that has passed"),
    ],
)
def test_what_is_owed_and_why(runs: list[Entry], state: str, why: str) -> None:
    line = told(runs)
    assert (line.state, why in "; ".join(line.why)) == (state, True)
    assert bool(line.pay) == (state != "paid")


def test_the_last_day_of_a_pass_still_counts() -> None:
    assert told([run("2026-11-01")]).state == "paid"
    assert told([run("2026-11-01")]).expires_on == "2026-12-01"
    assert told([run("2026-10-31")]).state == "expired"


@pytest.mark.parametrize(
    "change, why",
    [
        ({"lockfiles": {"uv.lock": "2"}}, "the lock file uv.lock changed"),
        ({"packages": {"openai of uv.lock": ("1.3",)}}, "openai of uv.lock went from 1.3 to 1.2"),
        ({"packages": {"openai of uv.lock": None}}, "openai of uv.lock went from nothing to 1.2"),
        ({"models": {"c.yaml: /m": '"m-0"'}}, 'went from "m-0" to "m-1"'),
        ({"path": {"f.py": "y"}}, "the fallback path changed: f.py"),
        ({"path": {"f.py": "x", "gone.py": "x"}}, "the fallback path changed: gone.py"),
        ({"path": {}}, "the fallback path changed: f.py"),
    ],
)
def test_a_change_of_what_passed_ends_the_pass(change: dict[str, Any], why: str) -> None:
    then = msgspec.structs.replace(HELD, **change)
    line = told([run("2026-11-20")], today=HELD, at=lambda commit: then if commit == OLD else None)
    assert line.state == "expired"
    assert why in "; ".join(line.why)
    assert differences(HELD, HELD) == []
    assert told([run("2026-11-20")], today=HELD, at=lambda commit: HELD).state == "paid"


@pytest.mark.parametrize(
    "more, why",
    [
        ({"commit": ""}, "recorded no commit"),
        ({"clean": False}, "with changes beside commit"),
        ({"commit": NEW}, "is not in this clone"),
    ],
)
def test_a_pass_of_nobody_knows_what_pays_nothing_where_a_change_would_count(more: dict[str, Any], why: str) -> None:
    line = told([run("2026-11-20", **more)], today=HELD, at=lambda commit: HELD if commit == OLD else None)
    assert line.state == "expired"
    assert why in line.why[0]
    assert told([run("2026-11-20", **more)]).state == "paid"  # the file names nothing that a commit holds


def test_an_earlier_pass_that_still_counts_pays_though_a_later_one_does_not() -> None:
    runs = [run("2026-11-20"), run("2026-11-21", clean=False)]
    assert told(runs, today=HELD, at=lambda commit: HELD).run == runs[0].run


def test_a_stamp_counts_where_the_file_takes_it() -> None:
    assert told([run("2026-11-20", stamps=("REHEARSAL",))], file(stamps=("REHEARSAL",))).state == "paid"


def test_what_pays_is_the_command_for_that_kind_of_thing() -> None:
    said = file(faults=("503",), rows=("mission-latency",))
    fault, row = owed(said, [], now_ns=NOW_NS, now=NOW).lines
    assert fault.pay == "drillmaster run matrix eviction-plan.yaml --faults 503"
    assert row.pay == "drillmaster run friday friday-plan.yaml"
    waiting = run("2026-11-30", "unjudged", drill="friday", proved={})
    assert owed(said, [waiting], now_ns=NOW_NS, now=NOW).lines[1].pay == f"drillmaster gate matrix runs/{waiting.run}"


@pytest.mark.parametrize(
    "more, found",
    [
        ({"faults": ()}, "no fault, flag or row"),
        ({"faults": ("rset",)}, "rset"),
        ({"review_by": "2026-11-01"}, "has passed"),
        ({"source": "chat"}, "chat"),
        ({"owner": " "}, "nothing"),
    ],
)
def test_a_file_that_nobody_answers_for_or_that_names_nothing_is_refused(more: dict[str, Any], found: str) -> None:
    with pytest.raises(Problem, match=found):
        check_file(file(**more), place="drill-debt.yaml", now_ns=NOW_NS)


def test_all_means_each_fault_of_the_catalogue() -> None:
    from drillmaster.faults import names

    assert len(file(faults=("all",)).items) == len(names())


def matrix_file(folder: Path) -> None:
    (folder / "drill-matrix.json").write_text(json.dumps(MATRIX))


def test_all_rows_are_those_of_the_matrix_and_a_name_that_it_lacks_is_refused(tmp_path: Path) -> None:
    matrix_file(tmp_path)
    said = named_in(file(rows=("all",), matrix="drill-matrix.json"), tmp_path, place="d.yaml")
    assert said.rows == ("mission-latency", "detector-time", "tool-success", "replay", "kill-switch")
    assert named_in(file(rows=("replay",), matrix="drill-matrix.json"), tmp_path, place="d.yaml").rows == ("replay",)
    with pytest.raises(Refused, match="did you mean mission-latency"):
        named_in(file(rows=("mission-latncy",), matrix="drill-matrix.json"), tmp_path, place="d.yaml")


@pytest.mark.parametrize("more", [{"rows": ("all",)}, {"flags": ("all",)}])
def test_all_of_what_is_not_named_is_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="of what nobody knows"):
        named_in(file(**more), tmp_path, place="d.yaml")


def test_flags_are_held_against_the_registry(tmp_path: Path) -> None:
    text = resources.files("drillmaster.kits").joinpath("friday").joinpath("flags.yaml").read_text("utf-8")
    (tmp_path / "flags.yaml").write_text(text)
    assert "toolTimeout" in named_in(file(flags=("all",), registry="flags.yaml"), tmp_path, place="d.yaml").flags
    with pytest.raises(Refused, match="toolTimeout"):
        named_in(file(flags=("tooltimeout",), registry="flags.yaml"), tmp_path, place="d.yaml")


TEXT = """\
kind: drill-debt
version: 1
source: runbooks/fallback.md
owner: sre
review_by: 2099-02-28
service: shop
max_age_days: 30
faults: [reset, 503]
"""


@pytest.mark.parametrize("line", ["max_days: 3", "max_age_days: 0", "kind: debt"])
def test_a_file_is_read_strictly(tmp_path: Path, line: str) -> None:
    name = line.partition(":")[0]
    text = "\n".join(one for one in TEXT.splitlines() if not one.startswith(f"{name}:"))
    with pytest.raises(Problem):
        strict.load_as(f"{text}\n{line}\n".encode(), DebtFile, place="d.yaml", fmt="yaml")


def test_the_command_says_1_where_something_is_owed_and_0_where_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drillmaster.cli.debt import command

    monkeypatch.chdir(tmp_path)
    Path("drill-debt.yaml").write_text(TEXT)
    with open_history("h.sqlite") as history:
        history.add(run("2026-11-20"))
    words = ["--history", "h.sqlite", "--now", NOW, "--markdown", "out.md"]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 1, result.output
    assert "PAID  fault/reset" in result.output
    assert "pays it: drillmaster run matrix eviction-plan.yaml --faults 503" in result.output
    assert "| fault/503 | never drilled |" in Path("out.md").read_text()
    with open_history("h.sqlite") as history:
        history.add(run("2026-11-21", item="fault/503"))
    assert CliRunner().invoke(command, words).exit_code == 0
    assert "no debt" in CliRunner().invoke(command, words).output


def test_the_template_names_every_field_and_is_refused_while_it_has_blanks() -> None:
    from drillmaster.cli.debt import command

    text = CliRunner().invoke(command, ["--template"]).output
    assert all(f"{name}:" in text for name in DebtFile.__struct_fields__)
    with pytest.raises(Problem, match="source"):
        strict.load_as(text.encode(), DebtFile, place="d.yaml", fmt="yaml")
    filled = text.replace("source:\n", "source: a.md\n").replace("owner:\n", "owner: sre\n")
    filled = filled.replace("review_by:\n", "review_by: 2099-01-01\n").replace("service:\n", "service: shop\n")
    said = strict.load_as(
        filled.replace("max_age_days:\n", "max_age_days: 35\n").encode(), DebtFile, place="d.yaml", fmt="yaml"
    )
    check_file(said, place="d.yaml", now_ns=NOW_NS)


# Lock files


@pytest.mark.parametrize(
    "name, text, found",
    [
        ("uv.lock", '[[package]]\nname = "openai"\nversion = "2.1"\n', ("2.1",)),
        ("poetry.lock", '[[package]]\nname = "OpenAI"\nversion = "2.1"\n[[package]]\nname = "x"\nversion = "1"\n', ("2.1",)),
        ("package-lock.json", '{"packages": {"": {"version": "9"}, "node_modules/openai": {"version": "5.0"},'
         ' "node_modules/a/node_modules/openai": {"version": "4.0"}}}', ("4.0", "5.0")),
        ("requirements.txt", "# openai==1\nopenai==2.1 ; python_version > '3'\nopenai-agents==7\n", ("2.1",)),
        ("requirements-dev.txt", "OpenAI[datalib] == 2.2 --hash=sha256:1\n", ("2.2",)),
        ("uv.lock", "", ()),
    ],
)  # fmt: skip
def test_the_version_that_a_lock_file_pins(name: str, text: str, found: tuple[str, ...]) -> None:
    assert versions_of("openai", text.encode(), file=name) == found


@pytest.mark.parametrize(
    "name, data", [("go.sum", b""), ("uv.lock", b"\xff"), ("package-lock.json", b"[]"), ("uv.lock", b"[[")]
)
def test_what_is_no_lock_file_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(Problem, match="lock file"):
        versions_of("openai", data, file=name)


def test_a_team_that_has_no_list_yet_is_told_how_to_begin_one(tmp_path: Path) -> None:
    from drillmaster.cli.debt import command

    refused = CliRunner().invoke(command, [str(tmp_path / "drill-debt.yaml")])
    assert isinstance(refused.exception, Problem)
    assert refused.exception.remedy.startswith(f"drillmaster debt --template > {tmp_path / 'drill-debt.yaml'}")


def test_all_that_a_list_has_left_blank_is_named_at_once(tmp_path: Path) -> None:
    from drillmaster.cli.debt import command

    path = tmp_path / "drill-debt.yaml"
    path.write_text(CliRunner().invoke(command, ["--template"]).output)
    refused = CliRunner().invoke(command, [str(path)])
    assert isinstance(refused.exception, Problem)
    assert refused.exception.found == "5 blanks: /source, /owner, /review_by, /service, /max_age_days"
    assert "such as runbooks/agent-fallback.md" in refused.output
