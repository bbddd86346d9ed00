"""A recording before anything is sent: who may be asked, with what; and what is taken out of an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.intake import fixtures
from drillmaster.intake.fixtures import Order, StagingPlan, order
from drillmaster.plan import Permit
from drillmaster.rules.http_fixture import fixture_digest, read_fixture
from drillmaster.sanity.permission import split_url
from drillmaster.screen import MARK

NOW_NS = parse_rfc3339("2026-11-30T12:00:00Z") or 0
TOKEN = "sk" + "-" + "fedcba9876543210fedcba98"
URL = "https://staging.example.com/v1/charges"


def plan(**more: Any) -> StagingPlan:
    permit = {
        "host": "staging.example.com",
        "owner": "payments",
        "until": "2026-12-31",
        "max_per_s": 1.0,
        "max_requests": 10,
    }
    url = more.pop("url", URL)
    return StagingPlan(kind="staging", version=1, target={"url": url, "permit": Permit(**(permit | more))})  # type: ignore[arg-type]  # converted below


def asked(url: str = URL, **more: Any) -> Order:
    told: dict[str, Any] = {
        "plan": None, "place": "staging.yaml", "permit_host": None, "method": "GET", "headers": (), "body": None,
        "token_env": None, "token_header": "Authorization", "environ": {}, "now_ns": NOW_NS,
    }  # fmt: skip  # pairs
    told |= more
    given = told.pop("plan")
    if given is not None:
        import msgspec

        given = msgspec.convert(msgspec.to_builtins(given), StagingPlan)
    return order(url, given, **told)


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        (URL, {}, "not loopback"),
        (URL, {"plan": plan()}, "found nothing"),  # said once, not twice
        (URL, {"plan": plan(), "permit_host": "other.example.com"}, "permission is given twice"),
        (URL, {"plan": plan(host="other.example.com"), "permit_host": "staging.example.com"}, "permission for other"),
        (URL, {"plan": plan(owner=" "), "permit_host": "staging.example.com"}, "no owner"),
        (URL, {"plan": plan(until="2026-01-01"), "permit_host": "staging.example.com"}, "over before"),
        (URL, {"plan": plan(max_requests=0), "permit_host": "staging.example.com"}, "1 requests planned"),
        (URL, {"plan": plan(url="https://prod.example.com"), "permit_host": "staging.example.com"}, "same scheme"),
        (URL.replace("https", "http"), {"plan": plan(), "permit_host": "staging.example.com"}, "same scheme"),
        ("https://u:p@staging.example.com/", {}, "user info"),
        ("ftp://127.0.0.1/", {}, "http(s)"),
        ("http://127.0.0.1/a\nb", {}, "http(s)"),
        ("", {}, "http(s)"),
        ("http://127.0.0.1/#x", {}, "fragment"),
        ("http://127.0.0.1/", {"method": "get"}, "one of GET"),
        ("http://127.0.0.1/", {"method": "CONNECT"}, "one of GET"),
        ("http://127.0.0.1/", {"token_env": "STAGING_TOKEN"}, "not set"),
        ("http://127.0.0.1/", {"token_env": TOKEN}, "name no variable"),
        ("http://127.0.0.1/", {"token_env": "T", "environ": {"T": "short"}}, "no token"),
        ("http://127.0.0.1/", {"token_env": "T", "environ": {"T": "a\nb" * 8}}, "no token"),
        ("http://127.0.0.1/", {"headers": ("Authorization: Bearer x",)}, "credential"),
        ("http://127.0.0.1/", {"headers": (f"X-Thing: {TOKEN}",)}, "credential"),
        ("http://127.0.0.1/", {"headers": ("X-Api-Key: abc",)}, "credential"),
        ("http://127.0.0.1/", {"headers": ("Host: x",)}, "none of ours"),
        ("http://127.0.0.1/", {"headers": ("nothing",)}, "NAME: VALUE"),
        ("http://127.0.0.1/", {"headers": ("a: 1", "A: 2")}, "once a name"),
        ("http://127.0.0.1/", {"headers": ("a: 1\r\nb: 2",)}, "one ASCII line"),
    ],
)
def test_what_may_not_be_asked_is_refused_before_anything_is_sent(url: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as caught:
        asked(url, **more)
    assert said in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_token_goes_over_no_open_wire() -> None:
    with pytest.raises(Problem, match="open wire"):
        asked(
            "http://staging.example.com/",
            plan=plan(url="http://staging.example.com/"),
            permit_host="staging.example.com",
            token_env="T",
            environ={"T": TOKEN},
        )


def test_a_permitted_host_is_asked_with_the_token_that_is_named() -> None:
    made = asked(plan=plan(), permit_host="STAGING.example.com", token_env="T", environ={"T": TOKEN, "OTHER": "x"})
    assert made.headers == {"authorization": f"Bearer {TOKEN}"}
    assert made.outside


def written(
    body: bytes,
    *,
    fields: tuple[tuple[str, str], ...] = (),
    kept: tuple[str, ...] = (),
    token: str | None = TOKEN,
    url: str = URL,
) -> dict[str, Any]:
    parts = split_url(url)
    assert parts is not None
    text = fixtures._written(
        Order(parts, True, "POST", {}, b"{}", token), 409, fields, body, kept=kept, by="Ada", now_ns=NOW_NS
    )
    read_fixture(text.encode(), place="f.json")
    assert TOKEN not in text
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_json_is_kept_as_it_is_meant_and_text_as_it_is() -> None:
    assert written(b'{"code": "amount_zero", "n": [1, 2.5, null]}')["response"]["json"] == {
        "code": "amount_zero",
        "n": [1, 2.5, None],
    }
    assert written(b"<html>no</html>\n")["response"]["text"] == "<html>no</html>\n"
    assert written(b"")["response"] == {"headers": {}, "status": 409}
    assert written(b'{"a": 1, "a": 2}')["response"]["text"] == '{"a": 1, "a": 2}'  # which of them is meant nobody knows
    assert written(b'{"n": 1e999}')["response"]["text"] == '{"n": 1e999}'
    assert written('{"ä": "ö"}'.encode())["response"]["json"] == {"ä": "ö"}


def test_a_body_that_is_no_text_is_refused() -> None:
    with pytest.raises(Problem, match="no text"):
        written(b"\x89PNG\x00\xff")


@pytest.mark.parametrize(
    "body",
    [
        {"echo": f"Bearer {TOKEN}"}, {"access_token": "abc"}, {"password": "hunter two"}, {"a": {"api_key": "k"}},
        {"headers": ["x", TOKEN]},
        {"url": f"https://u:{TOKEN}@example.com/"}, {"client_secret": "x y"}, {"set-cookie": "a=b"},
    ],
)  # fmt: skip  # a list
def test_a_credential_in_the_answer_is_taken_out_and_counted(body: dict[str, Any]) -> None:
    made = written(json.dumps(body).encode())
    assert made["screened"] >= 1
    assert MARK in json.dumps(made)


def test_a_credential_in_text_and_in_fields_is_taken_out() -> None:
    made = written(
        f"token: {TOKEN}".encode(),
        fields=(
            ("Set-Cookie", "sid=abc"),
            ("X-Echo", f"Bearer {TOKEN}"),
            ("Content-Type", "text/plain"),
            ("X-Other", "1"),
        ),
        kept=("set-cookie", "X-Echo"),
    )
    assert made["response"]["headers"] == {"content-type": "text/plain", "set-cookie": MARK, "x-echo": f"Bearer {MARK}"}
    assert MARK in made["response"]["text"]


def test_values_of_a_query_are_not_kept() -> None:
    assert written(b"{}", url=URL + "?customer=77&x")["request"]["path"] == f"/v1/charges?customer={MARK}&{MARK}"


def test_a_number_and_a_word_are_no_credentials() -> None:
    made = written(b'{"code": "amount_zero", "max_tokens": 5, "tokens": 7, "id": "ch_1"}')
    assert made["screened"] == 0


def test_what_is_recorded_names_host_time_person_and_digest() -> None:
    made = written(b"{}")
    assert (made["host"], made["recorded_at"], made["recorded_by"]) == (
        "staging.example.com",
        "2026-11-30T12:00:00Z",
        "Ada",
    )
    assert made["sha256"] == fixture_digest(made)
    assert made["request"]["body_sha256"].startswith("sha256:")


@pytest.mark.parametrize("by", ["", " ", "dependabot[bot]", "a\nb"])
def test_somebody_answers_for_a_recording(tmp_path: Path, by: str) -> None:
    with pytest.raises(Problem, match="--by"):
        fixtures.record(asked("http://127.0.0.1:9/"), tmp_path / "f.json", kept=(), by=by, now_ns=NOW_NS)


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "f.json"
    out.symlink_to("gone")
    with pytest.raises(Problem, match="a file that is there"):
        fixtures.record(asked("http://127.0.0.1:9/"), out, kept=(), by="Ada", now_ns=NOW_NS)


def test_one_changed_character_is_told(tmp_path: Path) -> None:
    good, bad, none = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "none.json"
    text = json.dumps(written(b'{"code": "amount_zero"}'))
    good.write_text(text)
    bad.write_text(text.replace("409", "402"))
    said = [type(one[1]).__name__ for one in fixtures.check([good, bad, none])]
    assert said == ["Fixture", "Problem", "Problem"]


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"status": "HTTP/1.1 409", "body": {}}', "[" * 2_000, '{"kind": "http-fixture"}', "\ufeff{}"],
)
def test_what_is_no_recording_is_told(text: str) -> None:
    with pytest.raises(Problem):
        read_fixture(text.encode(), place="f.json")
