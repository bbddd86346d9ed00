"""Whatever is handed to a gate, it never crashes and never says yes: bytes, types, sizes, nesting, encodings, kinds of files."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drillmaster.cli import _code_of, _root
from drillmaster.gates import names

FILES = {
    "canary": "metrics.json",
    "cutover": "plan.json",
    "interview": "interview.json",
    "leases": "lease-lab.json",
    "cache-keys": "keys.json",
    "retries": "soak.jsonl",
    "tools": "tools.allow.json",
    "webhook-path": "spans.json",
}
"""Gates that judge one file."""
FOLDERS = ("eviction", "free-tier", "interview", "matrix")

NASTY: dict[str, bytes] = {
    "empty": b"",
    "a blank": b" \n",
    "null": b"null",
    "true": b"true",
    "a number": b"0",
    "a text": b'"pass"',
    "a list": b"[]",
    "an object": b"{}",
    "a list of objects": b"[{}]",
    "half an object": b'{"requests": 8',
    "text behind it": b'{} {"a": 1}',
    "a mark of byte order": b"\xef\xbb\xbf{}",
    "UTF-16": '{"requests": 8200}'.encode("utf-16"),
    "no UTF-8": b'{"a": "\xff"}',
    "half a surrogate": b'{"a": "\\ud800"}',
    "a zero": b'{"a": "\x00"}',
    "NaN": b'{"requests": NaN, "errors": -Infinity}',
    "1e999": b'{"requests": 1e999}',
    "5,001 digits": b'{"requests": ' + b"9" * 5001 + b"}",
    "100,000 brackets": b"[" * 100_000,
    "100,000 objects": b'{"a":' * 100_000,
    "a name twice": b'{"requests": 1, "requests": 8200}',
    "__proto__": b'{"__proto__": {"requests": 8200}, "constructor": 1}',
    "YAML anchors": b"a: &a [*a]\n",
    "HTML": b"<html><body>promote</body></html>",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "a verdict": b'{"kind": "verdict", "status": "pass", "exit": 0, "verdict": "promote", "decision": "yes"}',
    "a large one": b'{"a": "' + b"x" * 20_000_000 + b'"}',
}


def said(words: list[str]) -> int:
    return int(_code_of(_root, words))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("garbage")


@pytest.mark.parametrize("what", NASTY)
@pytest.mark.parametrize("gate", sorted(FILES))
def test_a_file_that_is_none_is_refused(gate: str, what: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = place / f"{gate}-{list(NASTY).index(what)}"
    folder.mkdir()
    path = folder / FILES[gate]
    path.write_bytes(NASTY[what])
    more = ["--unsealed"] if gate == "interview" else []
    policy = folder / "policy.json"
    for limits in (b"{}", NASTY[what]):
        policy.write_bytes(limits)
        code = said(["gate", gate, str(path), "--policy", str(policy), *more])
        out, complaint = capfd.readouterr()
        assert code in (1, 2), out
        assert "internal error" not in complaint and "Traceback" not in complaint, complaint


@pytest.mark.parametrize("gate", sorted({*FILES, *FOLDERS, "workspace"}))
@pytest.mark.parametrize(
    "kind", ["nothing", "pipe", "folder", "link to nothing", "link in a circle", "device", "no name"]
)
def test_a_path_that_leads_to_no_evidence_is_refused(
    gate: str, kind: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = place / f"{gate}-{kind}.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to nothing":
            path.symlink_to("nowhere")
        case "link in a circle":
            path.symlink_to(path.name)
        case "device":
            path = Path("/dev/zero")
        case "no name":
            path = Path("a\nb\x1b[2J")
    more = ["--unsealed", "--policy", "x.json"] if gate == "interview" else []
    code = said(["gate", gate, str(path), *more])
    out, complaint = capfd.readouterr()
    assert code in (1, 2), out
    assert "internal error" not in complaint and "Traceback" not in complaint, complaint
    assert "\x1b[2J" not in out + complaint


@pytest.mark.parametrize("gate", names())
def test_a_gate_that_is_asked_nothing_says_what_to_ask(gate: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / f"empty-{gate}").mkdir()
    monkeypatch.chdir(place / f"empty-{gate}")
    assert said(["gate", gate]) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("gate", sorted(FILES))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=JSON)
@example(document={"tools": {}})
@example(document={"version": 1.0, "tools": [None]})
@example(document=[{"requests": "8200"}])
def test_no_document_at_all_is_a_pass(
    gate: str, document: object, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import msgspec

    path = place / f"any-{FILES[gate]}"
    try:
        path.write_bytes(msgspec.json.encode(document))
    except (msgspec.EncodeError, UnicodeEncodeError, OverflowError):
        return
    more = ["--unsealed", "--policy", str(path)] if gate == "interview" else []
    code = said(["gate", gate, str(path), *more])
    out, complaint = capfd.readouterr()
    assert code in (1, 2), out
    assert "internal error" not in complaint, complaint
