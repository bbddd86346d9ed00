"""What every gate can be told from the command line, whatever the name of a file, and what each form comes to."""

import json
import os
from pathlib import Path

import jsonschema_rs
import pytest

from drillmaster import cli
from drillmaster.cli.gate._verdicts import FORMS
from drillmaster.gates import names
from drillmaster.intake.blanks import blanks, keys, template
from drillmaster.strict import load
from tests.canaries import PASSING, POLICY

NOW = "2026-11-30T16:00:00Z"
HAS_KIT = sorted(set(names()) - {"oracle", "matrix"})
"""The policy of `matrix` is a drill matrix, which `init friday` writes."""


def judge(folder: Path, capsys: pytest.CaptureFixture[str], metrics: str, *words: str) -> tuple[int, str, str]:
    (folder / "policy.json").write_text(json.dumps(POLICY))
    argv = ["gate", "canary", "--metrics", metrics, "--policy", str(folder / "policy.json"), "--now", NOW, *words]
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=argv)
    told = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, told.out, told.err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", [b"m\xff.json", b"a\n::error::b.json", b"\xe2\x80\xae.json", b"<b>`x`|@all.json", b"a b%.json"]
)
def test_a_files_name_is_no_more_than_a_name_in_any_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, name: bytes
) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    Path(path).write_text(json.dumps(PASSING))
    ledger = str(tmp_path / "attempts.jsonl")
    code, out, err = judge(tmp_path, capsys, path, "--format", form, "--attempts", ledger)
    assert (code, err) == (0, "")
    assert "\n::error::" not in out


@pytest.mark.parametrize("name", ["attempts.jsonl", "sub/../attempts.jsonl", "metrics.json", "policy.json"])
def test_a_form_takes_the_place_of_nothing_that_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "sub").mkdir()
    metrics = tmp_path / "metrics.json"
    metrics.write_text(json.dumps(PASSING))
    ledger = tmp_path / "attempts.jsonl"
    assert judge(tmp_path, capsys, str(metrics), "--attempts", str(ledger))[0] == 0
    before = [one.read_bytes() for one in (ledger, metrics, tmp_path / "policy.json")]
    code, _, err = judge(
        tmp_path, capsys, str(metrics), "--attempts", str(ledger), "--output", f"json={tmp_path / name}"
    )
    assert (code, "--output" in err) == (2, True)
    assert [one.read_bytes() for one in (ledger, metrics, tmp_path / "policy.json")] == before


def test_a_form_goes_to_a_file_and_the_dash_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = judge(tmp_path, capsys, "metrics.json", "--output", "json=-")
    assert (code, out) == (2, "")
    assert "--format" in err
    assert not Path("-").exists()


@pytest.mark.parametrize("gate", HAS_KIT)
def test_the_schema_of_a_policy_takes_the_kits_own_and_no_other(gate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["gate", "schema", gate])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    validator = jsonschema_rs.validator_for(said)
    text = template(gate)[f"{gate}-policy.yaml"]
    examples, lines = blanks(text), text.splitlines()
    for number, pointer in keys(text.splitlines()):
        lines[number] += f" {examples[pointer]}"
    policy = load("\n".join(lines).encode(), place="policy.yaml", fmt="yaml")
    assert [str(one) for one in validator.iter_errors(policy)] == []
    (entry,) = [one for one in policy["gates"] if one["gate"] == gate]
    for wrong in ({**entry, "max_luck": 1}, {**entry, "gate": "other"}, {"gate": gate}):
        assert not validator.is_valid({**policy, "gates": [wrong]}), wrong
    assert not validator.is_valid({**policy, "gates": []})


def test_the_schema_of_every_gate_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for gate in names():
        with pytest.raises(SystemExit):
            cli.main(argv=["gate", "schema", gate])
        text = capsys.readouterr().out
        jsonschema_rs.meta.validate(json.loads(text))
        jsonschema_rs.validator_for(json.loads(text))
        assert "\\A" not in text and "\\Z" not in text, gate  # which ECMA-262 does not know
