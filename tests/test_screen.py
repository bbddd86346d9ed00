import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import screen
from drillmaster.screen import (
    MARK,
    screen_text,
)

# Made up, all of them: the part that must not survive, and a text around it. The bars are taken out below; without
# them whoever scans repositories for credentials would find some here.
_SECRETS = [
    ("sk|-ant-api03-AbCdEf123456789", "the key {} is wrong"),
    ("sk|-proj-abcdefghijkl", "OPENAI_API_KEY={}"),
    ("sk|_live_0madeUp1madeUp2madeUp3", "stripe {}"),
    ("rk|_test_0madeUp1madeUp2madeUp3", "({})"),
    ("gsk|_abcdefghijklmnop1234", "{}"),
    ("ghp|_abcdefghijklmnopqrst1234", "remote: {}."),
    ("gho|_abcdefghijklmnopqrst1234", "x,{}"),
    ("ghs|_abcdefghijklmnopqrst1234", "{}"),
    ("ghu|_abcdefghijklmnopqrst1234", "{}"),
    ("ghr|_abcdefghijklmnopqrst1234", "{}"),
    ("github|_pat_11ABCDEFG0abcdefghijkl_mnop", "'{}'"),
    ("glpat|-abcdefghij1234567890", "{}"),
    ("hf|_abcdefghijklmnopqrstuvwx", "{}"),
    ("npm|_abcdefghijklmnopqrstuvwx", "{}"),
    ("xai|-abcdefghijklmnopqrstuvwx", "{}"),
    ("xoxb|-123456789012-abcdefghij", "slack {}"),
    ("xapp|-1-A012-345-abcdef", "{}"),
    ("AK|IAIOSFODNN7EXAMPLE", "id {}"),
    ("AS|IAIOSFODNN7EXAMPLE", "id {}"),
    ("AI|zaSyA-1234567890abcdefghijklmnopqrstu", "{}"),
    ("ya|29.a0AfH6SMBabcdefghij", "{}"),
    ("whsec|_0madeUp1madeUp2madeUp3", "{}"),
    ("ey|JhbGciOiJIUzI1NiJ9.ey|JzdWIiOiIxIn0.abc-DEF_123", "jwt {}"),
    ("abcdefgh.ijk-lmn", "Authorization: Bearer {}"),
    ("opaquetokenvalue", "sent bearer {} upstream"),
    ("dXNlcjpwYXNz", "proxy said Basic {}"),
    ("hunter2", "password={}"),
    ("hunter2", "password: {}"),
    ("correcthorse", "password: {}\n"),
    ("correct horse battery", '"db_password": "{}", "n": 1'),
    ("hunter2", "{{\\\"secret\\\": \\\"{}\\\"}}"),
    ("aB3dE5fG7h", "client_secret: '{}'"),
    ("opaque", "my_token={}&x=1"),
    ("opaque", "x-goog-api-key: '{}'"),
    ("a-b_c=d.e~f1", "api-key={}"),
    ("AbCdEf0123456789XyZw", "key={}"),
    ("session=abc; theme=dark", "Cookie: {}"),
    ("session=abc; Path=/", "set-cookie: {}"),
    ("AWS4-HMAC-SHA256 Credential=AK/2026, Signature=ff", "authorization: {}"),
    ("user:pw", "postgres://{}@db:5432/x"),
    (":p@ss", "redis://{}@h:1"),
    ("user:pw", '"url":"https:\\/\\/{}@h\\/"'),
    ("T00/B00/XXXXXXXX", "https://hooks.slack.com/services/{}"),
    ("123/abcDEF", "POST https://discord.com/api/webhooks/{} failed"),
    ("opaque", "GET https://h/p?sig={}&x= HTTP/1.1"),
    ("hunter2", "agent --password {} --fast"),
    ("hunter2", "cmd: [python, agent.py, --db-password, {}]"),
    ("a-b_c.d", "argv ['agent', '--api-key', '{}']"),
    ("horse", '["--auth-token","{}","-v"]'),
    (
        "-----BEGIN RSA PRIV|ATE KEY-----\nMIIabc\nxyz==\n-----END RSA PRIV|ATE KEY-----",
        "before\n{}\nafter",
    ),
    ("-----BEGIN PRIV|ATE KEY-----\\nMIIabc\\n-----END PRIV|ATE KEY-----", '{{"pem": "{}"}}'),
    ("-----BEGIN OPENSSH PRIV|ATE KEY-----\nMIIabc\nnever ended", "{}"),
]  # fmt: skip
SECRETS = [(secret.replace("|", ""), around) for secret, around in _SECRETS]

