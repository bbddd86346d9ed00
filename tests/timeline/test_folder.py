"""A run is sealed once, and says ever after what happened to it."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from drillmaster.clock import ManualClock
from drillmaster.errors import Exit, Problem, Refused
from drillmaster.evidence import make_seal
from drillmaster.timeline import chunks, is_evidence, read_seal, seal_run, verify_run

LINE = b'{"t":"2026-11-29T12:00:00Z","event":"e%d"}\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "20261129T120000Z-1a2b"
    (folder / "events").mkdir(parents=True)
    (folder / "manifest.json").write_bytes(b"{}\n")
    (folder / "policy.yaml").write_bytes(b"kind: policy\nlimit: 1\n")
    (folder / "timeline.jsonl").write_bytes(b"".join(b"\n" + LINE % n for n in range(600)))
    (folder / "events" / "proxy.jsonl").write_bytes(b"".join(LINE % n for n in range(300)))
    (folder / "events" / "notes.jsonl").write_bytes(b"")
    return folder


def changed(run: Path) -> list[tuple[str, int, str]]:
    return [(c.file, c.line, c.kind) for c in verify_run(run).changes]


def test_a_sealed_run_is_as_it_was_sealed(run: Path) -> None:
    seal = seal_run(run, ManualClock())
    report = verify_run(run)
    assert report.changes == ()
    assert report.head == seal.head
    assert report.sealed_at == "2026-01-01T00:00:00.000000Z"
    assert report.signed == "none"
    assert {name: file.lines for name, file in report.files.items()} == {
        "events/notes.jsonl": 0,
        "events/proxy.jsonl": 300,
        "manifest.json": 1,
        "policy.yaml": 2,
        "timeline.jsonl": 1200,
    }
    assert not list(run.glob(".*"))


def test_what_is_made_from_the_seal_is_not_sealed(run: Path) -> None:
    seal_run(run, ManualClock())
    for name in (
        "verdict.json",
        "verdict.json.sig",
        "card.md",
        "report.html",
        ".draft",
        "my-notes.txt",
    ):
        (run / name).write_text("x")
    (run / "issues").mkdir()
    assert changed(run) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("events/a\nb.jsonl", "\\u000a"),
        ("events/\x1b[2J.txt", "\\u001b"),
        ("events/e\u0301.jsonl", "NFC"),  # two characters that look like one
        ("events/\udcff.jsonl", "\\udcff"),  # a byte that is no UTF-8
        ("\u202esamples.parquet", "\\u202e"),
    ],
)
def test_a_name_that_no_seal_could_be_read_with_is_refused_before_there_is_a_seal(
    run: Path, name: str, said: str
) -> None:
    (run / name).write_text("{}\n")
    with pytest.raises(Problem) as refused:
        seal_run(run, ManualClock())
    assert said in refused.value.found and "drillmaster seal" in refused.value.remedy
    assert not (run / "seal.json").exists()
    (run / name).unlink()
    (run / "events" / "\u00e9.jsonl").write_text("{}\n")  # one that can be
    seal_run(run, ManualClock())
    assert changed(run) == []
    (run / name).write_text("{}\n")  # later it is one more file that was not there
    assert [change[2] for change in changed(run)] == (["added"] if "events/" in name else [])


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("manifest.json", True),
        ("plan.yaml", True),
        ("samples.parquet", True),
        ("events/proxy.jsonl", True),
        ("seal.json", False),
        ("verdict.json", False),
        ("verdict.junit.xml", False),
        ("issues/1.md", False),
        ("events/deeper/x.jsonl", False),
        (".hidden", False),
    ],
)
def test_which_files_a_seal_covers(name: str, is_one: bool) -> None:
    assert is_evidence(name) == is_one


def test_each_kind_of_change_is_named_with_its_file(run: Path) -> None:
    seal_run(run, ManualClock())
    timeline = run / "timeline.jsonl"
    lines = timeline.read_bytes().splitlines(keepends=True)
    timeline.write_bytes(b"".join([*lines[:699], lines[699].replace(b"e", b"E"), *lines[700:]]))
    (run / "policy.yaml").write_bytes(b"kind: policy\nlimit: 1\nlimit_2: 9\n")
    (run / "manifest.json").unlink()
    (run / "events" / "proxy.jsonl").write_bytes(LINE % 0 + LINE % 1)
    (run / "events" / "extra.jsonl").write_bytes(LINE % 0)
    (run / "second.jsonl").write_bytes(LINE % 0)
    assert changed(run) == [
        ("events/proxy.jsonl", 3, "truncated"),
        ("manifest.json", 0, "missing"),
        ("policy.yaml", 3, "grown"),
        ("timeline.jsonl", 700, "altered"),
        ("events/extra.jsonl", 0, "added"),
        ("second.jsonl", 0, "added"),
    ]


def test_a_worker_that_goes_on_writing_is_late(run: Path) -> None:
    seal_run(run, ManualClock())
    with (run / "timeline.jsonl").open("ab") as worker:
        worker.write(b"\n" + LINE % 1 + b"\n" + LINE % 2 + b"torn")
    report = verify_run(run)
    assert report.changes == ()
    assert report.files["timeline.jsonl"].late_lines == 3
    assert report.files["timeline.jsonl"].defects == {}


def test_defects_of_the_sealed_lines_are_counted_and_the_first_named(run: Path) -> None:
    with (run / "timeline.jsonl").open("ab") as worker:
        worker.write(b'[]\n{"event":"x"}\n{"event":"y"}\n')
    seal_run(run, ManualClock())
    file = verify_run(run).files["timeline.jsonl"]
    assert file.defects == {"foreign": 1, "undated": 2}
    assert [(d.line, d.kind) for d in file.first_defects] == [(1201, "foreign"), (1202, "undated"), (1203, "undated")]


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "device"])
def test_a_sealed_file_replaced_by_something_else_is_named_and_not_waited_for(kind: str, run: Path) -> None:
    seal_run(run, ManualClock())
    path = run / "events" / "proxy.jsonl"
    kept = run.parent / "kept"
    path.rename(kept)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(kept)  # the very bytes, elsewhere
        case "device":
            path.symlink_to("/dev/zero")
    assert changed(run) == [("events/proxy.jsonl", 0, "altered")]


def test_a_seal_whose_own_words_were_changed_is_named(run: Path) -> None:
    seal_run(run, ManualClock())
    path = run / "seal.json"
    path.write_text(path.read_text().replace("2026-01-01", "2026-01-02"))
    assert changed(run) == [("seal.json", 0, "seal")]


NEGATIVE = '{"version":1,"sealed_at":"x","files":{"a":{"bytes":-1,"lines":0,"sha256":"","blocks":[]}},"head":""}'


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version":1,"version":1}', '{"version":1}', "null", "\xff", NEGATIVE],
)  # fmt: skip
def test_a_file_that_is_no_seal_is_a_problem_a_person_can_read(text: str, run: Path) -> None:
    (run / "seal.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(Problem, match=r"seal\.json"):
        verify_run(run)


def test_a_seal_that_names_files_outside_of_its_run_reads_none_of_them(run: Path) -> None:
    (run.parent / "outside.jsonl").write_bytes(b"x\n")
    seal_run(run, ManualClock())
    path = run / "seal.json"
    path.write_text(path.read_text().replace('"events/proxy.jsonl"', '"../outside.jsonl"'))
    found = changed(run)
    assert ("seal.json", 0, "seal") in found
    assert not any("outside" in name for name, _, _ in found)


def test_a_run_that_is_not_sealed_is_refused_with_the_command_that_seals_it(run: Path) -> None:
    with pytest.raises(Refused) as caught:
        verify_run(run)
    assert caught.value.remedy == f"drillmaster seal {run}"
    assert caught.value.exit == Exit.REFUSED


@pytest.mark.parametrize("name", ["nowhere", "a-file"])
def test_what_is_no_run_is_a_problem(name: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(Problem, match="run's folder"):
        verify_run(tmp_path / name)
    with pytest.raises(Problem, match="run's folder"):
        seal_run(tmp_path / name, ManualClock())


def test_a_folder_without_a_manifest_is_not_sealed(run: Path) -> None:
    (run / "manifest.json").unlink()
    with pytest.raises(Problem, match=r"manifest\.json"):
        seal_run(run, ManualClock())
    assert not (run / "seal.json").exists()


def test_a_run_is_sealed_once(run: Path) -> None:
    clock = ManualClock()
    first = seal_run(run, clock)
    clock.advance(60)
    with (run / "timeline.jsonl").open("ab") as worker:
        worker.write(LINE % 1)  # late
    assert seal_run(run, clock) == first
    (run / "manifest.json").write_bytes(b"{ }\n")
    with pytest.raises(Refused, match="changed since"):
        seal_run(run, clock)
    assert read_seal(run) == first


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_something_else_in_the_place_of_lines_is_not_sealed_keeps_nobody_waiting_and_is_named(
    kind: str, run: Path
) -> None:
    path = run / "events" / "x.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/hostname")
    assert "events/x.jsonl" not in seal_run(run, ManualClock()).files
    assert [(change.file, change.kind) for change in verify_run(run).changes] == [("events/x.jsonl", "added")]


def test_a_policy_that_is_a_link_is_not_sealed(run: Path) -> None:
    (run / "policy.yaml").unlink(missing_ok=True)
    (run / "policy.yaml").symlink_to("/etc/hostname")
    with pytest.raises(Problem, match=r"policy\.yaml"):
        seal_run(run, ManualClock())


def test_a_sealed_prefix_is_read_to_its_end_and_no_further(run: Path) -> None:
    seal = seal_run(run, ManualClock())
    path = run / "timeline.jsonl"
    before = path.read_bytes()
    with path.open("ab") as worker:
        worker.write(LINE % 1)
    assert b"".join(chunks(path, limit_bytes=seal.files["timeline.jsonl"].bytes)) == before
    assert b"".join(chunks(path)) == before + LINE % 1


def test_what_lies_where_a_signature_belongs_and_signs_nothing_is_a_change(run: Path) -> None:
    seal_run(run, ManualClock())
    signature = run / "seal.json.sig"
    signature.write_text("-----BEGIN SSH SIGNATURE-----\n")
    if shutil.which("ssh-keygen"):
        assert verify_run(run).signed == "stale"
        assert changed(run) == [("seal.json.sig", 0, "altered")]
    signature.unlink()
    os.mkfifo(signature)  # nor is it waited for
    assert changed(run) == [("seal.json.sig", 0, "altered")]
    signature.unlink()
    signature.symlink_to("nowhere")
    assert verify_run(run).signed == "stale"


def test_a_signature_that_nobody_can_look_at_is_unknown_and_no_change(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seal_run(run, ManualClock())
    (run / "seal.json.sig").write_text("-----BEGIN SSH SIGNATURE-----\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    report = verify_run(run)
    assert report.signed == "unknown"
    assert report.changes == ()


def test_a_seal_without_the_manifest_or_with_another_policy_beside_it_covers_no_run(run: Path) -> None:
    seal_run(run, ManualClock())
    seal = read_seal(run)
    files = {name: file for name, file in seal.files.items() if name not in ("manifest.json", "policy.yaml")}
    (run / "seal.json").write_bytes(msgspec.json.encode(make_seal(files, sealed_at=seal.sealed_at)))
    assert changed(run) == [("seal.json", 0, "seal"), ("policy.yaml", 0, "added")]


def test_a_seal_of_another_version_is_refused(run: Path) -> None:
    seal_run(run, ManualClock())
    path = run / "seal.json"
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(Problem, match="version"):
        verify_run(run)


def test_a_huge_seal_is_refused_before_it_is_read(run: Path) -> None:
    with (run / "seal.json").open("wb") as sparse:
        sparse.truncate(3 << 30)
    with pytest.raises(Problem, match="3,221,225,472 bytes"):
        read_seal(run)


def test_what_is_far_behind_the_seal_is_sized_and_not_read(run: Path) -> None:
    seal_run(run, ManualClock())
    path = run / "timeline.jsonl"
    sealed_bytes = path.stat().st_size
    with path.open("r+b") as sparse:
        sparse.truncate(1 << 40)  # a terabyte of holes: reading it would take an hour
    report = verify_run(run)
    assert report.changes == ()
    assert report.files["timeline.jsonl"].late_bytes == (1 << 40) - sealed_bytes


def test_a_file_is_read_as_long_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "fast.jsonl"
    path.write_bytes(b"x" * (3 << 20))
    read_bytes = 0
    for chunk in chunks(path):  # a writer that is faster than its reader
        read_bytes += len(chunk)
        with path.open("ab") as writer:
            writer.write(chunk * 2)
    assert read_bytes == 3 << 20


def _unable(folder: Path) -> Iterator[None]:
    """Be a user who may not do everything, for as long as this lasts: root may read what nobody else can."""
    if os.geteuid() == 0:
        os.chown(folder, 65_534, 65_534)
        os.seteuid(65_534)
        yield
        os.seteuid(0)
    else:
        yield


@pytest.mark.parametrize("locked", ["", "events", "seal.json"])
def test_what_may_not_be_read_is_a_problem_with_its_name(locked: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "run"
        (folder / "events").mkdir(parents=True)
        (folder / "manifest.json").write_bytes(b"{}\n")
        (folder / "events" / "proxy.jsonl").write_bytes(LINE % 1)
        seal_run(folder, ManualClock())
        (folder / locked).chmod(0)
        with contextlib.contextmanager(_unable)(folder), pytest.raises(Problem, match="no permission"):
            verify_run(folder)
        (folder / locked).chmod(0o700)
