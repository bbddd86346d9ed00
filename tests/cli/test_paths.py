"""Whatever a path is, each verb ends with a line about it: never with a traceback, an internal error, or not at all."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster import cli
from drillmaster.scaffold import template
from tests.scene import POLICY

GOLDEN = Path(__file__).parent.parent / "golden" / "eviction"
PLAN = {
    "kind": "plan",
    "drill": "eviction",
    "service": "toy",
    "target": {"url": "http://127.0.0.1:9/"},
    "traffic": {"every_s": 5, "time_limit_s": 3},
    "proxy": {"upstream": "http://127.0.0.1:9"},
    "policy": "policy.yaml",
}
VERBS = {
    "seal": ["seal", "@", "--json"],
    "sign": ["seal", "run", "--sign", "@", "--json"],
    "verify": ["verify", "@", "--json"],
    "signer": ["verify", "run", "--signer", "@", "--json"],
    "gate": ["gate", "eviction", "@", "--json"],
    "gate a bare file": [
        "gate",
        "eviction",
        "@",
        "--unsealed",
        "--budget",
        "1 %",
        "--fallback-within",
        "60s",
        "--json",
    ],
    "gate by a policy": ["gate", "eviction", "run", "--policy", "@", "--json"],
    "card": ["card", "@", "--json"],
    "card to": ["card", "run", "--out", "@", "--json"],
    "card's issues": ["card", "run", "--issues", "@", "--json"],
    "report to": ["report", "run", "--html", "@", "--json"],
    "fault by rules": ["fault", "try", "--rules", "@", "--json"],
    "rules by hand": ["proxy", "inject", "--control", "none.sock", "--rules", "@", "--json"],
    "init a matrix": ["init", "matrix", "--dir", "@", "--json"],
    "run a matrix": ["run", "matrix", "@", "--rehearsal", "--json"],
    "report": ["report", "@", "--json"],
    "mark": ["mark", "fallback_engaged", "--log", "@"],
    "note": ["note", "other", "--run", "@", "--json"],
    "note by": ["note", "other", "--token-file", "@", "--json"],
    "inject": ["inject", "@", "--json"],
    "lift": ["lift", "@", "--json"],
    "stop": ["stop", "@", "--json"],
    "init": ["init", "eviction", "--dir", "@", "--json"],
    "run": ["run", "eviction", "@", "--rehearsal", "--json"],
    "proxy's authority": ["proxy", "--upstream", "https://127.0.0.1:9", "--port", "0", "--upstream-ca", "@"],
    "proxy's own token": ["proxy", "--upstream", "https://127.0.0.1:9", "--port", "0", "--token-file", "@"],
    "proxy's token": ["proxy", "lift", "--control", "none.sock", "--token-file", "@", "--json"],
    "proxy's door": ["proxy", "state", "--control", "@", "--json"],
}
PATHS = {
    "a folder that is no UTF-8": "fol\udcffder",
    "a file that is no UTF-8": "fi\udcffle",
    "nothing, and no UTF-8": "no\udcff",
    "a file": "file",
    "a file as a folder": "file/x",
    "a FIFO": "fifo",
    "a FIFO as a folder": "fifo/x",
    "links in a circle": "loop",
    "below links in a circle": "loop/x",
    "a link to a folder without permission": "link/x",
    "below a folder without permission": "locked/x",
    "a name that is too long": "n" * 300,
    "a manifest that is a folder": "odd",
    "a device": "/dev/null",
    "a newline": "new\nline",
    "nothing at all": "",
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("judged") / "run"
    shutil.copytree(GOLDEN / "pass", run)
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=["gate", "eviction", str(run), "--now", "2026-11-30T02:00:00Z"])
    assert ended.value.code == 0
    return run


@pytest.fixture(autouse=True)
def scenery(judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lay out one of each kind, and let nothing take longer than 20 s."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("DRILLMASTER_DEBUG", raising=False)
    shutil.copytree(judged, tmp_path / "run")
    for folder in ("fol\udcffder", "new\nline", "odd/manifest.json", "locked"):
        Path(folder).mkdir(parents=True)
    for file in ("file", "fi\udcffle", "fol\udcffder/manifest.json", "new\nline/manifest.json", "locked/x"):
        Path(file).write_text("{}")
    os.mkfifo("fifo")
    Path("loop").symlink_to("loop")
    Path("link").symlink_to("locked")
    Path("locked").chmod(0)
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for something"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    Path("locked").chmod(0o700)


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=list(words))
    said = capsys.readouterr()
    assert "internal error" not in said.err and "Traceback" not in said.err
    code = ended.value.code
    assert isinstance(code, int)
    if "--json" in words:
        assert json.loads(said.out)
    return code, said.out, said.err


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_path_of_any_kind_is_told_as_what_it_is(
    verb: list[str], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [path if word == "@" else word for word in verb]
    code, out, err = typed(capsys, *words)
    assert code in (0, 2)
    assert code == 0 or (err or out).strip()


def powerless() -> None:
    """Take root's right to look into everything from what this process becomes; nobody else has it anyway."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("path", ["locked", "locked/x", "link", "link/x"])
