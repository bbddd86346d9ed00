"""Listings of keys: lines, JSON, and what is refused before anything is asked."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.errors import Problem
from drillmaster.gates._cases.cache_keys import GOOD, LIMITS, NOW_NS, key
from drillmaster.gates.cache_keys import Keys
from drillmaster.intake.cache_keys import KeysIntake, scan
from drillmaster.intake.judging import Asked

ASKED = Asked(now_ns=NOW_NS, state=Path("state"))
WHEN = "2026-11-30T15:00:00Z"


def read(path: Path, taken_at: str | None = WHEN, **names: tuple[Path, ...]) -> Keys:
    intake = KeysIntake(path, None, taken_at=taken_at, names=names)  # type: ignore[arg-type]
    gathered = intake.gather(LIMITS, ASKED, None)
    assert isinstance(gathered.evidence, Keys)
    return gathered.evidence


def red(dump: Keys) -> set[str]:
    return {one.id for one in LIMITS.checks(dump) if one.status != "pass"}


def test_lines_are_keys(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("".join(f"{one}\n" for one in GOOD.keys))
    (tmp_path / "etags.txt").write_text('"abc"\n')
    (tmp_path / "topics.txt").write_text("carts\n")
    dump = read(tmp_path / "keys.txt", etag=(tmp_path / "etags.txt",), topic=(tmp_path / "topics.txt",))
    assert dump.keys == GOOD.keys
    assert dump.names == {"etag": ('"abc"',), "topic": ("carts",), "lock": ("lock:nightly-export",)}
    assert red(dump) == set()


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", {"examined"}),
        (b"\n", {"examined", "shape"}),
        ("".join(f"{one}\n" for one in GOOD.keys).encode()[:-1], {"whole"}),
        ("".join(f"{one}\n" for one in GOOD.keys).encode() + b"\xff\xfe\n", {"whitespace"}),
        ("".join(f"{one}\n" for one in GOOD.keys).encode() + b"a key\r\n", {"whitespace"}),
        ("".join(f"{one}\r\n" for one in GOOD.keys).encode(), set()),
    ],
)
def test_a_listing_that_is_none_is_refused(tmp_path: Path, data: bytes, wrong: set[str]) -> None:
    (tmp_path / "keys.txt").write_bytes(data)
    assert {one for one in red(read(tmp_path / "keys.txt")) if not one.startswith("names.")} == wrong


def test_lines_without_a_time_are_refused(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("".join(f"{one}\n" for one in GOOD.keys))
    assert "fresh" in red(read(tmp_path / "keys.txt", taken_at=None))
    with pytest.raises(Problem, match="RFC 3339"):
        read(tmp_path / "keys.txt", taken_at="yesterday")


LISTING: dict[str, Any] = {
    "kind": "cache-keys",
    "version": 1,
    "source": "redis of the shop",
    "taken_at": WHEN,
    "complete": True,
    "keys": list(GOOD.keys),
    "etags": ['"abc"'],
    "topics": ["carts"],
}


def test_json_has_its_own_time_and_names(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(LISTING))
    assert red(read(tmp_path / "keys.json", taken_at=None)) == set()
    (tmp_path / "keys.json").write_text(json.dumps({**LISTING, "complete": False}))
    assert red(read(tmp_path / "keys.json", taken_at=None)) == {"whole"}
    with pytest.raises(Problem, match="has its own"):
        read(tmp_path / "keys.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "keys"},
        {"version": 2},
        {"taken_at": 5},
        {"taken_at": "2026-11-30T15:00:00"},
        {"complete": "true"},
        {"complete": None},
        {"keys": "cart-v3"},
        {"keys": [5]},
        {"etags": [None]},
        {"verdict": "pass"},
    ],
)
def test_json_of_another_shape_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({**LISTING, **changed}))
    with pytest.raises(Problem):
        read(tmp_path / "keys.json", taken_at=None)


def test_a_file_or_redis_and_not_both() -> None:
    for file, url in ((None, None), (Path("keys.txt"), "redis://127.0.0.1:6379/0")):
        with pytest.raises(Problem, match="one of them"):
            KeysIntake(file, url)
    with pytest.raises(Problem, match="listed now"):
        KeysIntake(None, "redis://127.0.0.1:6379/0", taken_at=WHEN).gather(LIMITS, ASKED, None)


@pytest.mark.parametrize(
    ("url", "hosts", "permit", "said"),
    [
        ("", (), None, "no URL of Redis"),
        ("http://127.0.0.1:6379", (), None, "no URL of Redis"),
        ("redis://", (), None, "no URL of Redis"),
        ("redis://:hunter2@127.0.0.1:6379/0", (), None, "a password in a URL"),
        ("redis://127.0.0.1:6379/0?password=hunter2", (), None, "a password in a URL"),
        ("redis://cache.example.com:6379/0", (), None, "another machine"),
        ("redis://cache.example.com:6379/0", ("cache.example.com",), None, "another machine"),
        ("redis://cache.example.com:6379/0", (), "cache.example.com", "another machine"),
        ("redis://cache.example.com:6379/0", ("cache.example.com",), "cache", "another machine"),
        ("redis://10.0.0.7:6379/0", (), None, "another machine"),
        ("redis://[::ffff:10.0.0.7]:6379/0", (), None, "another machine"),
    ],
)
def test_no_other_machine_is_asked_unless_two_people_say_so(
    url: str, hosts: tuple[str, ...], permit: str | None, said: str
) -> None:
    with pytest.raises(Problem, match=said) as told:
        scan(url, hosts=hosts, permit_host=permit, most=10, password=None)
    assert "hunter2" not in str(told.value)


def test_the_digest_is_of_what_was_listed_in_whatever_order(tmp_path: Path) -> None:
    def digest(keys: tuple[str, ...], **names: str) -> str:
        (tmp_path / "keys.txt").write_text("".join(f"{one}\n" for one in keys))
        for use, name in names.items():
            (tmp_path / use).write_text(f"{name}\n")
        intake = KeysIntake(tmp_path / "keys.txt", None, names={use: (tmp_path / use,) for use in names})  # type: ignore[misc]
        return intake.gather(msgspec.structs.replace(LIMITS, others=()), ASKED, None).digest

    assert digest(("a", "b")) != digest(("a\0b",))
    one = digest(GOOD.keys)
    assert one == digest(tuple(reversed(GOOD.keys)))
    assert (
        len(
            {
                one,
                digest((*GOOD.keys, key("tenant_north_01", "x"))),
                digest(GOOD.keys, etag="a"),
                digest(GOOD.keys, lock="a"),
            }
        )
        == 4
    )
