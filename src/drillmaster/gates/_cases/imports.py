"""Evidence on which each check of the gate `imports` goes red, and on which it is green."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.imports import Exemption, Imports, Modules
from drillmaster.verdict import Status

__all__ = ["LIMITS", "cases", "repository"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
CLASSIFIER = """import math
from app.retry import table

def classify(status, attempt):
    return status in table.HTTP and attempt < 3
"""
LIMITS = Imports(
    pinned=("src/app/retry/**", "src/app/keys.py"),
    classifiers=("src/app/retry/classifier.py",),
    beside=("src/app/clock.py",),
    roots=("src",),
    min_modules=2,
)
FILES: dict[str, str] = {
    "src/app/__init__.py": '"""The app."""\n__version__ = "1"\n',
    "src/app/retry/__init__.py": "",
    "src/app/retry/classifier.py": CLASSIFIER,
    "src/app/retry/table.py": "HTTP = {429, 503}\n",
    "src/app/retry/README.md": "What is here.\n",
    "src/app/keys.py": "import hashlib\nfrom app.clock import now\n",
    "src/app/clock.py": "import time\nnow = time.time\n",
    "src/app/model.py": "import openai\n",
    "src/app/client.py": "from app import model\n",
    "src/app/http.py": "import requests\n",
}


def repository(**files: str | bytes | None) -> Modules:
    """Give the good repository with files changed, by their paths; None drops one."""
    all_ = {path: text for path, text in (FILES | files).items() if text is not None}
    data = {path: text if isinstance(text, bytes) else text.encode() for path, text in all_.items()}
    return Modules(place="head", files=data, paths=tuple(sorted(data)), now_ns=NOW_NS)


def classifier(text: str) -> Modules:
    """Give the good repository with lines behind its classifier."""
    return repository(**{"src/app/retry/classifier.py": CLASSIFIER + text})


def _red() -> Iterator[tuple[str, Status, Modules]]:
    yield "declared", "refused", repository(**{"src/app/keys.py": None})
    yield "declared", "refused", repository(**{"src/app/clock.py": None, "src/app/keys.py": "import hashlib\n"})
    yield "scannable", "refused", classifier("def (\n")
    yield "scannable", "refused", repository(**{"src/app/retry/fast.go": "package retry\n"})
    yield "scannable", "refused", msgspec.structs.replace(repository(), links=frozenset({"src/app/keys.py"}))
    yield "resolved", "refused", repository(**{"src/app/retry/web.ts": 'import { a } from "@/llm"\n'})
    yield "model-import", "fail", classifier("import openai\n")
    yield "model-import", "fail", classifier("def late():\n    from anthropic import Anthropic\n")
    yield "model-import", "fail", classifier('import importlib\nmodel = importlib.import_module("litellm")\n')
    yield "model-import", "fail", repository(**{"src/app/clock.py": "from app.client import now\n"})
    # Without the extra a script is refused, by `scannable` and `resolved`.
    if find_spec("tree_sitter_typescript") is not None:
        yield (
            "model-import",
            "fail",
            repository(**{"src/app/retry/web.ts": 'const a = await import("@anthropic-ai/sdk")\n'}),
        )
    yield "network-import", "fail", classifier("import httpx\n")
    yield "network-import", "fail", repository(**{"src/app/retry/table.py": "from app.http import HTTP\n"})
    yield "dynamic-import", "fail", classifier("import importlib\nimportlib.import_module(name)\n")
    yield "dynamic-import", "fail", classifier('eval("1")\n')
    yield "body-read", "fail", classifier("def more(response):\n    return response.text\n")
    yield "body-read", "fail", repository(**{"src/app/keys.py": 'from app.clock import now\nx["prompt"]\n'})
    yield "unpinned-import", "fail", repository(**{"src/app/keys.py": "from app.clock import now\nimport app.http\n"})


def cases() -> Iterator[Case]:
    """Yield every red case, and for each of its checks the evidence on which all is well."""
    seen = []
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
        seen.append(check)
    for check in dict.fromkeys(seen):
        yield Case(check=check, status="pass", gate=LIMITS, evidence=repository())
    stray: dict[str, Any] = {"classifiers": ("src/app/http.py",)}
    yield Case(
        check="classifiers-pinned",
        status="refused",
        gate=msgspec.structs.replace(LIMITS, **stray),
        evidence=repository(),
    )
    yield Case(check="classifiers-pinned", status="pass", gate=LIMITS, evidence=repository())
    many = msgspec.structs.replace(LIMITS, min_modules=20)
    yield Case(check="examined", status="refused", gate=many, evidence=repository())
    yield Case(check="examined", status="pass", gate=LIMITS, evidence=repository())
    old = Exemption(
        check="body-read", path="src/app/retry/classifier.py", what=".text", until="2026-11-01", why="a text of ours"
    )
    lenient = msgspec.structs.replace(LIMITS, exceptions=(msgspec.structs.replace(old, until="2026-12-31"),))
    yield Case(
        check="exceptions",
        status="refused",
        gate=msgspec.structs.replace(LIMITS, exceptions=(old,)),
        evidence=repository(),
    )
    yield Case(check="exceptions", status="pass", gate=lenient, evidence=repository())
    read = classifier("def more(response):\n    return response.text\n")
    yield Case(check="body-read", status="pass", gate=lenient, evidence=read)
