"""`seal` and `verify`, as they are typed: words, exit codes, JSON."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drillmaster.cli.seal import command as seal
from drillmaster.cli.verify import command as verify
from drillmaster.errors import Problem, Refused


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "20261129T120000Z-1a2b"
    (folder / "events").mkdir(parents=True)
    (folder / "manifest.json").write_bytes(b"{}\n")
    (folder / "timeline.jsonl").write_bytes(
        b"".join(b'{"t":"2026-11-29T12:00:00Z","event":"e%d"}\n' % n for n in range(20)) + b"torn\n"
    )
    return folder


def sealed(run: Path) -> Result:
    return CliRunner().invoke(seal, [str(run)], catch_exceptions=False)


def verified(run: Path, *arguments: str) -> Result:
    return CliRunner().invoke(verify, [str(run), *arguments])


def test_a_seal_prints_its_head_and_an_unchanged_run_is_exit_0(run: Path) -> None:
    first = sealed(run)
    assert first.exit_code == 0
    head = json.loads((run / "seal.json").read_bytes())["head"]
    assert f"head {head}\n" in first.stdout
    assert "sealed 2 files, 22 lines" in first.stdout
    done = verified(run)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"unchanged {run.name}: ")
    assert f"head {head}\n" in done.stdout
    assert "timeline.jsonl  21 lines, 1 foreign, first at line 21" in done.stdout
    assert "not signed" in done.stdout


def test_a_changed_line_is_named_and_exit_2(run: Path) -> None:
    sealed(run)
    path = run / "timeline.jsonl"
    path.write_bytes(path.read_bytes().replace(b"e7", b"e8"))
    done = verified(run)
    assert done.exit_code == 2
    assert done.stdout.startswith("CHANGED ")
    assert "timeline.jsonl:8: altered" in done.stdout
    with pytest.raises(Refused, match="drillmaster verify"):
        sealed(run)


def test_json_says_the_same(run: Path) -> None:
    sealed(run)
    with (run / "timeline.jsonl").open("ab") as worker:
        worker.write(b"late\n")
    said = json.loads(verified(run, "--json").stdout)
    assert said["unchanged"] is True
    assert said["files"]["timeline.jsonl"]["late_lines"] == 1
    assert said["signed_by"] is None
    (run / "manifest.json").unlink()
    done = verified(run, "--json")
    assert done.exit_code == 2
    assert [(c["file"], c["kind"]) for c in json.loads(done.stdout)["changes"]] == [("manifest.json", "missing")]


def test_a_run_without_a_seal_is_refused_with_the_command_that_seals_it(run: Path) -> None:
    problem = verified(run).exception
    assert isinstance(problem, Problem)
    assert problem.exit == 2
    assert problem.remedy == f"drillmaster seal {run}"


@pytest.mark.e2e
@pytest.mark.needs("ssh-keygen")
def test_a_signed_seal_is_checked_against_the_key_that_the_reader_names(run: Path, tmp_path: Path) -> None:
    for name in ("scribe", "other"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(tmp_path / name)],
            check=True,
            timeout=30,
        )
    done = CliRunner().invoke(seal, [str(run), "--sign", str(tmp_path / "scribe")], catch_exceptions=False)
    assert "seal.json.sig" in done.stdout
    assert "by whom is not checked" in verified(run).stdout
    good = verified(run, "--signer", str(tmp_path / "scribe.pub"))
    assert good.exit_code == 0
    assert "signed by scribe SHA256:" in good.stdout
    bad = verified(run, "--signer", str(tmp_path / "other.pub"))
    assert isinstance(bad.exception, Refused)
    assert "signed by" not in bad.stdout
    said = json.loads(verified(run, "--signer", str(tmp_path / "scribe.pub"), "--json").stdout)
    assert said["signed_by"]["identity"] == "scribe"


@pytest.mark.e2e
@pytest.mark.needs("ssh-keygen")
def test_a_signature_from_before_the_run_was_sealed_again_is_a_change(run: Path, tmp_path: Path) -> None:
    key = tmp_path / "scribe"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=30)
    CliRunner().invoke(seal, [str(run), "--sign", str(key)], catch_exceptions=False)
    assert json.loads(verified(run, "--json").stdout)["signed"] == "fits"
    (run / "timeline.jsonl").write_bytes(b"")
    (run / "seal.json").unlink()
    sealed(run)
    done = verified(run)
    assert done.exit_code == 2
    assert "seal.json.sig: altered: the signature beside the seal is not one of this seal" in done.stdout
    assert json.loads(verified(run, "--json").stdout)["signed"] == "stale"


def test_what_a_seal_says_cannot_repaint_a_terminal(run: Path) -> None:
    sealed(run)
    (run / "events" / "\x1b[2Jx\n.jsonl").write_bytes(b"{}\n")
    text = (run / "seal.json").read_text()
    (run / "seal.json").write_text(text.replace('"sealed_at": "', '"sealed_at": "\\u001b[1A\\u202e'))
    done = verified(run)
    assert "\\x1b[2Jx\\x0a.jsonl" in done.stdout
    assert "at \\x1b[1A\\u202e2026" in done.stdout
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout


def test_a_run_whose_path_is_no_utf8_is_verified_and_reported(run: Path) -> None:
    sealed(run)
    moved = run.rename(run.with_name("r\udcff"))
    assert verified(moved).stdout.startswith("unchanged r\\udcff: ")
    assert json.loads(verified(moved, "--json").stdout)["run"] == "r\\udcff"
    problem = verified(moved / "none").exception
    assert isinstance(problem, Problem)
    assert str(problem).encode()
