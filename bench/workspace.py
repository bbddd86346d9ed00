"""What it costs to look at a workspace, and what is found: `python bench/workspace.py [--mb 100] [--tools FOLDER]`.

A working directory of so many megabytes as agents leave them (transcripts, notes, code, lists of numbers, packed logs) without a
secret, and beside it one file for each way in which a key may be written. Ours is the whole gate, cold, as a hook starts it; in
FOLDER lie detect-secrets and kingfisher where they are to be compared. CPU counts, of all processes; the clock stands beside it.
"""

import argparse
import base64
import bz2
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

PROSE = (
    "the a of to in and is for on that with as it at by from this was agent plan host data turn tool result error retry file "
    "cluster migration database schema table column status request response answer token password secret key user account time "
    "value list model prompt context memory session cache index vector note step next check deploy rollback canary metric window"
)
WORDS = PROSE.split()


def sentence(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words))


def transcript(draw: random.Random, size: int) -> bytes:
    rows, length = [], 0
    while length < size:
        row = json.dumps(
            {
                "t": f"2026-11-30T12:{draw.randrange(60):02}:{draw.randrange(60):02}Z",
                "role": draw.choice(("user", "assistant", "tool")),
                "id": f"{draw.getrandbits(128):032x}",
                "url": f"https://api.example.org/v1/items?page={draw.randrange(99)}",
                "content": sentence(draw, 30) + '\n\t"' + sentence(draw, 12) + '"\n' + sentence(draw, 20),
                "usage": {"prompt_tokens": draw.randrange(9999), "total": draw.random()},
            }
        )
        rows.append(row)
        length += len(row) + 1
    return "\n".join(rows).encode()


