"""The file that pins a webhook, the keys it names, and a lab that has none of them."""

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.webhook_lab import production_keys_here
from drillmaster.adapters.worker.webhook_settings import (
    Settings,
    digest_of_key,
    endpoint_of,
    keys_of,
    lab_endpoint_of,
    read_settings,
)
from drillmaster.cli import _webhook
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.rules.webhook_schemes import SCHEMES

KEY = "a-secret-of-at-least-24-bytes"
OTHER = "another-secret-of-enough-bytes"
FIELDS = {
    "kind": "webhook",
    "version": "1",
    "source": "runbook billing, chapter 3",
    "owner": "Ada of payments",
    "review_by": "2027-02-28",
    "provider": "acme",
    "scheme": "stripe",
    "path": "/webhooks/billing",
    "max_body_bytes": "65536",
    "read_within_s": "5",
    "store_within_s": "2",
    "inbox": "inbox.db",
    "keys": "{env: [WEBHOOK_SECRET]}",
}


def write(folder: Path, **changed: str | None) -> Path:
    fields = {**FIELDS, **changed}
    path = folder / "webhook.yaml"
    path.write_text("".join(f"{name}: {value}\n" for name, value in fields.items() if value is not None))
    return path


def read(folder: Path, **changed: str | None) -> Settings:
    return read_settings(write(folder, **changed), clock=ManualClock())


