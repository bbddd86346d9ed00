"""A verdict on its way to its file, among people who leave things in the way."""

import os
import threading
from pathlib import Path

import msgspec
import pytest

from drillmaster import timeline
from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.intake import read_bytes
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import again, gate_command, judge_eviction, keep, stored
from drillmaster.intake.written import judged_run
from drillmaster.reports import form
from drillmaster.screen import MARK
from drillmaster.timeline.opening import write_whole
from drillmaster.verdict import Verdict
from tests.scene import S, Scene

NOW_NS = parse_rfc3339("2026-12-01T00:00:00Z") or 0


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = Scene().write(tmp_path / "20261129T153000Z-1a2b")
    timeline.seal_run(folder, ManualClock())
    return folder


def judged(folder: Path, now_ns: int = NOW_NS) -> Verdict:
    return judge_eviction(open_run(folder), folder / "policy.yaml", now_ns=now_ns)


def test_a_fraction_of_a_second_does_not_keep_a_verdict_from_being_given_again(sealed: Path) -> None:
    keep(judged(sealed, NOW_NS + 999_999_999), sealed)
    assert again(open_run(sealed), sealed, command="x") == judged(sealed)


def test_what_others_left_in_the_run_is_neither_followed_nor_waited_for(sealed: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (sealed / ".verdict.json.new").symlink_to(outside)
    keep(judged(sealed), sealed)
    (sealed / ".verdict.json.new").unlink()
    os.mkfifo(sealed / ".verdict.json.new")
    keep(judged(sealed), sealed)
    assert outside.read_text() == "mine"
    assert stored(sealed).status == "pass"


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
def test_no_verdict_is_written_through_what_stands_in_its_place(sealed: Path, tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    place = sealed / "verdict.json"
    if what == "link":
        place.symlink_to(outside)
    elif what == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(Problem, match="no regular file"):
        keep(judged(sealed), sealed)
    assert outside.read_text() == "mine"
    assert [p.name for p in sealed.iterdir() if p.name.startswith(".")] == []


def test_many_gates_at_once_never_fail_and_never_show_half_a_verdict(sealed: Path) -> None:
    verdict = judged(sealed)
    whole = form("json").render(verdict).encode()
    keep(verdict, sealed)
    wrong: list[object] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            if (sealed / "verdict.json").read_bytes() != whole:
                wrong.append("half a file")

    def judge() -> None:
        try:
            for _ in range(25):
                keep(verdict, sealed)
        except BaseException as error:
            wrong.append(error)

    reader, gates = threading.Thread(target=look), [threading.Thread(target=judge) for _ in range(4)]
    for thread in (reader, *gates):
        thread.start()
    for thread in gates:
        thread.join(30)
    done.set()
    reader.join(30)
    assert wrong == []
    assert [p.name for p in sealed.iterdir() if p.name.startswith(".")] == []


def test_a_draft_that_finds_no_room_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_whole(path, None)  # type: ignore[arg-type]  # fails as late as a full disk would
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["verdict.json"]


def test_a_run_of_another_drill_is_not_for_this_gate(tmp_path: Path) -> None:
    folder = Scene().write(tmp_path / "r")
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"drill":"eviction"', b'"drill":"interview"'))
    timeline.seal_run(folder, ManualClock())
    with pytest.raises(Refused, match="interview"):
        judged(folder)


def test_a_signature_that_is_none_of_the_seal_refuses_the_verdict(sealed: Path) -> None:
    os.mkfifo(sealed / "seal.json.sig")  # as good as any other bytes that sign nothing, and needs no ssh-keygen
    verdict = judged(sealed)
    assert verdict.status == "refused"
    assert [c.id for c in verdict.checks if c.status == "refused"] == ["sealed"]
    assert "seal.json.sig altered" in form("text").render(verdict, colour=False)


def test_a_policy_that_says_the_same_elsewhere_gives_the_verdict_that_a_card_shows(
    sealed: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "my policy.yaml"
    elsewhere.write_bytes(b"# mine\n" + (sealed / "policy.yaml").read_bytes())
    keep(judge_eviction(open_run(sealed), elsewhere, now_ns=NOW_NS), sealed)
    assert judged_run(sealed)[0].status == "pass"
    elsewhere.write_text(elsewhere.read_text().replace("min_met: 3", "min_met: 4"))
    keep(judge_eviction(open_run(sealed), elsewhere, now_ns=NOW_NS), sealed)
    with pytest.raises(Refused, match="do not give"):
        judged_run(sealed)


def test_a_huge_verdict_or_manifest_is_refused_before_it_is_read(sealed: Path) -> None:
    keep(judged(sealed), sealed)
    for name in ("verdict.json", "manifest.json"):
        with (sealed / name).open("r+b") as sparse:
            sparse.truncate(1 << 40)
        with pytest.raises(Problem, match="1,099,511,627,776 bytes"):
            read_bytes(sealed / name, cap_bytes=1 << 34)  # more than this machine could hold
    with pytest.raises(Problem):
        open_run(sealed)


def test_the_command_that_judges_can_be_pasted() -> None:
    assert gate_command(Path("a run/$(x)")) == "drillmaster gate eviction 'a run/$(x)'"


KEY = "sk-" + "ant-api03-AbCdEf123456789"


def test_no_secret_of_the_evidence_reaches_a_form(tmp_path: Path) -> None:
    scene = Scene(mode=f"reset {KEY}", stamps=(f"REHEARSAL {KEY}",), notes=False)
    scene.manifest = msgspec.structs.replace(
        scene.manifest,
        service=f"support {KEY}",
        seats={"lead": KEY, "scribe": KEY, "verifier": KEY},
        policy_file=f"https://me:{KEY}@example.com/p.yaml",
        versions={KEY: KEY},
        plan={
            "owners": {"default": KEY},
            "proxy": {"listen": "127.0.0.1:8081", "upstream": f"https://u:{KEY}@h/v1?key={KEY}"},
        },
    )
    scene.add("timeline.jsonl", 30 * S, "unhandled_exception", id=KEY, kind=f"E: password={KEY}")
    scene.add("events/notes.jsonl", 30 * S, "note", kind=f"seen {KEY}", text=f"Authorization: Bearer {KEY}", by=KEY)
    scene.add("events/conductor.jsonl", 31 * S, "preflight", check=KEY, status="refused", why=KEY, by=KEY, at=KEY)
    folder = scene.write(tmp_path / "run")
    with (folder / "timeline.jsonl").open("a") as torn:
        torn.write(f'{{"t": "{KEY}", "event": "x"}}\n{{"{KEY}')
    timeline.seal_run(folder, ManualClock())
    verdict = judged(folder)
    keep(verdict, folder)
    shown, view = judged_run(folder)
    assert shown == verdict
    said = [
        form("text").render(verdict, colour=False),
        (folder / "verdict.json").read_text(),
        form("card").render(shown, view),
        form("html").render(shown, view),
        *(part for issue in form("issues").render(shown, view).items() for part in issue),
        msgspec.json.encode(view).decode(),
    ]
    assert [text[max(0, text.find("AbCdEf") - 200) :][:400] for text in said if "AbCdEf" in text] == []
    assert MARK in said[0] and MARK in said[2]


def test_a_form_repeats_only_so_much_of_a_text(sealed: Path) -> None:
    manifest = msgspec.structs.replace(Scene().manifest, service="s" * 1_000_000, stamps=("T" * 1_000_000,))
    run = msgspec.structs.replace(open_run(sealed), manifest=manifest)
    verdict = judge_eviction(run, sealed / "policy.yaml", now_ns=NOW_NS)
    assert len(form("text").render(verdict, colour=False)) < 20_000


def test_a_run_of_another_drill_is_told_as_one_before_its_policy_is_asked_for(tmp_path: Path) -> None:
    run = Scene().run()
    assert run.manifest is not None
    matrix = msgspec.structs.replace(run, manifest=msgspec.structs.replace(run.manifest, drill="matrix"))
    with pytest.raises(Refused, match="drillmaster matrix"):
        judge_eviction(matrix, tmp_path / "policy.yaml", now_ns=0)
