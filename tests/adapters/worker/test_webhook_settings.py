"""The file that pins a webhook, the keys it names, and a lab that has none of them."""

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.webhook_settings import (
    Settings,
    digest_of_key,
    endpoint_of,
    keys_of,
    lab_endpoint_of,
    production_keys_here,
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