def note(draw: random.Random, size: int) -> bytes:
    lines = (
        f"## {sentence(draw, 4)}\n\n- {sentence(draw, 18)}\n- {sentence(draw, 22)}, *{sentence(draw, 3)}*\n"
        for _ in range(size // 300)
    )
    return "\n".join(lines).encode()


def numbers(draw: random.Random, size: int) -> bytes:
    return json.dumps([round(draw.random(), 9) for _ in range(size // 13)]).encode()


def code(draw: random.Random, size: int) -> bytes:
    files = sorted((Path(__file__).parent.parent / "src").rglob("*.py"))
    text = b"".join(path.read_bytes() for path in draw.sample(files, min(60, len(files))))
    # Not the files that describe what secrets look like.
    kept = [line for line in text.splitlines(keepends=True) if b"://" not in line and b"key" not in line.lower()]
    return b"".join(kept)[:size]


def packed(draw: random.Random, size: int) -> bytes:
    return gzip.compress(transcript(draw, size), 6)


KINDS = ((".jsonl", transcript, 4), (".md", note, 2), (".py", code, 2), (".json", numbers, 1), (".log.gz", packed, 1))


def fill(folder: Path, size: int) -> int:
    """Write that many bytes of files, 20 kB to 1 MB each; packed ones count unpacked."""
    draw = random.Random(7)
    kinds = [kind for kind in KINDS for _ in range(kind[2])]
    done = n = 0
    while done < size:
        suffix, make, _ = kinds[n % len(kinds)]
        part = draw.choice((20_000, 100_000, 400_000, 1_000_000))
        path = folder / f"part-{n % 37}" / f"file-{n}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = make(draw, part)
        path.write_bytes(data)
        done += part if suffix.endswith(".gz") else len(data)
        n += 1
    return n


def ways() -> Iterator[tuple[str, bytes]]:
    """Yield one key in each way in which it may lie there. Made of pieces, and nobody's."""
    key = "AKI" + "A" + "4QTRVZ7WX2LMNOPB"
    text = f"the key is {key} today"
    yield "plain", text.encode()
    yield "utf-16", text.encode("utf-16")
    yield "utf-16-be, no mark", text.encode("utf-16-be")
    yield "utf-32", text.encode("utf-32")
    yield "fullwidth", "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text).encode()
    yield "zero width", "\u200b".join(key).encode()
    yield "a bad byte in the file", text.encode() + b"\n\xff\n"
    yield "a bad byte in the key", text.encode().replace(b"RVZ7", b"RV\xffZ7")
    yield "JSON escapes", json.dumps({"a": f"\n{key}\n"}).replace("K", "\\u004b").encode()
    yield "percent", "".join(f"%{ord(c):02x}" for c in text).encode()
    yield "base64", base64.b64encode(text.encode())
    yield "base64 twice", base64.b64encode(base64.b64encode(text.encode()))
    yield "hex", text.encode().hex().encode()
    yield "gzip", gzip.compress(text.encode())
    yield "bzip2", bz2.compress(text.encode())
    inner = BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", text)
    yield "zip", inner.getvalue()
    yield "gzip in base64", base64.b64encode(gzip.compress(text.encode()))
    yield "Anthropic key", ("sk-" + "ant-api03-Qm9X2kLw7Zr4Tn8Vb1Yc6Hd3Jf5Gs0Pq").encode()
    yield "GitHub token", ("gh" + "p_" + "k3J9xQ2mB7vT1cY8wZ5nR4sD6fG0hL2pA1uE").encode()
    yield "Slack token", ("xox" + "b-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx").encode()
    yield "connection string", ("postgres" + "ql://ops:Wn7xk2Lp@db.example.org/app").encode()
    yield "password of a store", ("redis" + "://:Wn7xk2Lp@cache.example.org").encode()
    yield "cookie", ("Cookie: session" + "=9f8e7d6c5b4a39281706f5e4d3c2b1a0").encode()
    yield "bearer", ("Authorization: Bearer " + "9f8e7d6c5b4a39281706f5e4d3c2b1a0").encode()
    yield (
        "JWT",
        (
            "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
        ).encode(),
    )
    yield (
        "private key",
        (
            "-----BEGIN RSA "
            + "PRIVATE KEY-----\n"
            + base64.b64encode(os.urandom(600)).decode()
            + "\n-----END RSA PRIVATE KEY-----\n"
        ).encode(),
    )
    yield "password in prose", b"the database password is Wn7xk2Lp since noon"


POLICY = {"kind": "policy", "version": 1, "source": "bench", "owner": "bench", "review_by": "2099-01-01"}


def limits() -> dict[str, object]:
    answers = {
        **dict.fromkeys(
            (
                "other_disk",
                "evict_without_ticket",
                "planner_is_not_writer",
                "memory_is_a_store",
                "resume_checks_digest",
            ),
            True,
        ),
        "export_path": "/b",
        "deletion_owner": "b",
        "memory_paths": ["*"],
        "embeddings_from": "synthetic",
    }
    return {
        "gate": "workspace",
        "host": "controlled",
        "max_file_bytes": 2_000_000,
        "max_total_bytes": 1 << 34,
        "max_files": 1_000_000,
        "max_unpacked_bytes": 64 << 20,
        "min_files": 1,
        "max_plan_age_s": 3600,
        "may_stay": ["memory", "cache", "transcript", "vectors", "plan", "identity", "store"],
        "to_be_moved": "report",
        "personal_data": "durable",
        "media": "report",
        "left_out": [],
        "must_survive_host_loss": False,
        "max_red_flags": 1,
        "stores": {},
        "answers": answers,
        "exceptions": [],
    }


def timed(words: list[str], cwd: Path) -> tuple[float, float, str]:
    """CPU and wall seconds of a command, and what it wrote to stdout."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - began, ended.stdout


def tools(asked: argparse.Namespace, beside: Path) -> Iterator[tuple[str, list[str]]]:
    policy = beside / "policy.json"
    policy.write_text(json.dumps(POLICY | {"gates": [limits()]}))
    report, attempts = str(beside / "report.json"), str(beside / "attempts.jsonl")
    yield (
        "drillmaster",
        [
            sys.executable,
            "-m",
            "drillmaster",
            "gate",
            "workspace",
            "{}",
            "--policy",
            str(policy),
            "--report",
            report,
            "--attempts",
            attempts,
        ],
    )
    for folder in filter(None, asked.tools.split(":")):
        found = Path(folder) / "detect-secrets"
        if found.exists():
            yield "detect-secrets", [str(found), "scan", "--all-files", "--no-verify", "{}"]
        found = Path(folder) / "kingfisher"
        if found.exists():
            yield (
                "kingfisher",
                [
                    str(found),
                    "scan",
                    "{}",
                    "--no-validate",
                    "--no-update-check",
                    "--format",
                    "json",
                    "--git-history",
                    "none",
                ],
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--tools", default="", help="folders with other scanners, apart by :")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-workspace-") as name:
        clean, bad, beside = (Path(name) / part for part in ("clean", "bad", "beside"))
        for folder in (clean, bad, beside):
            folder.mkdir()
        files = fill(clean, asked.mb * 1_000_000)
        planted = list(ways())
        for n, (_, data) in enumerate(planted):
            (bad / f"w{n:02}.txt").write_bytes(data)
        print(f"{asked.mb} MB in {files} files, load average {os.getloadavg()[0]:.1f}")
        print(f"{'':16} {'CPU s':>7} {'ratio':>6} {'wall s':>7} {'CPU MB/s':>9} {'found':>8} {'false alarms':>13}")
        ours = 0.0
        for tool, words in tools(asked, beside):
            cpu, wall, said = timed([word.replace("{}", str(clean)) for word in words], clean)
            wrong = (beside / "report.json").read_text() if tool == "drillmaster" else said
            ours = ours or cpu
            _, _, said = timed([word.replace("{}", str(bad)) for word in words], bad)
            text = (beside / "report.json").read_text() if tool == "drillmaster" else said
            missed = [way for n, (way, _) in enumerate(planted) if f"w{n:02}.txt" not in text]
            alarms = len({part for part in wrong.replace('"', " ").split() if "file-" in part})
            found = f"{len(planted) - len(missed)}/{len(planted)}"
            print(f"{tool:16} {cpu:7.1f} {cpu / ours:5.1f}x {wall:7.1f} {asked.mb / cpu:9.1f} {found:>8} {alarms:>13}")
            print(f"  not found: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
