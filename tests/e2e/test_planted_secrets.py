"""Secrets that are planted in prompts, headers, tool results and frames are in no artefact of a run, whole or in pieces."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from drillmaster.transcripts.covering import cover
from tests.e2e.replaylab import RUN, Folder, Upstream, running
from tests.e2e.secretlab import SECRETS, find, forms, spread

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [3, 7, 11])
def test_no_secret_of_a_mission_is_in_the_runs_folder_or_in_what_is_printed_of_it(tmp_path: Path, size: int) -> None:
    said = "\n".join(sentence for _, sentence in spread())
    secrets = list(SECRETS.values())
    folder = Folder(tmp_path / "runs")
    # The model says them all, a few letters an event; the tool puts one into its result and a cookie.
    upstream = Upstream(pace_s=0.0, words=["Well: ", *cut(said, size)], secret=SECRETS["openai"])
    headers = {
        "Authorization": f"Bearer {SECRETS['bearer']}",
        "Cookie": f"session={SECRETS['cookie']}",
        "X-Api-Key": SECRETS["api key field"],
        "X-Forwarded-Url": f"https://app:{SECRETS['userinfo']}@host/?sig={SECRETS['query']}",
    }
    try:
        with running(
            upstream.url, folder.transcripts, log=folder.path / "timeline.jsonl", key=SECRETS["openai"]
        ) as agent:
            for number, (_, sentence) in enumerate(spread()):
                folder.ask(agent, f"m{number}aaaa", [f"Refund order #{number} {sentence}"], headers=headers)
            folder.talk(agent, "m99aaaa", [f"Refund order #1 {said}", "Hello"])
    finally:
        upstream.close()
    folder.seal()
    printed = tmp_path / "printed"
    printed.mkdir()
    for number, words in enumerate(
        [
            ["transcript", "list", str(folder.path), "--json"],
            ["transcript", "show", str(folder.path), "m0aaaa", "--full"],
            ["transcript", "show", str(folder.path), "m99aaaa", "--json"],
            ["replay", "m0aaaa", "--run", str(folder.path), "--url", "http://127.0.0.1:9"],
        ]
    ):
        ran = drillmaster(words, tmp_path)
        (printed / f"{number}.txt").write_bytes(ran.stdout + ran.stderr)
    listed = json.loads((printed / "0.txt").read_text())
    assert (listed["complete"], listed["expected"]) == (len(secrets) + 1, len(secrets) + 1)
    assert find(folder.path, printed) == []
    # and what is no secret is there, so that the search had something to search in
    text = b"".join(path.read_bytes() for path in folder.transcripts.iterdir()).decode()
    assert text.count("Refund order #") >= len(secrets)
    assert re.search(r"the database is postgresql:\*{3,}|postgresql://\*", text)


def test_no_secret_is_served_again_or_told_in_a_difference(tmp_path: Path) -> None:
    said = "\n".join(sentence for _, sentence in spread())
    folder = Folder(tmp_path / "runs")
    upstream = Upstream(pace_s=0.0, words=cut(said, 5))
    try:
        with running(upstream.url, folder.transcripts) as agent:
            folder.ask(agent, "m1aaaa", [f"Refund order #17 {said}"])
        folder.seal()
        with running(upstream.url, tmp_path / "again", variant="another-prompt") as agent:
            ran = drillmaster(
                ["replay", "m1aaaa", "--run", RUN, "--url", agent.url, "--transcripts", str(tmp_path / "again")],
                tmp_path,
            )
    finally:
        upstream.close()
    (tmp_path / "told.txt").write_bytes(ran.stdout + ran.stderr)
    assert find(tmp_path / "told.txt", tmp_path / "again", folder.path) == []


def drillmaster(words: Sequence[str], cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", *words], capture_output=True, cwd=cwd, timeout=60, check=False
    )


@pytest.mark.parametrize("name", list(SECRETS))
def test_the_search_finds_what_it_looks_for(tmp_path: Path, name: str) -> None:
    """A search that finds nothing proves nothing before it has found something."""
    secret = SECRETS[name]
    for form, data in forms(secret):
        (tmp_path / "file").write_bytes(b"{" + data + b"}")
        assert any(f": {name} as " in one for one in find(tmp_path / "file")), form
    pieces = "".join(json.dumps({"content": piece}) + "\n" for piece in cut(secret, 3))
    (tmp_path / "file").write_text(pieces)
    assert any(f": {name} as content joined" in one for one in find(tmp_path / "file"))


def test_what_a_foreign_writer_left_is_not_shown_before_the_seal(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "runs")
    said = "\n".join(sentence for _, sentence in spread())
    lines: list[dict[str, object]] = [
        {"seq": 0, "kind": "started"},
        {"seq": 1, "kind": "user", "body": said, "headers": [["Authorization", f"Bearer {SECRETS['bearer']}"]]},
        {"seq": 2, "kind": "answer", "chunks": [[n, piece] for n, piece in enumerate(cut(said, 6))]},
        {"seq": 3, "kind": "ended", "lines": 4, "ok": True},
    ]
    text = "".join(
        json.dumps({"t": "2026-12-04T16:00:01Z", "mission": "m1", "run": RUN, **line}) + "\n" for line in lines
    )
    (folder.transcripts / "node.ndjson").write_text(text)
    for number, words in enumerate((["--full"], ["--json"])):
        ran = drillmaster(["transcript", "show", RUN, "m1", *words], tmp_path)
        assert ran.returncode == 0, ran.stderr
        (tmp_path / f"{number}.txt").write_bytes(ran.stdout)
        assert find(tmp_path / f"{number}.txt") == []
    assert find(folder.transcripts) != []
    assert cover(folder.path).covered == 2
    assert find(folder.transcripts) == []
