"""Secrets to plant, and a look into every file for each of them in every form that it could have taken."""

import base64
import gzip
import json
import re
import urllib.parse
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["SECRETS", "find", "forms", "spread"]

# None of these is anybody's. They are put together here so that no scanner of repositories takes them for real ones.
_R = "Zq81mNvXw27LpTd5Hs3KcRb9"
SECRETS: Mapping[str, str] = {
    "anthropic": "sk-ant-" + "api03-" + _R,
    "openai": "sk-" + "proj-" + _R[::-1],
    "google": "AIza" + "SyD4" + _R + "xY7",
    "groq": "gsk_" + _R.lower() + "42",
    "huggingface": "hf_" + _R.swapcase(),
    "xai": "xai-" + _R + "0",
    "github": "ghp_" + _R + "1234",
    "gitlab": "glpat-" + _R[:20],
    "slack token": "xoxb-" + "2152365-" + _R,
    "aws": "AKIA" + "QX7T4ZL2M9WB5KDN",
    "stripe": "sk_live_" + _R + "2",
    "sendgrid": "SG." + _R[:22] + "." + _R[::-1] + _R[:19],
    "perplexity": "pplx-" + _R[2:] + "77",
    "replicate": "r8_" + _R[3:] + _R[:13],
    "shopify": "shpat_" + "a7b8c9d0" * 4,
    "databricks": "dapi" + "e1f2a3b4" * 4,
    "vault": "hvs." + _R[5:] + "xx99",
    "telegram": "1122334455:" + "AA" + _R[1:] + _R[:9],
    "zapier webhook": "77123456/q1w2e3r/",
    "azure": _R[4:] + _R + "==",
    "bearer": "mF9qB5f4zv7JqMtKpL",
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiJ1LTkifQ" + ".dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    "slack webhook": "T0PLANT77/B0PLANT88/q7w8e9r0t1y2u3i4o5p6a7s8",
    "discord webhook": "112233445566/d7f8g9h0j1k2l3z4x5c6v7b8n9m0",
    "userinfo": "hunter2-userinfo-77",
    "query": "q7-value-of-a-query-88",
    "cookie": "s7e8s9s0i1o2n-cookie",
    "password": "correct-horse-77-battery",
    "api key field": "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    "private key": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7PLANTED77",
}

_SAID: Mapping[str, str] = {
    "bearer": "Authorization: Bearer {}",
    "jwt": "token {}",
    "slack webhook": "post it to https://hooks.slack.com/services/{}",
    "discord webhook": "post it to https://discord.com/api/webhooks/{}",
    "zapier webhook": "post it to https://hooks.zapier.com/hooks/catch/{}",
    "azure": "DefaultEndpointsProtocol=https;AccountKey={}",
    "userinfo": "the database is postgresql://app:{}@db.example/orders",
    "query": "see https://files.example/report?sig={}",
    "cookie": "Cookie: session={}",
    "password": '"password": "{}"',
    "api key field": '"api_key": "{}"',
    "private key": "-----BEGIN PRIVATE " + "KEY-----\n{}\n-----END PRIVATE KEY-----",
}


def spread() -> Iterator[tuple[str, str]]:
    """Give each secret's name, and a sentence that says it as people do."""
    for name, secret in SECRETS.items():
        yield name, _SAID.get(name, "my key is {}").replace("{}", secret)


def forms(secret: str) -> Iterator[tuple[str, bytes]]:
    """Give what a secret may look like in a file: as it is, escaped, encoded, turned around."""
    raw = secret.encode()
    yield "plain", raw
    yield "json", json.dumps(secret)[1:-1].encode()
    yield "json with slashes", json.dumps(secret)[1:-1].replace("/", "\\/").encode()
    yield "json twice", json.dumps(json.dumps(secret))[3:-3].encode()
    yield "url", urllib.parse.quote(secret, safe="").encode()
    yield "url plus", urllib.parse.quote_plus(secret).encode()
    yield "html", secret.replace("&", "&amp;").encode()
    yield "hex", raw.hex().encode()
    yield "reversed", raw[::-1]
    for shift in range(3):  # base64 of what it stands in depends on where it stands
        encoded = base64.b64encode(b"\0" * shift + raw)
        yield f"base64 at {shift}", encoded[(0, 2, 3)[shift] : -4]
        yield f"base64url at {shift}", base64.urlsafe_b64encode(b"\0" * shift + raw)[(0, 2, 3)[shift] : -4]


def find(*folders: Path, secrets: Mapping[str, str] = SECRETS) -> list[str]:
    """Look for every secret in every file, name and unpacked body: `FILE: NAME as FORM`. Pieces of 10 characters count."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*") if folder.is_dir() else [folder]):
            if not path.is_file() or path.is_symlink():
                continue
            data = path.read_bytes()
            looked = [("", data), ("name ", str(path).encode()), *_unpacked(data)]
            for name, secret in secrets.items():
                for form, wanted in [*forms(secret), *_pieces(secret)]:
                    found += [f"{path}: {name} as {where}{form}" for where, text in looked if wanted in text]
    return found


def _pieces(secret: str) -> Iterator[tuple[str, bytes]]:
    """Give halves: what was cut at an edge and half covered has not been covered."""
    for at in range(0, max(1, len(secret) - 10), 5):
        yield f"piece from {at}", secret[at : at + 12].encode()


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Give what is in it in a form that a plain search does not see: joined strings, base64, gzip."""
    text = data.decode("latin-1")
    strings = re.findall(r'"(?:[^"\\]|\\.)*"', text)
    by_name: dict[str, list[str]] = {}
    inner = text.replace('\\"', '"')
    for name, value in re.findall(r'"(\w{1,40})"\s*:\s*"((?:[^"\\]|\\.)*)"', inner):
        by_name.setdefault(name, []).append(value)
    yield "strings joined, ", "".join(one[1:-1] for one in strings).encode("latin-1")
    for name, values in by_name.items():
        yield f"{name} joined, ", "".join(values).encode("latin-1")
        yield f"{name} joined backwards, ", "".join(reversed(values)).encode("latin-1")
    for one in re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", text)[:20_000]:
        try:
            raw = base64.b64decode(one + "=" * (-len(one) % 4))
        except ValueError:
            continue
        yield "in base64, ", raw
        if raw[:2] == b"\x1f\x8b":
            try:
                yield "in gzip, ", gzip.decompress(raw)
            except (OSError, EOFError, zlib.error):
                continue