@pytest.mark.parametrize(
    "name", ["seal", "verify", "gate", "gate a bare file", "card", "report", "mark", "lift", "run"]
)
def test_what_one_may_not_look_into_is_told_as_that(name: str, path: str) -> None:
    words = [path if word == "@" else word for word in VERBS[name]]
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", *words],
        capture_output=True,
        text=True,
        timeout=30,
        preexec_fn=powerless,
        check=False,
    )
    assert done.returncode == 2
    assert "internal error" not in done.stderr + done.stdout and "Traceback" not in done.stderr
    if "--json" in words:
        assert json.loads(done.stdout)["exit"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ["seal", ".", "--json"],
        ["verify", ".", "--json"],
        ["gate", "eviction", ".", "--json"],
        ["card", ".", "--json"],
        ["report", ".", "--json"],
        ["run", "eviction", "--json"],
        ["run", "eviction", "plan.yaml", "--json"],
        ["init", "eviction", "--json"],
        ["demo"],
    ],
    ids=" ".join,
)
def test_a_folder_that_was_removed_under_ones_feet_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert typed(capsys, *words)[0] == 2
    finally:
        os.chdir(tmp_path)


def test_a_run_in_a_folder_that_is_no_utf_8_is_sealed_judged_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run = "fol\udcffder/run"
    shutil.copytree(GOLDEN / "pass", run)
    assert typed(capsys, "seal", run, "--json")[0] == 0
    assert typed(capsys, "verify", run, "--json")[0] == 0
    assert typed(capsys, "gate", "eviction", run, "--now", "2026-11-30T02:00:00Z", "--json")[0] == 0
    for form in ("card", "report"):
        code, out, _ = typed(capsys, form, run, "--json")
        assert code == 0 and "fol\\udcffder" in json.loads(out)[form]


@pytest.mark.parametrize("words", [["--runs", "fol\udcffder/runs"], ["--timeline", "no\udcff"], []])
def test_a_drill_is_refused_where_its_paths_cannot_be_written_down(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("plan.json", "fol\udcffder/plan.json"):
        Path(name).write_text(json.dumps(PLAN))
        Path(name).with_name("policy.yaml").write_text(POLICY)
    plan = "plan.json" if words else "fol\udcffder/plan.json"
    code, _, err = typed(capsys, "run", "eviction", plan, "--rehearsal", "--json", *words)
    assert code == 2 and "UTF-8" in err
    monkeypatch.setenv("DRILLMASTER_STATE", os.fsdecode(b"no\xff"))
    code, _, err = typed(capsys, "run", "eviction", "plan.json", "--rehearsal", "--json")
    assert code == 2 and "DRILLMASTER_STATE" in err
    assert not Path("runs").exists() and not Path("fol\udcffder/runs").exists()


def test_files_to_fill_in_are_written_where_the_folder_is_no_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capsys, "init", "eviction", "--dir", "fol\udcffder", "--json")
    assert code == 0 and len(json.loads(out)["written"]) == len(template("eviction"))
