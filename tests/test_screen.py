import random
import re
import string
import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster import screen
from drillmaster.screen import (
    HOLD_BYTES,
    MARK,
    Screener,
    key_hash,
    screen_argv,
    screen_headers,
    screen_text,
    screen_url,
    screen_value,
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


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_text_and_what_joins_evidence_is_left_alone(text: str) -> None:
    assert screen_text(text) == text


@pytest.mark.parametrize(
    ("text", "screened"),
    [
        ("401 for sk-ant-api03-AbCdEf: wrong key.", f"401 for {MARK}: wrong key."),
        ('{"api_key": "a\\"b", "n": 1}', f'{{"api_key": "{MARK}", "n": 1}}'),
        ("GET https://h/p?sig=abc&x=&y#top done", f"GET https://h/p?sig={MARK}&x=&{MARK}#top done"),
        ("Cookie: a=b; c=d\r\nAccept: */*", f"Cookie: {MARK}\r\nAccept: */*"),
        ("a\n-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nb", f"a\n{MARK}\nb"),
        ("token=abc, token=def", f"token={MARK}, token={MARK}"),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, screened: str) -> None:
    assert screen_text(text) == screened


@pytest.mark.parametrize(("secret", "around"), SECRETS)
def test_screened_text_screens_to_itself(secret: str, around: str) -> None:
    once = screen_text(around.format(secret))
    assert screen_text(once) == once


def test_the_quick_pass_knows_every_trigger_of_the_shapes() -> None:
    for triggers, _ in screen._SHAPES:
        for trigger in triggers:
            text = {
                "@": "a://b@c",
                "?": "a://b?c",
                "/services/": "hooks.slack.com/services/",
                "/workflows/": "hooks.slack.com/workflows/",
                "hf_": "hf_",
            }.get(trigger, trigger)
            assert screen._suspicious(text), trigger
            assert screen._suspicious(text.upper()), trigger


def test_our_own_key_field_is_let_by_and_an_api_key_of_the_same_form_is_not() -> None:
    assert not screen._suspicious('"key":"0123456789abcdef"')
    assert "0123456789abcdef" not in screen_text('"api_key":"0123456789abcdef"')


def in_chunks(data: bytes, cuts: list[int], *, keep_length: bool = False) -> bytes:
    screener = Screener(keep_length=keep_length)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parts = [screener.feed(data[a:b]) for a, b in pairwise(edges)]
    return b"".join(parts) + screener.close()


pieces = st.one_of(
    st.sampled_from([around.format(secret) for secret, around in SECRETS]),
    st.sampled_from(INNOCENT),
    st.sampled_from(["\n", " ", '"', "=", ": ", "password", "-----BEGIN PRIVATE KEY-----", "://", "@", "?a=", "é"]),
    st.text(max_size=8),
)


@given(st.lists(pieces, max_size=8).map("".join), st.lists(st.integers(0, 10_000), max_size=12))
@example("password=\nhunter2", [9, 10])
def test_any_chunking_gives_the_same_result_as_the_whole_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    assert in_chunks(data, cuts) == in_chunks(data, []) == screen_text(text).encode()


@given(st.lists(pieces, max_size=8).map("".join), st.lists(st.integers(0, 10_000), max_size=12))
def test_kept_lengths_are_kept_and_only_secrets_change(text: str, cuts: list[int]) -> None:
    data = text.encode()
    screened = in_chunks(data, cuts, keep_length=True)
    assert len(screened) == len(data)
    assert all(new in (old, ord("*")) for old, new in zip(data, screened, strict=True))


@given(st.lists(pieces, max_size=6).map("".join))
@example("https://hooks.slack.com/services/T00/B00/X-----BEGIN PRIVATE KEY-----")
@example("redis://:p@ss@h:1-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----:p@ss")
@example("AK" + "IAIOSFODNN7EXAMPLEgsk" + "_abcdefghijklmnop1234")
@example("bearer bearer opaquetokenvalue")
def test_screening_twice_is_screening_once(text: str) -> None:
    once = screen_text(text)
    assert screen_text(once) == once


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_bytes_that_are_no_text_pass_in_any_chunking(data: bytes, cuts: list[int]) -> None:
    assert in_chunks(data, cuts) == in_chunks(data, [])


@pytest.mark.parametrize(("secret", "around"), SECRETS)
def test_a_secret_cut_in_two_anywhere_does_not_slip_through(secret: str, around: str) -> None:
    data = around.format(secret).encode()
    whole = in_chunks(data, [])
    for cut in range(len(data)):
        assert in_chunks(data, [cut]) == whole


@pytest.mark.parametrize("offset", [-200, -30, -5, -1, 0, 1, 40])
@pytest.mark.parametrize("edge", [HOLD_BYTES, HOLD_BYTES - 4096])
def test_a_secret_at_the_edge_of_a_window_of_an_endless_line_is_screened(edge: int, offset: int) -> None:
    secret = b"sk-ant-api03-AbCdEf123456789"
    for filling in (b"word ", b"x", b'{"a":1},'):
        head = (filling * edge)[: edge + offset]
        data = head + b' "api_key":"' + secret + b'" ' + filling * 20_000
        screened = in_chunks(data, [edge, edge + 7, edge - 3])
        assert secret[:12] not in screened
        assert screened == in_chunks(data, [])
        assert screened == data.replace(secret, MARK.encode())


def test_a_secret_longer_than_a_window_goes_whole_and_what_follows_stays() -> None:
    data = b'{"token":"' + b"aB3" * HOLD_BYTES + b'","n":1}\nnext'
    screened = in_chunks(data, [17, HOLD_BYTES, 2 * HOLD_BYTES])
    assert b"aB3" not in screened
    assert screened.endswith(b'","n":1}\nnext')
    assert screened == in_chunks(data, [])
    assert len(in_chunks(data, [5], keep_length=True)) == len(data)


def test_a_screener_holds_back_no_more_than_its_bound() -> None:
    screener = Screener()
    given_bytes = taken = 0
    for _ in range(200):
        given_bytes += 1000
        taken += len(screener.feed(b"x" * 1000))
        assert given_bytes - taken <= HOLD_BYTES
    assert taken + len(screener.close()) == given_bytes


@pytest.mark.parametrize("before", [0, 10, HOLD_BYTES - 30_000, HOLD_BYTES - 4096, HOLD_BYTES - 10, HOLD_BYTES])
def test_a_long_private_key_in_one_line_is_hidden_to_its_end_and_no_further(before: int) -> None:
    key = b"-----BEGIN PRIVATE KEY-----" + b"y" * 30_000 + b"-----END PRIVATE KEY-----"
    data = b"x " * (before // 2) + key + b" what follows stays"
    assert in_chunks(data, [before, before + 5, before + 29_000]) == data.replace(key, MARK.encode())
    assert in_chunks(data, [7], keep_length=True) == data.replace(key, b"*" * len(key))


def test_a_private_key_without_an_end_hides_a_bounded_stretch() -> None:
    data = b"-----BEGIN PRIVATE KEY-----\n" + b"word\n" * 20_000 + b"the end"
    assert in_chunks(data, [7, 40_000]).endswith(b"word\nthe end")


@pytest.mark.parametrize(
    "run", ["a", "k", "key", "a=", "://", "a:", '"', "\\", "sk-", "password ", "eyJ", "?a&", "-----BEGIN "]
)
def test_no_text_takes_long(run: str) -> None:
    text = (run * 70_000)[:60_000]
    before = time.process_time()
    screen_text(text)
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("url", "screened"),
    [
        ("", ""),
        ("https://h:1/p", "https://h:1/p"),
        ("https://user:pw@h:1/p?a=1&b&c=#frag", f"https://{MARK}@h:1/p?a={MARK}&{MARK}&c=#{MARK}"),
        ("/p?token=opaque", f"/p?token={MARK}"),
        ("//u:p@h/x", f"//{MARK}@h/x"),
        ("u:p@h/x", f"{MARK}@h/x"),
        ("https://a@b@h/", f"https://{MARK}@h/"),
        ("https://h/v1/sk-ant-api03-abcdef/x", f"https://h/v1/{MARK}/x"),
        ("https://hooks.slack.com/services/T0/B0/X", f"https://hooks.slack.com/services/{MARK}"),
        ("?", "?"),
        ("https://h?x", f"https://h?{MARK}"),
    ],
)
def test_a_url_keeps_its_names_and_loses_its_values(url: str, screened: str) -> None:
    assert screen_url(url) == screened
    assert screen_url(screened) == screened


@given(st.text(alphabet=string.ascii_letters + ":/?#@&=;%[]*.-", max_size=40))
def test_a_url_of_any_form_screens_to_itself_the_second_time(url: str) -> None:
    assert screen_url(screen_url(url)) == screen_url(url)


@pytest.mark.parametrize(
    "name",
    ["Authorization", "proxy-authorization", "COOKIE", "Set-Cookie", "x-api-key", "api-key", "X-Goog-Api-Key",
     "X-Gitlab-Token", "X-Client-Secret"],
)  # fmt: skip
def test_credential_headers_are_replaced_by_name(name: str) -> None:
    assert screen_headers([(name, "x"), ("Accept", "*/*")]) == [(name, MARK), ("Accept", "*/*")]


@pytest.mark.parametrize(
    ("challenge", "kept"),
    [
        ("x", MARK),
        ('Bearer realm="mcp"', MARK),
        ("Negotiate YWJjZGVmZ2hpamts", MARK),
        ('Digest realm="r", nonce="a1b2c3", opaque="d4"', MARK),
        (
            'Bearer realm="mcp", error="invalid_token", error_description="The access token eyJabcdef.x expired"',
            f'Bearer {MARK}, error="invalid_token", {MARK}',
        ),
        ('Bearer error="invalid_token"', 'Bearer error="invalid_token"'),
        ('bearer Error=insufficient_scope, scope="a:read"', f"bearer Error=insufficient_scope, {MARK}"),
        ('DPoP error="use_dpop_nonce", algs="ES256"', f'DPoP error="use_dpop_nonce", {MARK}'),
        ('Bearer error="hunter2"', MARK),  # no word of a document's
        ('Bearer error="invalid_token hunter2"', MARK),
        ("Bearer error=invalid_tokens3cret", MARK),
        ('Bearer myerror="invalid_token"', MARK),
        ('Hunter2 error="invalid_token"', f'{MARK}, error="invalid_token"'),
        (
            'Bearer error="invalid_token", Basic aHVudGVyMjo=, error="invalid_request"',
            f'Bearer error="invalid_token", {MARK}, error="invalid_request"',
        ),
    ],
)
def test_of_a_challenge_stay_the_error_words_that_a_document_has(challenge: str, kept: str) -> None:
    for name in ("WWW-Authenticate", "proxy-authenticate"):
        assert screen_headers([(name, challenge)]) == [(name, kept)]
        assert screen_headers([(name, kept)]) == [(name, kept)]


def test_other_headers_are_screened_as_text_and_keep_their_order() -> None:
    pairs = [
        ("Referer", "https://u:p@h/"),
        ("X-Note", "sk-ant-api03-abcdef"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("Idempotency-Key", "123e4567-e89b-12d3-a456-426614174000"),
    ]
    assert screen_headers(pairs) == [("Referer", f"https://{MARK}@h/"), ("X-Note", MARK), *pairs[2:]]


def test_what_fills_a_plans_url_is_no_secret_and_what_stands_beside_it_may_be_one() -> None:
    url = "http://127.0.0.1:8000/answer?q={payload}&key=hunter2{nonce}&x={other}"
    kept = f"http://127.0.0.1:8000/answer?q={{payload}}&key={MARK}{{nonce}}&x={MARK}"
    assert screen_url(url) == screen_text(url) == kept
    assert screen_url(kept) == screen_text(kept) == kept


@pytest.mark.parametrize(
    ("argv", "screened"),
    [
        (["agent", "--password", "horse", "--fast"], ["agent", "--password", MARK, "--fast"]),
        (["agent", "--api-key", "-x"], ["agent", "--api-key", MARK]),  # a value may begin with a dash
        (["agent", "--api-key", "--fast"], ["agent", "--api-key", "--fast"]),
        (["agent", "-p", "horse"], ["agent", "-p", MARK]),
        (["docker", "run", "-p", "8080:80", "-p", "443"], ["docker", "run", "-p", "8080:80", "-p", "443"]),
        (["curl", "-u", "me:horse", "-u", "root"], ["curl", "-u", MARK, "-u", "root"]),
        (["agent", "--password=horse"], ["agent", f"--password={MARK}"]),
        (
            ["agent", "--token-file", "/run/t", "--max-tokens", "5"],
            ["agent", "--token-file", "/run/t", "--max-tokens", "5"],
        ),
        (["agent", "--key", "AbCdEf0123456789XyZw"], ["agent", "--key", MARK]),
        (["agent", "--key", "tls.pem", "sk-abcdefgh"], ["agent", "--key", "tls.pem", MARK]),
        (["sh", "-c", "agent --password h0rse"], ["sh", "-c", f"agent --password {MARK}"]),
        (["-p", ""], ["-p", ""]),
        ([], []),
    ],
)
def test_what_follows_a_telling_option_goes(argv: list[str], screened: list[str]) -> None:
    assert screen_argv(argv) == screened
    assert screen_argv(screened) == screened


def test_a_value_is_screened_before_it_is_cut() -> None:
    assert screen_value("short") == "short"
    key = "sk-" + "a" * 40
    assert screen_value("x" * 90 + " " + key, 100) == "x" * 90 + " " + MARK[:8] + "\u2026"
    assert "sk-aa" not in screen_value("x" * 90 + " " + key * 400, 100)
    assert len(screen_value("y" * 1_000_000, 100)) == 100


@given(st.text(max_size=300), st.integers(2, 50))
def test_a_value_is_never_longer_than_it_may_be(text: str, max_chars: int) -> None:
    assert (
        len(screen_value(text, max_chars)) <= max(max_chars, len(screen_text(text))) if len(text) <= max_chars else True
    )
    assert len(screen_value(text, max_chars)) <= max_chars


def test_a_key_is_named_by_sixteen_hex_digits_of_its_sha256() -> None:
    assert key_hash("abc") == key_hash(b"abc") == "ba7816bf8f01cfea"


def test_many_lines_at_once_cost_what_they_cost_one_by_one() -> None:
    text = "an ordinary line of a log, token=abc\n" * 20_000
    before = time.process_time()
    assert screen_text(text).count(MARK) == 20_000
    assert time.process_time() - before < 20


def test_a_screener_can_be_used_again_after_close() -> None:
    screener = Screener()
    screener.feed(b"-----BEGIN PRIVATE KEY-----\nabc")
    screener.close()
    assert screener.feed(b"plain\n") == b"plain\n"


def test_random_keys_in_random_text_never_survive() -> None:
    rng = random.Random(20261129)
    for _ in range(300):
        key = "sk-" + "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(16, 60)))
        text = "".join(rng.choices(string.printable, k=rng.randint(0, 80)))
        line = f"{text} {key} {text}"
        assert key not in screen_text(line)


@pytest.mark.parametrize(
    "text", ["the webhook answers", '{"guard":"cache-key","allowed":true}', '{"tokens":500}', "a token, or none"]
)
def test_what_only_looks_as_if_is_given_back_as_the_same_object(text: str) -> None:
    assert screen_text(text) is text  # who writes lines goes by that: it screens part by part where it is another
