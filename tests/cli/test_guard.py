"""`drillmaster guard` from the command line: what a worker would be told, and what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.cli import main
from drillmaster.guards import names
from tests.intake.test_guards_files import FACTS, GOOD, QUOTA, RETRY

FILE = {**GOOD, "review_by": "2099-02-28"}  # some rows here are judged by the machine's own clock


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guards.json").write_bytes(msgspec.json.encode({**FILE, "guards": [QUOTA, RETRY]}))
    (tmp_path / "call.json").write_text('{"partner": "ledger", "identity": "acct-7"}')
    (tmp_path / "failed.json").write_bytes(FACTS)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(argv=["guard", *words])
    said = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return code, said.out, said.err


NOW = ("--now", "2026-11-29T15:30:00Z")


def test_a_decision_is_explained_with_its_reason_and_its_limits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "retry", "--explain", "failed.json", "--guards", "guards.json", *NOW)
    assert code == 0
    assert out.startswith("allowed: pinned-status\n  It may be sent again")
    assert "max_calls: 3" in out
    assert "contract-2026-ledger, payments-oncall" in out


def test_a_denial_exits_1_and_names_the_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "failed.json").write_bytes(FACTS.replace(b"503", b"400"))
    code, out, _ = run(capsys, "retry", "--explain", "failed.json", "--guards", "guards.json", *NOW)
    assert (code, out.partition("\n")[0]) == (1, "denied: status-not-retryable")
    assert "no limit of retry" in out  # a pinned table says so


def test_the_limit_that_a_reason_was_held_against_is_named_and_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "failed.json").write_bytes(FACTS[:-1] + b',"asked_wait_ms":9000}')
    words = ("retry", "--explain", "failed.json", "--guards", "guards.json", "--json", *NOW)
    told = json.loads(run(capsys, *words)[1])
    assert (told["reason"], told["wait_ms"], told["limits"]) == ("retry-after-over-cap", 9_000, {"cap_ms": 5_000})


def test_without_a_store_a_law_says_that_nothing_was_counted_and_a_state_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("quota", "--explain", "call.json", "--guards", "guards.json", "--json", *NOW)
    for nth in range(6):
        more = ("--state", "state.json") if nth else ()
        code, out, _ = run(capsys, *words, *more)
        told = json.loads(out)
        assert told["how"].startswith("by the state" if nth else "without a store")
        assert (code, told["exit"], told["allowed"]) == ((0, 0, True) if nth < 5 else (1, 1, False))
        (folder / "state.json").write_text(json.dumps(told["state_after"]))
    assert told["reason"] == "over-burst"
    assert told["says"] == "Too much at once; ask again after `wait_ms`."


@pytest.mark.parametrize(
    ("facts", "place"),
    [
        ('{"partner": "ledger", "identity": "acct-7", "requests": true}', "/requests"),
        ('{"partner": "ledger", "identity": "acct-7", "requests": NaN}', "/requests"),
        ('{"partner": "ledger", "partner": "other", "identity": "acct-7"}', "/partner"),
        ('{"partner": "ledger", "identity": "acct-7", "prompt": "x"}', "/prompt"),
        ('{"partner": "ledger"}', "/identity"),
        ("", ""),
        ("[]", ""),
    ],
)
def test_facts_that_are_none_are_refused_by_their_place(
    facts: str, place: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "call.json").write_text(facts)
    code, out, err = run(capsys, "quota", "--explain", "call.json", "--guards", "guards.json", "--json")
    assert code == 2
    assert place in json.loads(out)["error"]["place"]
    assert "call.json" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("quota", "--explain", "call.json"), "found no limits"),
        (("quota", "--explain", "nope.json", "--guards", "guards.json"), "no such file"),
        (("quota", "--explain", "call.json", "--guards", "nope.json"), "no such file"),
        (("webhook", "--explain", "call.json", "--guards", "guards.json"), "no webhook among its guards"),
        (("quota", "--explain", "call.json", "--guards", "guards.json", "--entry", "x"), "no entry 'x'"),
        (("quota", "--explain", "call.json", "--guards", "guards.json", "--now", "soon"), "--now"),
        (
            ("quota", "--explain", "call.json", "--guards", "guards.json", "--store", "sqlite:q.db", *NOW),
            "--store, and --state or --now",
        ),
        (("quota", "--explain", "call.json", "--guards", "guards.json", "--store", "mysql://x"), "no store's URL"),
        (("qouta", "--explain", "call.json"), "Did you mean 'quota'?"),
        (("check", "call.json"), "/partner"),
        (("check", "guards.json", "--now", "2099-03-01T00:00:00Z"), "has passed"),
        (("serve", "--guards", "guards.json"), "no store, and quota"),
        (("serve", "--guards", "guards.json", "--store", "sqlite:q.db", "--listen", "0.0.0.0:0"), "say it twice"),
        (
            (
                "serve",
                "--guards",
                "guards.json",
                "--store",
                "sqlite:q.db",
                "--listen",
                "0.0.0.0:0",
                "--allow-host",
                "0.0.0.0",
            ),
            "no token",
        ),
        (("serve", "--guards", "guards.json", "--store", "sqlite:q.db", "--listen", "here"), "HOST:PORT"),
        (
            ("serve", "--guards", "guards.json", "--store", "sqlite:q.db", "--listen", "lab.internal:80"),
            "--listen 127.0.0.1:8787",
        ),
        (("serve", "--guards", "nope.json"), "no such file"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_what_to_do(
    words: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2
    assert said in err
    assert not out


def test_of_several_entries_one_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = [QUOTA, {**QUOTA, "name": "second", "identity": "acct-8"}]
    (folder / "guards.json").write_bytes(msgspec.json.encode({**FILE, "guards": two}))
    words = ("quota", "--explain", "call.json", "--guards", "guards.json", *NOW)
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "--entry quota, or another of: quota, second" in err
    assert run(capsys, *words, "--entry", "quota")[0] == 0
    code, out, _ = run(capsys, *words, "--entry", "second")
    assert (code, out.partition("\n")[0]) == (1, "denied: other-bucket")


@pytest.mark.parametrize("tag", names())
def test_any_guard_says_what_it_is_and_gives_its_schemas(tag: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tag)
    assert code == 0
    for word in ("limits, from the guards file", "facts, from the worker", "reasons", "it counts"):
        assert word in out
    told = json.loads(run(capsys, tag, "--explain", "--json")[1])
    assert told["guard"] == tag
    assert told["facts"]
    for what in ("limits", "facts", "decision"):
        schema = json.loads(run(capsys, "schema", tag, "--of", what)[1])
        assert schema["title"] == f"{what.capitalize()} of the {tag} guard"
    (decision,) = schema["$defs"].values()
    assert decision["properties"]["reason"]["enum"] == list(told["reasons"])


def test_the_schema_of_limits_takes_a_file_and_refuses_a_wrong_one(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema_rs

    schema = json.loads(run(capsys, "schema", "quota")[1])
    assert jsonschema_rs.is_valid(schema, {**GOOD, "guards": [{**QUOTA, "name": "ledger-b"}, RETRY]})
    wrong: list[dict[str, Any]] = [
        {**GOOD, "guards": [{**QUOTA, "burst": "5"}]},
        {**GOOD, "guards": [{**QUOTA, "name": "Ledger B"}]},
        {**GOOD, "guards": []},
        {**GOOD, "owner": 7},
    ]
    assert not any(jsonschema_rs.is_valid(schema, one) for one in wrong)


def test_the_list_has_every_guard(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["guard"] for row in json.loads(run(capsys, "list", "--json")[1])] == names()


def test_a_file_is_checked_and_its_review_can_be_due(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = ("--now", "2098-11-29T15:30:00Z")
    code, out, _ = run(capsys, "check", "guards.json", *now, "--json")
    told = json.loads(out)
    assert (code, told["days_left"], told["owner"]) == (0, 91, "payments-oncall")
    assert [row["name"] for row in told["guards"]] == ["quota", "retry"]
    code, out, err = run(capsys, "check", "guards.json", *now, "--days", "92")
    assert (code, "due: have payments-oncall" in err) == (1, True)
    assert run(capsys, "check", "guards.json", *now, "--days", "91")[0] == 0


def test_a_token_that_no_header_can_carry_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for token in ("short", "sixteen letters and a space", "sechzehn-umläute"):
        monkeypatch.setenv("DRILLMASTER_GUARD_TOKEN", token)
        code, _, err = run(
            capsys, "serve", "--guards", "guards.json", "--store", "sqlite:q.db", "--listen", "127.0.0.1:0"
        )
        assert code == 2
        assert token not in err


@pytest.mark.parametrize(
    ("words", "begun", "wanted"),
    [
        (["guard"], "qu", ["quota"]),
        (["guard"], "se", ["serve"]),
        (["guard", "schema"], "re", ["retry"]),
        (["guard", "schema", "--of"], "de", ["decision"]),
        (["init", "guards", "--guard"], "web", ["webhook"]),
    ],
)
def test_a_tab_completes_guards_as_it_does_verbs(words: list[str], begun: str, wanted: list[str]) -> None:
    from click.shell_completion import ShellComplete

    from drillmaster.cli import _root

    found = ShellComplete(_root, {}, "drillmaster", "_DRILLMASTER_COMPLETE").get_completions(words, begun)
    assert [one.value for one in found] == wanted