def test_a_file_is_read_and_its_inbox_lies_beside_it(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings.inbox == str(tmp_path / "inbox.db")
    endpoint = endpoint_of(settings, keys_of(settings, {"WEBHOOK_SECRET": KEY}, tmp_path, place="f"), place="f")
    assert (endpoint.source, endpoint.path, endpoint.limits.max_body_bytes) == ("acme", "/webhooks/billing", 65_536)
    assert endpoint.limits.read_within_ms == 5_000 and endpoint.limits.lane == "production"
    assert read(tmp_path, inbox="postgresql://u@h/d").inbox == "postgresql://u@h/d"


@pytest.mark.parametrize("name", list(FIELDS))
def test_no_field_has_a_default(tmp_path: Path, name: str) -> None:
    with pytest.raises(Problem, match=name):
        read(tmp_path, **{name: None})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scheme": "strype"}, "did you mean stripe"),
        ({"scheme": "unsigned"}, "wanted one of generic"),
        ({"source": "prompt of March"}, "a human document"),
        ({"review_by": "2025-01-01"}, "has passed"),
        ({"path": "webhooks"}, "path"),
        ({"path": "/web hooks?x=1"}, "path"),
        ({"max_body_bytes": "0"}, "max_body_bytes"),
        ({"max_body_bytes": "'65536'"}, "max_body_bytes"),
        ({"read_within_s": "0"}, "read_within_s"),
        ({"read_within_s": ".nan"}, "read_within_s"),
        ({"tolerance_s": "301"}, "at most 300"),
        ({"scheme": "github", "tolerance_s": "10"}, "signs no time"),
        ({"keys": "{env: [WEBHOOK_SECRET], secret: x}"}, "secret"),
        ({"keys": "{env: ['a b']}"}, "keys"),
        ({"lab": "{hostname: lab.example, inbox: inbox.db}"}, "one of its own"),
        ({"lab": "{hostname: lab.example, inbox: ./inbox.db}"}, "one of its own"),
        ({"extra": "1"}, "extra"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    with pytest.raises(Problem, match=said):
        read(tmp_path, **changed)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "no such variable"),
        ({"WEBHOOK_SECRET": ""}, "nothing in it"),
        ({"WEBHOOK_SECRET": "x" * 23}, "23 bytes"),
        ({"WEBHOOK_SECRET": " "}, "blanks"),
        ({"WEBHOOK_SECRET": KEY + "\n"}, "blanks"),
    ],
)
def test_without_a_key_of_24_bytes_there_is_none(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(Problem, match=said):
        keys_of(read(tmp_path), environ, tmp_path, place="f")
    with pytest.raises(Problem, match="0 keys"):
        keys_of(read(tmp_path, keys="{}"), {"WEBHOOK_SECRET": KEY}, tmp_path, place="f")


def test_keys_in_rotation_come_from_variables_and_files_and_each_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(OTHER + "\n")
    settings = read(tmp_path, keys="{env: [WEBHOOK_SECRET], files: [old]}")
    keys = keys_of(settings, {"WEBHOOK_SECRET": KEY}, tmp_path, place="f")
    assert [key.secret.decode() for key in keys] == [KEY, OTHER]
    (tmp_path / "old").unlink()
    with pytest.raises(OSError, match="old"):
        keys_of(settings, {"WEBHOOK_SECRET": KEY}, tmp_path, place="f")
    (tmp_path / "old").write_text("x" * 5_000)
    with pytest.raises(Problem, match="large file"):
        keys_of(settings, {"WEBHOOK_SECRET": KEY}, tmp_path, place="f")


def test_a_standard_webhooks_key_is_read_as_one(tmp_path: Path) -> None:
    settings = read(tmp_path, scheme="standard")
    with pytest.raises(Problem, match="whsec_"):
        keys_of(settings, {"WEBHOOK_SECRET": KEY}, tmp_path, place="f")
    assert keys_of(settings, {"WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, tmp_path, place="f")
    assert all(row.asymmetric == (name in ("standard", "svix")) for name, row in SCHEMES.items())


def test_where_digests_are_pinned_no_other_key_starts(tmp_path: Path) -> None:
    settings = read(tmp_path, keys=f"{{env: [WEBHOOK_SECRET], sha256: [{digest_of_key(KEY)}]}}")
    assert keys_of(settings, {"WEBHOOK_SECRET": KEY}, tmp_path, place="f")
    with pytest.raises(Problem, match="not among") as raised:
        keys_of(settings, {"WEBHOOK_SECRET": OTHER}, tmp_path, place="f")
    assert OTHER not in str(raised.value)


def found(folder: Path, environ: dict[str, str], look_in: tuple[Path, ...] = (), keys: str | None = None) -> list[str]:
    text = keys or f"{{env: [WEBHOOK_SECRET], files: [secret.txt], sha256: [{digest_of_key(KEY)}]}}"
    settings = read(folder, keys=text, lab="{hostname: lab.example, inbox: lab.db}")
    return production_keys_here(settings, environ, folder, look_in)


def test_a_lab_without_a_key_is_let_be(tmp_path: Path) -> None:
    assert found(tmp_path, {"PATH": "/bin", "OTHER": OTHER}, (tmp_path,)) == []
    endpoint = lab_endpoint_of(read(tmp_path, lab="{hostname: lab.example, inbox: lab.db}"), place="f")
    assert (endpoint.limits.lane, endpoint.keys, endpoint.hostname) == ("lab", (), "lab.example")
    with pytest.raises(Problem, match="hostname"):
        lab_endpoint_of(read(tmp_path), place="f")


@pytest.mark.parametrize(
    "environ",
    [{"WEBHOOK_SECRET": KEY}, {"WEBHOOK_SECRET": "whatever"}, {"RENAMED": KEY}, {"PADDED": f" {KEY}\n"}, {"URL": f"x key={KEY} y"},
     {"JSON": f'{{"key": "{KEY}"}}'.replace("{", " ").replace("}", " ")}],
    ids=lambda environ: next(iter(environ)),
)  # fmt: skip
def test_a_production_key_in_the_environment_is_found_by_name_or_digest(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    [said] = found(tmp_path, environ)
    assert next(iter(environ)) in said and KEY not in said


def test_a_production_key_in_a_file_is_found_by_name_or_digest(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("not even the key")
    assert found(tmp_path, {}) == ["the file secret.txt"]
    (tmp_path / "secret.txt").unlink()
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "copied.env").write_text(f"A=1\nexport SIGNING='{KEY}'\nB=2\n")
    (conf / "harmless").write_text("nothing")
    [said] = found(tmp_path, {}, (conf,))
    assert said.endswith("copied.env") and KEY not in said
    assert found(tmp_path, {}, (conf / "copied.env",)) == [said]


def test_a_production_key_behind_a_link_or_in_a_huge_file_is_not_overlooked(tmp_path: Path) -> None:
    conf, elsewhere = tmp_path / "conf", tmp_path / "elsewhere"
    conf.mkdir()
    elsewhere.write_text(KEY)
    (conf / "link").symlink_to(elsewhere)
    (conf / "broken").symlink_to(tmp_path / "nowhere")
    with (conf / "huge").open("wb") as huge:
        huge.truncate((16 << 20) + 1)
    huge_one, link = found(tmp_path, {}, (conf,))
    assert "too large" in huge_one and link.endswith("conf/link")


def test_a_file_that_cannot_be_read_is_no_file_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(type(tmp_path)):  # type: ignore[misc]
        def open(self, *args: Any, **more: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    (tmp_path / "locked").write_text("x")
    [said] = found(tmp_path, {}, (Locked(tmp_path / "locked"),))
    assert "cannot be read" in said


def test_the_kit_s_file_is_refused_while_it_has_blanks_and_right_when_its_examples_are_filled_in(
    tmp_path: Path,
) -> None:
    path = tmp_path / "webhook.yaml"
    blank = (resources.files("drillmaster.kits.webhook") / "webhook.yaml").read_text()
    path.write_text(blank)
    with pytest.raises(Problem):
        read_settings(path, clock=ManualClock())
    lines, example = [], ""
    for line in blank.splitlines():
        if "Example: " in line:
            example = line.partition("Example: ")[2]
        elif (
            line.rstrip().endswith(":")
            and line.strip() not in ("keys:", "worker:")
            and not line.lstrip().startswith("#")
        ):
            line = f"{line} {example}"
        lines.append(line)
    path.write_text("\n".join(lines))
    settings = read_settings(path, clock=ManualClock())
    assert (settings.scheme, settings.keys.env, settings.lab) == ("stripe", ("WEBHOOK_SECRET",), None)
    assert settings.worker is not None and settings.worker.note_fields == ()


def test_init_writes_it_once(tmp_path: Path) -> None:
    path = tmp_path / "webhook.yaml"
    _webhook.init(path)
    with pytest.raises(Problem, match="is there"):
        _webhook.init(path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://u@h/d", "postgres://u@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h:5432/d"),
        ("postgresql://u@h/d", "postgresql://lab:secret@H/d?sslmode=require"),
        ("postgresql://u@h/d", "postgresql:///d?host=h"),
        ("postgresql://u@h/d", "postgresql://h/?dbname=d"),
        ("postgresql://u@h/d", "postgresql://u@other,h/d"),
        ("postgresql://d@h", "postgresql://lab@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/%64"),
    ],
)
def test_production_s_database_by_another_name_is_no_lab_s(tmp_path: Path, one: str, other: str) -> None:
    with pytest.raises(Problem, match="one of its own"):
        read(tmp_path, inbox=one, lab=f"{{hostname: lab.example, inbox: '{other}'}}")
    assert read(tmp_path, inbox=one, lab="{hostname: lab.example, inbox: postgresql://u@h/lab}").lab


def test_production_s_file_by_another_name_is_no_lab_s(tmp_path: Path) -> None:
    (tmp_path / "inbox.db").write_bytes(b"")
    (tmp_path / "hard.db").hardlink_to(tmp_path / "inbox.db")
    (tmp_path / "soft.db").symlink_to(tmp_path / "inbox.db")
    for name in ("hard.db", "soft.db"):
        with pytest.raises(Problem, match="one of its own"):
            read(tmp_path, lab=f"{{hostname: lab.example, inbox: {name}}}")


def _in_words(how: str) -> str:
    import base64
    import gzip
    import urllib.parse

    raw = KEY.encode()
    ways: dict[str, Any] = {
        "base64": lambda: base64.b64encode(raw).decode(),
        "base64 without padding": lambda: base64.b64encode(raw).decode().rstrip("="),
        "base64 with a newline": lambda: base64.b64encode(raw + b"\n").decode(),
        "base64 for URLs": lambda: base64.urlsafe_b64encode(raw).decode(),
        "base64 twice": lambda: base64.b64encode(base64.b64encode(raw)).decode(),
        "base64 of a line": lambda: base64.b64encode(b"SECRET=" + raw + b"\n").decode(),
        "base32": lambda: base64.b32encode(raw).decode(),
        "hex": raw.hex,
        "HEX": lambda: raw.hex().upper(),
        "hex of it with a newline": lambda: (raw + b"\n").hex(),
        "percent": lambda: "".join(f"%{byte:02X}" for byte in raw),
        "a URL": lambda: f"https://u:{urllib.parse.quote(KEY)}@h/p?x=1",
        "a query": lambda: f"https://h/p?key={KEY}&x=1",
        "JSON": lambda: f'{{"a":{{"key":"{KEY}","b":1}}}}',
        "escapes": lambda: "".join(f"\\u{byte:04x}" for byte in raw),
        "brackets": lambda: f"[{KEY}];({KEY})",
        "a shell": lambda: f"run --key={KEY};true",
        "NULs": lambda: f"A=1\0B={KEY}\0",
        "two lines": lambda: f"{KEY[:10]}\\\n{KEY[10:]}",
        "capitals about": lambda: f"<key>{KEY}</key>",
        "gzip": lambda: base64.b64encode(gzip.compress(raw)).decode(),
    }
    return str(ways[how]())


@pytest.mark.parametrize(
    "how",
    ["base64", "base64 without padding", "base64 with a newline", "base64 for URLs", "base64 twice", "base64 of a line",
     "base32", "hex", "HEX", "hex of it with a newline", "percent", "a URL", "a query", "JSON", "escapes", "brackets",
     "a shell", "NULs", "two lines", "capitals about", "gzip"],
)  # fmt: skip
def test_a_production_key_in_another_writing_is_found(tmp_path: Path, how: str) -> None:
    [said] = found(tmp_path, {"OTHER": _in_words(how)})
    assert "OTHER" in said and KEY not in said
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "a").write_text(f"first\nx: {_in_words(how)}\n")
    [said] = found(tmp_path, {}, (conf,))
    assert said.endswith("conf/a")


def test_a_production_key_in_a_file_of_another_text_encoding_is_found(tmp_path: Path) -> None:
    for name, encoding in (("a", "utf-16"), ("b", "utf-16-le"), ("c", "utf-8-sig"), ("d", "utf-32")):
        (tmp_path / name).write_text(f"key={KEY}\n", encoding=encoding)
        assert found(tmp_path, {}, (tmp_path / name,)), encoding


@pytest.mark.parametrize("how", ["bare", "hex", "urlsafe", "padded", "raw"])
def test_a_standard_key_without_its_prefix_is_found(tmp_path: Path, how: str) -> None:
    import base64

    raw = bytes(range(100, 131)) + b"\xff"
    text = "whsec_" + base64.b64encode(raw).decode()
    keys = f"{{env: [WEBHOOK_SECRET], sha256: [{digest_of_key(text)}]}}"
    said = {
        "bare": text[6:],
        "hex": raw.hex(),
        "urlsafe": base64.urlsafe_b64encode(raw).decode(),
        "padded": text.rstrip("="),
        "raw": "",
    }[how]
    if how == "raw":
        (tmp_path / "key.bin").write_bytes(raw)
        assert found(tmp_path, {}, (tmp_path / "key.bin",), keys)
        return
    assert found(tmp_path, {"OTHER": said}, (), keys) == ["the variable OTHER"]


def test_a_name_of_a_folder_or_file_that_is_the_key_is_found_and_not_said(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / KEY).write_text("x")
    [said] = found(tmp_path, {}, (conf,))
    assert KEY not in said
    [said] = found(tmp_path, {KEY: "x"})
    assert KEY not in said


def test_what_is_long_and_no_key_is_looked_through_in_a_moment(tmp_path: Path) -> None:
    import time

    (tmp_path / "long").write_text("0123456789abcdef" * 60_000 + "\n" + "a=b:c,d;" * 60_000)
    began = time.monotonic()
    assert found(tmp_path, {}, (tmp_path / "long",)) == []
    assert time.monotonic() - began < 10


def test_a_production_key_of_the_process_that_started_the_lab_is_found(tmp_path: Path) -> None:
    settings = read(tmp_path, keys=f"{{env: [WEBHOOK_SECRET], sha256: [{digest_of_key(KEY)}]}}")
    for parent in ({"WEBHOOK_SECRET": "any"}, {"RENAMED": KEY}):
        [said] = production_keys_here(settings, {}, tmp_path, (), parent=parent)
        assert "started" in said and next(iter(parent)) in said and KEY not in said