INNOCENT = [
    "",
    "The token bucket holds one token; the secret of a good drill is a key question: who reads the cookie jar?",
    "authorization: the process of deciding what a bearer token may do. Basic configuration, basic authentication.",
    "password: please enter it",
    "a risk-based, task-oriented desk-bound asset: disk-space 5",
    '"max_tokens": 500, "prompt_tokens": 12, "token_count": 7, tokens=5',
    '"token": null, "password": null, token=none',
    "password=${DB_PASSWORD} token=$TOKEN api_key=<your key>",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "Idempotency-Key: 123e4567-e89b-12d3-a456-426614174000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"key":"0123456789abcdef","trace":"4bf92f3577b34da6a3ce929d0e0e4736","nonce":"dmn0123456789abcdef"',
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "runs/20261129T153000Z-1a2b/events/proxy.jsonl:12",
    "http://127.0.0.1:8081/v1/chat/completions and https://example.org/docs#anchor",
    "who is there? mail me@example.org // or not",
    '{"t":"2026-11-29T12:00:00Z","event":"fallback_engaged","id":"r-17","path":"fallback","model":"gpt-4o-mini"}',
    "cache_key = tenant/7/prompt, sort key: name, monkey=banana",
    "cookie: chocolate",
    "give it --password or set --api-key to a file; --token <TOKEN>, --password $DB_PASSWORD",
    "--api-key --verbose",
    "--max-tokens 500",
    '{"token": "{nonce}", "password": "{payload}", "session_token": \'{id}\'}',
    "http://127.0.0.1:8000/answer?q={payload}&n={nonce}&r={id}{nonce}",
]


@pytest.mark.parametrize(("secret", "around"), SECRETS)
def test_a_planted_secret_does_not_survive(secret: str, around: str) -> None:
    screened = screen_text(around.format(secret))
    assert secret not in screened
    assert MARK in screened
    for part in re.findall(r"[A-Za-z0-9]{9,}", secret):
        if "PRIVATE" not in secret and part not in around:
            assert part not in screened


@pytest.mark.parametrize(
    "text", ["the webhook answers", '\n{"guard":"cache-key","allowed":true}', '\n{"tokens":500}\n', "a\ntoken"]
)
def test_what_only_looks_as_if_is_given_back_as_the_same_object(text: str) -> None:
    assert screen_text(text) is text  # who writes lines goes by that: it screens part by part where it is another


_PIECES = st.sampled_from(
    [
        "key",
        "token",
        "password",
        "pwd",
        "secret",
        "authorization",
        "cookie",
        "credential",
        "--",
        "-",
        ":",
        "=",
        "=>",
        "=",
        '"',
        "'",
        "\\",
        ",",
        ";",
        "\n",
        "bearer",
        "basic",
        "hunter2",
        "AbCdEf12345GhIjKl67890",
        "api_",
        "X-",
        "a.b",
        "0",
        "session=1",
        "{}",
        "@",
        "?",
        "//",
        "https://",
    ]
)


@given(st.lists(_PIECES, max_size=12))
def test_an_expression_that_is_not_asked_would_have_said_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    low = text.lower()
    for triggers, expression, *signs in screen._SHAPES:
        if not any(trigger in low for trigger in triggers) or (signs and not any(sign in low for sign in signs)):
            assert re.search(expression, text, re.ASCII) is None


_R = "Zq81mNvXw27LpTd5Hs3KcRb9"
_HEX = "a1b2c3d4" * 4


@pytest.mark.parametrize(
    ("before", "secret"),
    [
        ("", f"SG.{_R[:22]}.{_R}{_R[:19]}"), ("", f"pplx-{_R}"), ("", f"r8_{_R}{_R[:13]}"), ("", f"shppa_{_HEX}"),
        ("", f"shpat_{_HEX}"),
        ("", f"pypi-AgEIcHlwaS5vcmc{_R}"), ("", f"lin_api_{_R}"), ("", f"dapi{_HEX}"), ("", f"ntn_{_R}"), ("", f"dop_v1_{_HEX}"),
        ("", f"hvs.{_R}"), ("", f"AGE-SECRET-KEY-1{_R.upper()}"), ("", f"NRAK-{_R.upper()}"), ("", f"dp.st.prd.{_R}"),
        ("", f"1234567890:AA{_R}{_R[:9]}"), ("AccountKey=", f"{_R}{_R}=="),
        ("https://hooks.zapier.com/hooks/catch/", "12345/abc9def/"),
        ("https://maker.ifttt.com/trigger/x/with/key/", _R), ("https://hook.eu1.make.com/", _R),
        ("https://events.pagerduty.com/integration/", f"{_HEX}/enqueue"),
    ],
)  # fmt: skip  # one case a piece
def test_keys_and_webhooks_of_more_vendors_go(before: str, secret: str) -> None:
    for text in (f"use {before}{secret} for it", f'{{"text":"{before}{secret}"}}', f"{before}{secret}\n"):
        assert screen_text(text, keep_length=True) == text.replace(secret, "*" * len(secret))


@pytest.mark.parametrize(
    "text",
    [
        "msg.content of sg.example", "a map of r8_x", "pypi-server and dapi", "ntn_ and lin_api_ are names", "12:AA",
        "make.com/pricing",
        "https://zapier.com/apps", "dp.st.x", "page 1234567890:AAbb", "the account key of the box", "pagerduty.com/docs",
    ],
)  # fmt: skip  # one case a piece
def test_words_that_only_begin_so_stay(text: str) -> None:
    assert screen_text(text) is text


def test_every_trigger_is_looked_for_by_the_quick_no() -> None:
    for triggers, _, *_ in screen._SHAPES:
        for trigger in triggers:
            near = f"https://x.{trigger}y?z@" if trigger in ("@", "?") or trigger.startswith("/") else f"x {trigger}"
            assert screen.suspicious(near) or trigger == "private key", trigger
