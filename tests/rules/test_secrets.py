"""What of a file's bytes is a secret, in whatever way it is written, and what only sounds like one."""

import base64
import bz2
import gzip
import io
import lzma
import random
import tarfile
import time
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.secrets import MAX_DEPTH, look, look_at_name

# In pieces, so that no scanner takes this file for what it is about.
AWS = "AKI" + "A4QTRVZ7WX2LMNOPB"
GITHUB = "gh" + "p_" + "k3J9xQ2mB7vT1cY8wZ5nR4sD6fG0hL2pA1uE"
ANTHROPIC = "sk-" + "ant-api03-" + "Qm9X2kLw7Zr4"
DSN = "postgres" + "ql://ops:" + "demo@db/app"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1\n-----END RSA PRIVATE KEY-----\n"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl"


def kinds(data: bytes | str) -> list[str]:
    found = look(data.encode() if isinstance(data, str) else data)
    return [hit.kind for hit in found.hits if hit.group == "secret"]


def gzipped(data: bytes) -> bytes:
    """The same bytes each second, since tests are named after them."""
    return gzip.compress(data, mtime=0)


def zipped(name: str, data: bytes, *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def tarred(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.TarFile(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


SHAPES = [
    (AWS, "aws-access-key"),
    ("AS" + "IA4QTRVZ7WX2LMNOPB", "aws-access-key"),
    (f"aws_secret_access_key = {'wJalrXUtnFEMI' + '/K7MDENG/bPxRfiCYzQ8k2Lm1'}", "secret-value"),
    (GITHUB, "github-token"),
    ("gh" + "o_" + "k3J9xQ2mB7vT1cY8wZ5n", "github-token"),
    ("github_" + "pat_" + "11ABCDEFG0abcdefghij_kl", "github-token"),
    ("glpat" + "-" + "xY12zW34vU56tS78rQ90", "gitlab-token"),
    ("xox" + "b-123456789012-1234567890123-AbCdEfGhIj", "slack-token"),
    ("xox" + "p-123456789012-abcdef", "slack-token"),
    ("https://hooks." + "slack.com/services/T00000000/B00000000/abcdefghijkl", "webhook-address"),
    ("sk" + "-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY", "openai-key"),
    ("sk" + "-proj-" + "aB3dE5fG7hJ9", "openai-key"),
    (ANTHROPIC, "anthropic-key"),
    ("AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "google-key"),
    ("sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "stripe-key"),
    ("rk" + "_test_" + "4eC39HqLyjWDarjt", "stripe-key"),
    ("whsec" + "_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "webhook-secret"),
    ("npm" + "_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY2zA4", "npm-token"),
    ("pypi" + "-AgEIcHlwaS5vcmcCJGFiY2RlZg", "pypi-token"),
    ("hf" + "_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ", "hugging-face-token"),
    (PEM, "private-key"),
    (PEM.replace("\n", "\\n"), "private-key"),  # as JSON has it
    (PEM.replace("RSA ", ""), "private-key"),
    ("-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3Blbn\n", "private-key"),
    ("-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\nlQOYBF\n", "private-key"),
    (JWT, "jwt"),
    (DSN, "connection-password"),
    (DSN.replace("postgresql", "postgres"), "connection-password"),
    ("mongodb+srv://a:" + "b@c.d/x", "connection-password"),
    ("mysql://root:" + "toor@127.0.0.1:3306", "connection-password"),
    ("redis://:" + "p@h", "connection-password"),
    ("amqps://u:" + "p%40ss@h/v", "connection-password"),
    ("https://u:" + "p@h", "connection-password"),
    ("https://user:" + "pw@ss@host/x", "connection-password"),
    ("x-unheard-of://u:" + "p@h", "connection-password"),
    ('{"url":"postgres:\\/\\/ops:' + 'demo@db\\/app"}', "connection-password"),
    ("jdbc:oracle:thin:scott/" + "tiger9@db:1521", "connection-password"),
    ("Cookie: session" + "=9f8e7d6c5b", "cookie"),
    ("Set-Cookie: sid" + "=abc123; HttpOnly", "cookie"),
    ('{"cookie": "session=' + 'abc123def"}', "cookie"),
    ("Authorization: Bearer " + "abcdef123456", "authorization"),
    ("authorization: basic " + base64.b64encode(b"user:pass").decode(), "authorization"),
    ('{"Authorization": "Token ' + '9944b09199c62bcf"}', "authorization"),
    ("-H 'Authorization: ApiKey " + "VnVhQ2ZHY0JDZ'", "authorization"),
    ("X-Api-Key: " + "a1b2c3d4e5f6a7b8", "authorization"),
    ("bearer " + "eyQ3kd93jdk39dkx", "bearer-token"),
    ("curl -s -u admin:" + "s3cret! https://api.example.org", "basic-option"),
    ("pwd=" + "hunter2", "password"),
    ("Password: " + "hunter2", "password"),
    ("passwd=" + "swordfish", "password"),
    ("DB_PASSWORD=" + "swordfish", "password"),
    ("dbPassword = '" + "correct-horse'", "password"),
    ('{"password": "' + 'swordfish"}', "password"),
    ('{"note":"{\\"password\\": \\"' + 'hunter2\\"}"}', "password"),
    ("password: " + "swordfish\nhost: db\n", "password"),
    ("the database password is " + "hunter2 since noon", "password"),
    ("Server=db;User Id=sa;Password=" + "Yukon900;", "password"),
    ("smtp_pass = " + "swordfish", "password"),
    ('{"user": "sa", "pass": "' + 'hunter2"}', "password"),
    ('{"name": "Cookie", "value": "sid=' + 'abc123def"}', "cookie"),
    ('{"name": "Authorization", "value": "Bearer ' + 'abcdef123456"}', "authorization"),
    ('{"name": "DB_PASSWORD", "value": "' + 'hunter2"}', "password"),
    ("- name: DB_PASSWORD\n  value: " + "hunter2\n", "password"),
    ("| password | " + "hunter2 |", "password"),
    ("<Password>" + "hunter2</Password>", "password"),
    ("<db:password>" + "swordfish</db:password>", "password"),
    ("machine h.example.org login me password " + "swordfish", "password"),
    ('{"kty": "oct", "k": "' + 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}', "private-key"),
    (
        '{"auths": {"r.example.org": {"auth": "' + base64.b64encode(b"me:swordfish").decode() + '"}}}',
        "basic-credentials",
    ),
    ("https://b.example.org/x?X-Amz-Signature=" + "ab" * 32, "signed-address"),
    ("12345678" + ":AAF" + "x9Kd83jLm2Qp7Rt5Vw1Zb4Nc6Hg0Yd", "telegram-token"),
    ("client_secret: " + "8f3kd93jdk39dk", "secret-value"),
    ("api_key=" + "9a8b7c6d5e4f3a2b", "secret-value"),
    ("API-KEY: '" + "9a8b7c6d5e4f3a2b'", "secret-value"),
    ('auth_token := "' + 'Zx81kdP0qLm2"', "secret-value"),
    ('"accessToken": "' + 'Zx81kdP0qLm2"', "secret-value"),
    ('password: str = "' + 'hunter2"', "password"),
]


@pytest.mark.parametrize(("text", "kind"), SHAPES, ids=[f"{kind}-{i}" for i, (_, kind) in enumerate(SHAPES)])
def test_a_credential_is_found_by_its_shape(text: str, kind: str) -> None:
    assert kind in kinds(text)
    assert kind in kinds(f"before it, {text}\nand behind")
    assert kinds(text.encode("utf-16")), "and in UTF-16"


HARMLESS = [
    "tokenizer.json: the tokenizer splits text, token by token, into tokens",
    "the secretary is passwordless and keeps the secrets of the password policy",
    "bearer of bad news: the bearer authentication header is required",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "id = 123e4567-e89b-12d3-a456-426614174000",
    '"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="',
    "golang.org/x/text v0.3.0 h1:g61tztE5qeGQ89tm6NTjjM9VPIm088od1l6aSorWRWg=",
    '{"unk_token": "<unk>", "bos_token": "<s>", "pad_token": "[PAD]", "eos_token_id": 50256, "token": 17}',
    '{"password": 4321, "secret": 981, "Ġtoken": 12, "apikey": 77}',
    "api_key=<YOUR_KEY>",
    'api_key = "YOUR_API_KEY"',
    "API_KEY=your-api-key-here",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer ${GITHUB_TOKEN}",
    "Authorization: Bearer YOUR_TOKEN",
    "Authorization: Basic realm",
    "export OPENAI_API_KEY=sk-...",
    "OPENAI_API_KEY=sk-" + "x" * 32,
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "password=${DB_PASSWORD}",
    'password = os.environ["DB_PASSWORD"]',
    "password=getpass.getpass()",
    "connect(user=user, password=password)",
    "connect(user=args.user, password=args.password)",
    "password: str",
    "password: Optional[str] = None",
    "if password == user.password:",
    "Password: required",
    "password: must be at least 12 characters",
    '{"password": "********"}',
    '{"password": "[screened]"}',
    '{"forgot_password": "Forgot your password?", "password": "Enter your password"}',
    '{"password": "Passwort"}',
    "PWD=/root\nOLDPWD=/home/user/project",
    "pwd=$(pwd)",
    'PASS = "pass"; status: {"pass": "passed", "fail": "failed"}',
    "PASS: 31/31 tests, pass=31/31, pass: 0.95, PASS policy of Ada",
    "bypass=true; compass: north; encompass = 9",
    "postgres://localhost:5432/app",
    "postgresql://db.example.org/app",
    "postgres://user:<password>@host/db",
    "postgres://${USER}:${PASSWORD}@host/db",
    "http://localhost:3000/@vite/client",
    "git@github.com:example/repo.git",
    "ssh://git@github.com/example/repo.git",
    "npm install lodash@4.17.21 @types/node@18",
    "image: registry.example.org/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ".sk-fading-circle-container .sk-circle-dot-animation { animation: sk-bounce-delay }",
    "sk-estimator-doc-link sk-toggleable__label-arrow",
    "npm_config_user_agent=npm npm_lifecycle_event=test npm_package_json",
    "Cookie: a small piece of text that a server sends",
    "the cookie policy = strict",
    "max_tokens: 4096, tokens_used=1234, token_count: 99",
    "next_page_token=CAUQAA3kf93kd0, nextPageToken: 'CAUQAA3kf93kd0'",
    "primary_key = 'a1b2c3d4e5f6', cache_key: a1b2c3d4e5f6a7b8, key: value1234",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----",
    'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError',
    "!function(e,t){var n=e.token,r=e.secret||t.key;n.password=r?n.pass:null}(window,{key:function(){return 1}});",
    "eyJ is how a JWT begins; eyJub3RhbGc.eyJ9.x is none",
    "https://example.org/a?b=c#d",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
    "2026-11-30T16:00:00Z INFO request id=4c1f9a took 12 ms",
    "basic configuration of the basic authentication scheme",
    "description: 'Your secret: keep the keys in a vault'",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "| password | string | required |",
    "<password>required</password> <label>Password</label>",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: db",
    '{"name": "password", "type": "string"}',
    '{"kty": "RSA", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAt", "e": "AQAB"}',
    "the password was changed yesterday, the token is expired",
    "machine HOST login NAME password VALUE",
    "password=PASSWORD, `password: VALUE`",
    "(?:secret|token|api_key|sha256sum|md5sum)",
    "credentials: https://cloud.example.com/iam/docs/reference/credentials/rest2",
    "token = imdsv2_session_token, credentials=_convert_oauth2_credentials",
    "secretKeyRef:\n  name: db\n  key: password",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "arn:aws:iam::123456789012:role/demo",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_sounds_like_a_secret_is_none(text: str) -> None:
    found = look(text.encode())
    assert [hit for hit in found.hits if hit.group == "secret"] == []
    assert found.unread == ()
    assert kinds(text.encode("utf-16")) == []
    assert kinds(gzipped(text.encode())) == []


def fullwidth(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


CUT = gzipped(random.Random(1).randbytes(9000) + f" {AWS} ".encode() + random.Random(2).randbytes(90_000))[:60_000]
WAYS = [
    ("as it is", f"key {AWS}".encode()),
    ("UTF-8 with a mark", b"\xef\xbb\xbf" + AWS.encode()),
    ("UTF-16 with a mark", f"key {AWS}".encode("utf-16")),
    ("UTF-16-LE", f"key {AWS}".encode("utf-16-le")),
    ("UTF-16-BE", f"key {AWS}".encode("utf-16-be")),
    ("UTF-16-BE with a mark", b"\xfe\xff" + AWS.encode("utf-16-be")),
    ("UTF-16, shifted by a byte", b"\x01" + f"key {AWS} and".encode("utf-16-le")),
    ("UTF-16 inside a binary", bytes(range(256)) + f"key {AWS} ".encode("utf-16-le") + bytes(range(256))),
    ("UTF-32 with a mark", f"key {AWS}".encode("utf-32")),
    ("UTF-32-LE", f"key {AWS}".encode("utf-32-le")),
    ("UTF-32-BE", f"key {AWS}".encode("utf-32-be")),
    ("fullwidth", fullwidth(f"key {AWS}").encode()),
    ("fullwidth in UTF-16", fullwidth(f"key {AWS}").encode("utf-16")),
    ("zero width", "\u200b".join(AWS).encode()),
    ("soft hyphen", "\u00ad".join(AWS).encode()),
    ("joiner and mark", f"{AWS[:7]}\u2060\ufeff{AWS[7:]}".encode()),
    ("mathematical letters", "".join(chr(0x1D400 + ord(c) - 65) if c.isupper() else c for c in AWS).encode()),
    ("tag characters", "".join(chr(0xE0000 + ord(char)) for char in AWS).encode()),
    ("a bad byte inside", f"some text {AWS[:9]}".encode() + b"\xff" + f"{AWS[9:]} and more of it".encode()),
    ("a zero inside", f"some text {AWS[:9]}\0{AWS[9:]} and more of it".encode()),
    ("an escape of a terminal", f"\x1b[31m{AWS}\x1b[0m".encode()),
    ("a bell inside", f"some text {AWS[:9]}\a{AWS[9:]} and more of it".encode()),
    ("behind a JSON line end", f'{{"a":"x\\n{AWS}\\n"}}'.encode()),
    ("JSON in JSON", f'{{"a":"{{\\"b\\":\\"x\\\\n{AWS}\\"}}"}}'.encode()),
    ("JSON unicode escape", f'{{"a":"\\u0041{AWS[1:]}"}}'.encode()),
    ("JSON colour escape", f'{{"a":"\\u001b[32m{AWS}"}}'.encode()),
    ("hex escapes", ("\\x" + AWS.encode().hex("x").replace("x", "\\x")).encode()),
    ("percent", "".join(f"%{ord(char):02x}" for char in AWS).encode()),
    ("percent twice", "".join(f"%25{ord(char):02x}" for char in AWS).encode()),
    ("numeric references", "".join(f"&#{ord(char)};" for char in AWS).encode()),
    ("base64", base64.b64encode(f"the key is {AWS} here".encode())),
    ("base64 in JSON", b'{"a":"' + base64.b64encode(f"the key is {AWS} here".encode()) + b'"}'),
    ("base64 for URLs", base64.urlsafe_b64encode(f"??>> {AWS} here".encode())),
    ("base64 without padding", base64.b64encode(f"the key is {AWS} here".encode()).rstrip(b"=")),
    ("base64 twice", base64.b64encode(base64.b64encode(f"the key is {AWS} here".encode()))),
    ("base64 in lines", base64.encodebytes(b"x" * 100 + f" the key is {AWS} ".encode() + b"y" * 80)),
    ("base64 in lines, CRLF", base64.encodebytes(b"x" * 100 + f" {AWS} ".encode() + b"y" * 80).replace(b"\n", b"\r\n")),
    ("base64 behind a path", b"/tmp/" + base64.b64encode(f"the key is {AWS} here".encode())),
    ("base64 of UTF-16", base64.b64encode(f"key {AWS} here".encode("utf-16-le"))),
    ("hex", f"the key is {AWS}".encode().hex().encode()),
    ("gzip", gzipped(AWS.encode())),
    ("gzip, second member", gzipped(b"nothing\n") + gzipped(AWS.encode())),
    ("zlib", zlib.compress(AWS.encode())),
    ("bzip2", bz2.compress(AWS.encode())),
    ("xz", lzma.compress(AWS.encode())),
    ("lzma", lzma.compress(AWS.encode(), lzma.FORMAT_ALONE)),
    ("zip", zipped("a.txt", AWS.encode())),
    ("zip, stored", zipped("a.txt", AWS.encode(), method=zipfile.ZIP_STORED)),
    ("zip, bzip2", zipped("a.txt", AWS.encode(), method=zipfile.ZIP_BZIP2)),
    ("zip, lzma", zipped("a.txt", AWS.encode(), method=zipfile.ZIP_LZMA)),
    ("zip behind something else", b"#!/bin/sh\nexit 0\n" + zipped("a.txt", AWS.encode())),
    ("name in a zip", zipped(f"{AWS}.txt", b"nothing")),
    ("tar", tarred("a.txt", AWS.encode())),
    ("tar.gz", gzipped(tarred("a.txt", AWS.encode()))),
    ("name in a tar", tarred(f"{AWS}.txt", b"nothing")),
    ("zip in zip", zipped("a.zip", zipped("b.zip", AWS.encode()))),
    ("gzip in base64", base64.b64encode(gzipped(AWS.encode()))),
    ("UTF-16 in a zip", zipped("a.txt", f"key {AWS}".encode("utf-16"))),
    ("a cut gzip", CUT),
    ("between pictures' bytes", b"\x89PNG\r\n\x1a\n" + random.Random(3).randbytes(3000) + f" {AWS} ".encode()),
]  # fmt: skip  # one way a line


@pytest.mark.parametrize(("way", "data"), WAYS, ids=[way for way, _ in WAYS])
def test_it_is_found_however_it_is_written(way: str, data: bytes) -> None:
    assert "aws-access-key" in kinds(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (gzipped(b"nothing at all " * 1000)[:-30], "cut short"),
        (gzipped(b"nothing")[:12], "cut short"),
        (b"\x1f\x8b\x08" + b"\0" * 40, "broken"),
        (b"PK\x03\x04" + b"\0" * 40, "broken"),
        (b"BZh9" + b"\0" * 40, "broken"),
        (b"\xfd7zXZ\x00" + b"\1" * 40, "broken"),
        (b"7z\xbc\xaf\x27\x1c" + b"\0" * 40, "7z is not read"),
        (b"Rar!\x1a\x07\x00" + b"\0" * 40, "rar is not read"),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 40, "zstd"),
        (b"%PDF-1.7\n", "pdf is not read"),
        (b"Salted__" + b"\0" * 40, "openssl is not read"),
        (b"age-encryption.org/v1\n", "age is not read"),
        (b"$ANSIBLE_VAULT;1.1;AES256\n3939", "ansible vault is not read"),
        (random.Random(1).randbytes(4096), "noise"),
        (b"header\0\1\2" * 300 + random.Random(1).randbytes(40_000), "noise"),
    ],
)
def test_what_cannot_be_looked_at_is_said(data: bytes, why: str) -> None:
    assert any(why in said for said in look(data).unread)


def test_a_locked_zip_is_unread() -> None:
    data = bytearray(zipped("memory.json", b"nothing", method=zipfile.ZIP_STORED))
    data[6] |= 1  # of the member's head
    data[data.index(b"PK\x01\x02") + 8] |= 1  # of the directory
    found = look(bytes(data))
    assert found.unread == ("a member of the zip is locked",)
    assert found.names == ("memory.json",)


@pytest.mark.parametrize(
    "bomb",
    [
        gzipped(b"\0" * (8 << 20)),
        zipped("a", b"\0" * (8 << 20)),
        bz2.compress(b"\0" * (8 << 20)),
        lzma.compress(b"\0" * (8 << 20)),
    ],
    ids=["gzip", "zip", "bzip2", "xz"],
)
def test_a_bomb_costs_its_budget_and_is_told(bomb: bytes) -> None:
    assert look(bomb, max_unpacked_bytes=1 << 20).unread == ("it unpacks to more than may be read",)


def test_a_text_needs_no_budget() -> None:
    text = ("Grüße \\n %41 " + base64.b64encode(b"the plan is to retry").decode() + "\n") * 5_000
    assert look(text.encode(), max_unpacked_bytes=1).unread == ()


def test_a_zip_of_too_many_members_is_told() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for n in range(10_001):
            archive.writestr(str(n), b"")
    assert look(out.getvalue()).unread == ("it has more members than may be read",)


def test_a_sparse_tar_is_told() -> None:
    entry = tarfile.TarInfo("a")
    entry.size = 1 << 40
    assert look(entry.tobuf() + b"\0" * 1024).unread


def test_what_is_packed_deeper_than_is_looked_is_told() -> None:
    data = f"key {AWS}".encode()
    for _ in range(MAX_DEPTH):
        data = gzipped(data)
    assert "aws-access-key" in kinds(data)
    assert look(gzipped(data)).unread == ("it is packed deeper than is looked",)
    deep = b"the key " * 5
    for _ in range(MAX_DEPTH + 3):
        deep = base64.b64encode(deep)
    assert look(deep).unread == ("it is packed deeper than is looked",)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("paid with 4111 1111 1111 1111 today", "payment-card"),
        ("4111-1111-1111-1111", "payment-card"),
        ('{"card": "4111111111111111"}', "payment-card"),
        ("4111111111111111", "payment-card"),
        ("5555555555554444", "payment-card"),
        ("amex 3782 822463 10005", "payment-card"),
        ("378282246310005", "payment-card"),
        ("6011111111111117", "payment-card"),
        ("from jane.doe@example.com, about", "email"),
        ("<Jane.Doe+x@mail.example.co.uk>", "email"),
        ("mailto:jane@example.org?subject=x", "email"),
        ('"user_email": "j@example.com"', "email"),
    ],
)
def test_what_is_a_persons_is_found(text: str, kind: str) -> None:
    for data in (text.encode(), text.encode("utf-16"), fullwidth(text).encode()):
        assert kind in [hit.kind for hit in look(data).hits if hit.group == "personal"]


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",  # Luhn says no
        "1764518400123456789",  # a time in nanoseconds
        "1764518400123456",
        "0.4539578763621486",  # a fraction
        "id: 4539578763621486",
        "0000000000000000",
        "4111 1111 1111 1112",
        "123e4567-e89b-12d3-a456-426614174000",
        "4111111111111111a",
        "icon@2x.png",
        "lodash@4.17.21",
        "user@localhost",
        "git@github.com:example/x",
        "noreply@github.com",
        "@app.route('/x')",
        "actions/checkout@v4.1.0",
        "a@b",
        "deploy://deploy@host.example.org",
    ],
)
def test_what_is_nobodys_is_left_alone(text: str) -> None:
    assert [hit for hit in look(text.encode()).hits if hit.group == "personal"] == []


@pytest.mark.parametrize(
    ("text", "live"),
    [
        ("retry on postgres://db-7.prod.example.org/app", True),
        ("redis://cache.example.org:6379", True),
        ("jdbc:postgresql://db.example.org/x", True),
        ("arn:aws:rds:eu-west-1:123456789012:db:prod", True),
        ("orders.c9akciq32.eu-west-1.rds.amazonaws.com", True),
        ("api.prod.svc.cluster.local", True),
        ("postgres://localhost/app", False),
        ("postgres://127.0.0.1:5432", False),
        ("https://example.org", False),
        ("an internal matter; internals.", False),
    ],
)
def test_a_live_environment_is_told_by_its_name(text: str, live: bool) -> None:
    assert bool([hit for hit in look(text.encode()).hits if hit.group == "live"]) is live


@pytest.mark.parametrize(
    "name",
    [
        f"{AWS}.txt",
        f"a/{GITHUB}/b",
        "logs/password=hunter2.json",
        fullwidth(AWS),
        f"x{base64.b64encode(f'key {AWS} !'.encode()).decode()}",
    ],
)
def test_a_name_can_be_a_secret(name: str) -> None:
    assert any(hit.group == "secret" for hit in look_at_name(name).hits)


@pytest.mark.parametrize(
    "name",
    [
        "memory.json",
        "tokenizer.json",
        "secrets.py",
        "password_reset.html",
        "a\udcffb",
        "x" * 255,
        "3f786850e387550fdab836ed7e6dc881de23001b",
    ],
)
def test_a_name_is_mostly_none(name: str) -> None:
    assert look_at_name(name).hits == ()


def test_no_value_leaves() -> None:
    values = [AWS, GITHUB, ANTHROPIC, "demo@", "hunter2", "4111111111111111", "jane.doe"]
    text = f"{AWS} {GITHUB} {ANTHROPIC} {DSN} password=hunter2 4111111111111111 jane.doe@example.com"
    said = repr(look(text.encode()))
    assert not [value for value in values if value in said]


def test_a_fingerprint_is_given_only_where_it_gives_nothing_away() -> None:
    hits = {
        hit.kind: hit.fingerprint
        for hit in look(f"{GITHUB} password=hunter2 {DSN} 4111111111111111 j@example.com".encode()).hits
    }
    assert len(hits["github-token"]) == 16
    assert {hits[kind] for kind in ("password", "connection-password", "payment-card", "email")} == {""}


def test_an_offset_is_where_it_stands() -> None:
    assert [hit.offset for hit in look(b"x" * 40 + b" " + GITHUB.encode()).hits] == [41]


def test_all_are_counted_and_some_are_kept() -> None:
    text = "\n".join(f"user{n}@example.com" for n in range(500)) + f"\n{AWS}"
    found = look(text.encode())
    assert found.counts == {"personal": 500, "secret": 1}
    assert "aws-access-key" in [hit.kind for hit in found.hits]
    assert len(found.hits) == 51


SLOW = [
    b"password" * 40_000,
    b"password=" * 40_000,
    b"password" + b" " * 200_000,
    b"pass" + b"\\" * 200_000,
    b"Bearer " * 40_000,
    b"authorization:" * 20_000,
    b"cookie:" + b"a=" * 100_000,
    b"curl " + b"-u " * 60_000,
    b"curl" * 60_000,
    b"a@" * 100_000,
    b"://" * 60_000,
    b"://a:" + b"@" * 100_000,
    b"eyJ" * 60_000,
    b"eyJ" + b"a" * 200_000,
    b"eyJaaaaaaaaaa." * 20_000,
    b"-----BEGIN " * 20_000,
    b"-----BEGIN " + b"A" * 200_000,
    b"4111 " * 50_000,
    b"4" * 200_000,
    b"4111-" * 50_000,
    b"A" * 300_000,
    b"A" * 60 + (b"\n" + b"A" * 60) * 5_000,
    b"%41" * 80_000,
    b"%25" * 80_000,
    b"\\" * 300_000,
    b"\\u0041" * 40_000,
    b"&#65;" * 50_000,
    b"\0a" * 100_000,
    b"a.b." * 60_000,
    b"jane@" + b"a." * 100_000,
    b"sk-" * 80_000,
    b"token:" + b'"' * 200_000,
    ("\u200b" * 100_000).encode(),
    ("é" * 100_000).encode(),
    b"key" * 80_000,
    b"jdbc:oracle:thin:" * 10_000 + b"@" * 1000,
]


@pytest.mark.parametrize("data", SLOW, ids=[f"{data[:14]!r}-{i}" for i, data in enumerate(SLOW)])
def test_time_grows_with_size_alone(data: bytes) -> None:
    def cpu_s(part: bytes) -> float:
        before = time.process_time()
        look(part)
        return time.process_time() - before

    cpu_s(data[:1000])
    half, whole = min(cpu_s(data[: len(data) // 2]) for _ in range(2)), min(cpu_s(data) for _ in range(2))
    # Twice the bytes: twice the time, where it is long enough to be told from the clock's own steps.
    assert whole < 0.25 or whole < 3.2 * half, (half, whole)
    assert whole < 8


@given(st.binary(max_size=2000))
def test_any_bytes_are_looked_at(data: bytes) -> None:
    look(data, max_unpacked_bytes=1 << 20)


@given(st.text(max_size=400))
def test_any_name_is_looked_at(name: str) -> None:
    look_at_name(name)


@given(
    st.binary(max_size=300),
    st.sampled_from([gzipped(b"x" * 99), zipped("a", b"x" * 99), tarred("a", b"x" * 99), bz2.compress(b"x" * 99)]),
    st.integers(0, 400),
)
def test_any_damage_to_an_archive_is_no_crash(noise: bytes, archive: bytes, at: int) -> None:
    look(archive[:at] + noise + archive[at + len(noise) :], max_unpacked_bytes=1 << 20)
