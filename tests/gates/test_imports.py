"""The gate `imports` over modules in memory: every way to a model, a network, or a body that is known here."""

import sys
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.imports import FILES, LIMITS, classifier, repository
from drillmaster.gates._selftest import selftest
from drillmaster.gates.imports import Exemption, Imports, Modules
from drillmaster.verdict import Check, conclude

TS = "src/app/retry/web.ts"


def checks(evidence: Modules, gate: Imports = LIMITS) -> dict[str, Check]:
    return {one.id: one for one in gate.checks(evidence)}


def red(evidence: Modules, gate: Imports = LIMITS) -> set[str]:
    return {id_ for id_, one in checks(evidence, gate).items() if one.status != "pass"}


def test_the_good_repository_passes() -> None:
    found = checks(repository())
    assert conclude(tuple(found.values())) == "pass"
    assert LIMITS.headline(repository()) == ("4 pinned modules, 1 of them classifiers, 6 modules read, 0 exceptions",)


PYTHON_MODELS = [
    "import openai",
    "import openai as harmless",
    "import openai.types.chat",
    "import json, openai",
    "from openai import OpenAI",
    "from openai.types import Model as M",
    "from google import genai",
    "import google.generativeai as g",
    "from azure.ai import inference",
    "def late():\n    import anthropic",
    "try:\n    import litellm\nexcept ImportError:\n    litellm = None",
    "if False:\n    import cohere",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mistralai",
    "class A:\n    import groq",
    "import importlib\nimportlib.import_module('openai')",
    "import importlib as i\ni.import_module('openai.types')",
    "from importlib import import_module\nimport_module('openai')",
    "from importlib import import_module as f\nf('open' + 'ai')",
    "from importlib import import_module as f\nf(name='openai')",
    "import importlib\nx = importlib\nx.import_module(f'openai')",
    "__import__('openai')",
    "import builtins\nbuiltins.__import__('openai')",
    "import pkgutil\npkgutil.resolve_name('openai:OpenAI')",
    "import runpy\nrunpy.run_module('openai')",
    "lambda: __import__('langchain_openai')",
    "async def f():\n    from llama_index.llms import openai",
    "import ollama",
    "import google\ngoogle.genai.Client()",
    "import google as g\ng.generativeai.configure()",
    "import agents",
]


@pytest.mark.parametrize("text", PYTHON_MODELS)
def test_a_model_sdk_is_found_however_it_is_imported(text: str) -> None:
    found = checks(classifier(text + "\n"))["model-import"]
    assert found.status == "fail"
    assert found.cites[0].file == "src/app/retry/classifier.py"
    assert found.cites[0].line > 5


@pytest.mark.parametrize(
    "text", ["import openaiish", "import agents_of_ours", "x = 'openai'", "# import openai", '"""import openai"""']
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert red(classifier(text + "\n")) == set()


def test_a_name_that_is_the_repositorys_own_is_followed_and_not_taken_for_an_sdk() -> None:
    files = {"src/agents/__init__.py": "", "src/app/clock.py": "import agents\n"}
    assert red(repository(**files)) == set()
    assert red(repository(**files | {"src/agents/__init__.py": "import openai\n"})) == {"model-import"}
    assert red(repository(**{"src/openai.py": "", "src/app/clock.py": "import openai\n"})) == {"model-import"}


WAYS: dict[str, dict[str, str]] = {
    "by way of a module beside": {"src/app/clock.py": "from app import client\n"},
    "by way of three": {
        "src/app/clock.py": "from app import a\n",
        "src/app/a.py": "from app.b import x\n",
        "src/app/b.py": "from .model import x\n",
    },
    "by way of a package's __init__": {"src/app/__init__.py": "from . import model\n"},
    "by way of an __init__ on the way": {
        "src/app/clock.py": "import app.deep.down.here\n",
        "src/app/deep/__init__.py": "import openai\n",
        "src/app/deep/down/here.py": "",
    },
    "by a relative import": {"src/app/retry/table.py": "from .. import model\n"},
    "by a star": {"src/app/clock.py": "from app.model import *\n"},
    "by a module beside a script": {
        "src/app/clock.py": "import bin.run\n",
        "src/bin/run.py": "import helper\n",
        "src/bin/helper.py": "import openai\n",
    },
    "by an attribute of a package": {"src/app/clock.py": "import app\napp.client.ask()\n"},
    "in a circle": {"src/app/clock.py": "import app.a\n", "src/app/a.py": "import app.clock, app.model\n"},
}


@pytest.mark.parametrize("files", WAYS.values(), ids=WAYS)
def test_a_model_sdk_is_found_by_way_of_the_repositorys_own_modules(files: dict[str, str]) -> None:
    found = checks(repository(**files))["model-import"]
    assert found.status == "fail"
    assert "openai" in found.why
    assert "by way of" in found.why or "__init__.py" in found.why


PYTHON_DYNAMIC = [
    "import importlib\nimportlib.import_module(name)",
    "import importlib\nimportlib.import_module(f'{a}ai')",
    "import importlib\nf = importlib.import_module",
    "from importlib import import_module as f\nlist(map(f, names))",
    "__import__(name)",
    "f = __import__",
    "exec(text)",
    "eval(text)",
    "compile(text, '', 'exec')",
    "import builtins\nbuiltins.exec(text)",
    "import sys\nsys.modules['openai'].OpenAI()",
    "import sys as s\ns.modules[name]",
    "from sys import modules\nmodules['openai']",
    "import sys\nsys.path.insert(0, '/tmp')",
    "__builtins__['__import__']('openai')",
    "getattr(importlib, 'import_module')('openai')",
    "getattr(response, name)",
    "import operator\noperator.attrgetter(name)",
    "vars(response)",
    "globals()",
    "response.__dict__",
    "f.__globals__",
    "import importlib.util\nimportlib.util.spec_from_file_location('a', 'b')",
    "from importlib.machinery import SourceFileLoader as L\nL('a', 'b')",
    "import pickle",
    "from ctypes import CDLL",
]


@pytest.mark.parametrize("text", PYTHON_DYNAMIC)
def test_what_is_reached_by_a_computed_name_is_followed_by_nobody(text: str) -> None:
    assert "dynamic-import" in red(classifier(text + "\n"))


PYTHON_READS = [
    "def f(r): return r.body",
    "def f(r): return r.text",
    "def f(r): return r.json()",
    "def f(r): return r.json",
    "async def f(r): return await r.aread()",
    "def f(r): return r.content",
    "def f(r): return r['prompt']",
    "def f(r): return r['pro' + 'mpt']",
    "def f(r): return r.get('prompt')",
    "def f(r): return r.pop('messages', None)",
    "def f(r): return r.a.b.choices[0]",
    "def f(r): return getattr(r, 'body')",
    "def f(r): return getattr(r, 'body', None)",
    "import operator\ng = operator.attrgetter('response.body')",
    "from operator import itemgetter\ng = itemgetter('prompt')",
    "from operator import methodcaller as m\ng = m('json')",
    "def f(r):\n    match r:\n        case R(body=b): return b",
    "def f(r):\n    match r:\n        case {'prompt': p}: return p",
    "def f(body): return 1",
    "def f(*, prompt=None): return 1",
    "f = lambda messages: 1",
    "class Facts:\n    prompt: str",
    "from app.clock import prompt",
    "def f(r): return f'{r.text}'",
    "def f(r): return [x.text for x in r]",
    "def f(r): del r.x; return r.\uff42\uff4f\uff44\uff59",  # wide letters, which Python reads as .body
]


@pytest.mark.parametrize("text", PYTHON_READS)
def test_a_read_of_what_somebody_wrote_is_found(text: str) -> None:
    assert red(classifier(text + "\n")) == {"body-read"}


@pytest.mark.parametrize(
    "text",
    [
        "def f(r): r.body = None",
        "def f(r): return r.status, r.headers['retry-after']",
        "import msgspec\nd = msgspec.json.decode",
        "def f(text: str): return text",
        "x = {'prompt': 1}",
        "def f(r): return r.textual",
    ],
)
def test_what_reads_nothing_is_let_be(text: str) -> None:
    assert red(classifier(text + "\n")) == set()


def test_only_pinned_modules_are_held_to_what_they_read() -> None:
    assert red(repository(**{"src/app/clock.py": "def f(r): return r.body\n"})) == set()


PYTHON_NETWORK = [
    "import httpx",
    "from urllib import request",
    "import http.client",
    "import socket as s",
    "import subprocess",
    "import os\nos.system('llm')",
    "from os import popen\npopen('llm')",
    "import asyncio\nasync def f(): await asyncio.open_connection('a', 1)",
    "import aiohttp.client",
    "import boto3",
    "import urllib\nurllib.request.urlopen(x)",
    "from posix import system",
]


@pytest.mark.parametrize("text", PYTHON_NETWORK)
def test_a_classifier_reaches_no_network(text: str) -> None:
    assert red(classifier(text + "\n")) == {"network-import"}
    others = repository(**{"src/app/keys.py": FILES["src/app/keys.py"] + text + "\n"})
    assert red(others) == set()  # keys may be kept in a store


@pytest.mark.parametrize("text", ["import os\nos.environ", "import http", "from urllib import parse", "import sockets"])
def test_what_reaches_nothing_is_let_be(text: str) -> None:
    assert red(classifier(text + "\n")) == set()


# Next door


def test_a_decision_that_was_moved_next_door_is_found() -> None:
    files = {"src/app/decide.py": "def f(r): return r.body\n", "src/app/keys.py": "from app.decide import f\n"}
    found = checks(repository(**files))["unpinned-import"]
    assert found.status == "fail"
    assert "src/app/decide.py" in found.why


def test_a_package_that_binds_nothing_is_passed_through_and_another_is_not() -> None:
    assert red(repository(**{"src/app/__init__.py": '"""d"""\n__all__ = ["a"]\n'})) == set()
    assert red(repository(**{"src/app/__init__.py": "def classify(r): return r.body\n"})) == {"unpinned-import"}
    assert red(repository(**{"src/app/__init__.py": "from .http import x\n"})) >= {"unpinned-import"}


# What cannot be told


@pytest.mark.parametrize(
    "data",
    [
        b"def (",
        b"\xff\xfe",
        b"x = '\x00'",
        b"(" * 5_000,
        b"x = 1 " + b"+ 1" * 100_000,
        b"# coding: no-such-codec\n",
        b" " * (5 << 20),
    ],
)
def test_a_module_that_cannot_be_read_is_refused(data: bytes) -> None:
    assert "scannable" in red(repository(**{"src/app/retry/classifier.py": data}))  # type: ignore[arg-type]  # bytes are fine


@pytest.mark.parametrize("name", ["fast.go", "fast.so", "Fast.java", "run", "a.ipynb", "a.vue", "a.pyx", "a.lua"])
def test_a_language_that_nobody_reads_is_refused(name: str) -> None:
    assert red(repository(**{f"src/app/retry/{name}": "x = 1\n"})) == {"scannable"}


def test_data_beside_a_module_is_no_module_and_data_alone_is_nothing() -> None:
    assert red(repository(**{"src/app/retry/table.json": "{}"})) == set()
    alone = msgspec.structs.replace(LIMITS, pinned=("src/app/retry/README.md", *LIMITS.pinned))
    assert red(repository(), alone) == {"declared"}


def test_a_module_next_door_that_cannot_be_read_is_refused_too() -> None:
    assert red(repository(**{"src/app/clock.py": "def (\n"})) == {"scannable"}
    binary = repository(
        **{"src/app/fast.cpython-311-x86_64-linux-gnu.so": b"\x7fELF", "src/app/clock.py": "import app.fast\n"}
    )  # type: ignore[arg-type]  # bytes are fine
    assert red(binary) == {"scannable"}


def test_a_link_or_a_submodule_where_a_package_should_be_is_refused() -> None:
    evidence = repository(**{"src/app/lib": "../../elsewhere", "src/app/clock.py": "from app.lib.model import now\n"})
    assert red(msgspec.structs.replace(evidence, links=frozenset({"src/app/lib"}))) == {"scannable"}


def test_a_file_that_was_not_read_is_refused() -> None:
    good = repository()
    files = {path: data for path, data in good.files.items() if path != "src/app/clock.py"}
    assert red(msgspec.structs.replace(good, files=files)) == {"scannable"}


def test_each_pattern_is_held_to_what_it_fits_and_counts_from_the_root() -> None:
    typo = msgspec.structs.replace(LIMITS, pinned=(*LIMITS.pinned, "src/app/retri/**"))
    assert red(repository(), typo) == {"declared"}
    at_any_depth = msgspec.structs.replace(LIMITS, pinned=(*LIMITS.pinned, "keys.py"))
    assert red(repository(), at_any_depth) == {"declared"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pinned", ("**",)),
        ("pinned", ("",)),
        ("pinned", ("../a.py",)),
        ("pinned", ("a/{b,c}.py",)),
        ("roots", ("/src",)),
        ("roots", ("../src",)),
        ("beside", ("!a.py",)),
    ],
)
def test_a_pattern_that_means_nothing_or_everything_is_no_policy(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        msgspec.structs.replace(LIMITS, **{field: value})


def test_a_pinned_module_that_is_gone_is_told() -> None:
    evidence = msgspec.structs.replace(repository(), before=(*FILES, "src/app/retry/old.py", "src/app/gone.py"))
    findings = list(LIMITS.findings(evidence, ()))
    assert [one.cause.partition(":")[0] for one in findings] == ["src/app/retry/old.py"]


def test_the_policys_own_names_are_looked_for_too() -> None:
    wider = msgspec.structs.replace(
        LIMITS, models=("acme_llm", "app.clock"), networks=("acme_rpc",), reads=("utterance",)
    )
    assert "model-import" in red(classifier("import acme_llm.chat\n"), wider)
    assert "model-import" in red(repository(), wider)  # app.clock, which the keys import
    plain = msgspec.structs.replace(wider, models=())
    assert red(classifier("import acme_rpc\n"), plain) == {"network-import"}
    assert red(classifier("def f(r): return r.utterance\n"), plain) == {"body-read"}
    assert red(classifier("def f(r): return r.utterances\n"), plain) == set()


def test_an_exception_is_for_one_name_in_one_module() -> None:
    one = Exemption(
        check="body-read", path="src/app/retry/classifier.py", what=".text", until="2026-12-31", why="a text of ours"
    )
    gate = msgspec.structs.replace(LIMITS, exceptions=(one,))
    assert red(classifier("def f(r): return r.text\n"), gate) == set()
    assert "1 let pass" in checks(classifier("def f(r): return r.text\n"), gate)["body-read"].title
    assert red(classifier("def f(r): return r.text, r.body\n"), gate) == {"body-read"}
    with pytest.raises(ValueError, match="check"):
        msgspec.structs.replace(one, check="scannable")


# Scripts

pytest.importorskip("tree_sitter_typescript")

SCRIPT_MODELS = [
    'import OpenAI from "openai"',
    "import { a } from 'openai/resources'",
    'import type { Message } from "@anthropic-ai/sdk"',
    'export * from "@ai-sdk/openai"',
    'const o = require("openai")',
    "const o = require(`openai`)",
    'const o = require("open\\x61i")',
    'async function f() { return await import("@langchain/core") }',
    'import o = require("openai")',
    "module.require('openai')",
    'import o from "npm:openai@4"',
    'import o from "https://esm.sh/openai@4"',
    'if (x) { require("@aws-sdk/client-bedrock-runtime") }',
]
SCRIPT_DYNAMIC = [
    "const o = require(name)",
    "const o = require(`${a}ai`)",
    "await import(name)",
    "const r = require; r('openai')",
    "eval(x)",
    "new Function('return 1')",
    "const m = module.require; m('openai')",
    "import { createRequire } from 'module'; const r = createRequire(import.meta.url)",
    "Reflect.get(r, name)",
    "globalThis['eval'](x)",
    "r.\\u0062ody",
]
SCRIPT_READS = [
    "const f = (r) => r.body",
    "const f = (r) => r?.body",
    "const f = (r) => r['prompt']",
    "const f = (r) => r['pr\\u006fmpt']",
    "const f = (r) => r.json()",
    "const f = (r) => r.text()",
    "const f = (r) => r.get('prompt')",
    "const f = ({ body }) => 1",
    "const { messages: m } = r",
    "function f(prompt: string) { return 1 }",
    "const f = prompt => 1",
    "interface Facts { prompt: string }",
    "class Facts { prompt = '' }",
    "Reflect.get(r, 'body')",
]


@pytest.mark.parametrize("text", SCRIPT_MODELS)
def test_a_script_imports_no_model_sdk(text: str) -> None:
    assert red(repository(**{TS: text + "\n"})) == {"model-import"}


@pytest.mark.parametrize("text", SCRIPT_DYNAMIC)
def test_a_script_reaches_nothing_by_a_computed_name(text: str) -> None:
    assert "dynamic-import" in red(repository(**{TS: text + "\n"}))


@pytest.mark.parametrize(
    "text", ["process.binding('fs')", "const { eval: run } = globalThis", "const { _load } = module.constructor"]
)
def test_a_script_runs_no_code_under_another_name(text: str) -> None:
    assert "dynamic-import" in red(repository(**{TS: text + "\n"}))


@pytest.mark.parametrize(
    "text", ["export const fetched = 1", "const { prefetch } = table", "const { fetches: n } = table"]
)
def test_a_script_may_have_names_that_begin_like_those(text: str) -> None:
    gate = msgspec.structs.replace(LIMITS, classifiers=(*LIMITS.classifiers, TS))
    assert red(repository(**{TS: text + "\n"}), gate) == set()


@pytest.mark.parametrize("text", SCRIPT_READS)
def test_a_script_reads_no_body(text: str) -> None:
    assert red(repository(**{TS: text + "\n"})) == {"body-read"}


@pytest.mark.parametrize(
    "text",
    [
        "fetch('/x')",
        "new WebSocket('x')",
        "import a from 'node:https'",
        "globalThis.fetch(x)",
        "const { fetch: get } = globalThis",
        "const { fetch } = globalThis",
        "Deno.connect({ port: 1 })",
        "Bun.connect({ port: 1 })",
    ],
)
def test_a_script_that_classifies_reaches_no_network(text: str) -> None:
    gate = msgspec.structs.replace(LIMITS, classifiers=(*LIMITS.classifiers, TS))
    assert red(repository(**{TS: text + "\n"}), gate) == {"network-import"}


def test_a_script_is_followed_through_the_repository() -> None:
    files = {
        TS: 'import { a } from "../lib/a.js"\n',
        "src/app/lib/a.ts": 'export { b } from "./b"\n',
        "src/app/lib/b/index.mjs": 'import "openai"\n',
    }
    gate = msgspec.structs.replace(LIMITS, beside=(*LIMITS.beside, "src/app/lib/a.ts"))
    found = checks(repository(**files), gate)
    assert found["model-import"].status == "fail"
    assert "web.ts > a.ts > index.mjs" in found["model-import"].why
    assert found["unpinned-import"].status == "pass"
    assert "unpinned-import" in red(repository(**files))


def test_a_bare_name_that_leads_to_a_file_of_the_repository_is_followed() -> None:
    files = {TS: 'import { a } from "app/lib/a"\n', "src/app/lib/a.ts": 'import "openai"\n'}
    assert red(repository(**files)) == {"model-import", "unpinned-import"}
    assert red(repository(**{TS: 'import { a } from "app-lib/a"\n'})) == set()


@pytest.mark.parametrize("source", ["@/llm", "#llm", "~/llm", "/llm", "./gone", ""])
def test_an_alias_of_a_build_is_refused(source: str) -> None:
    assert red(repository(**{TS: f'import a from "{source}"\n'})) == {"resolved"}


@pytest.mark.parametrize("data", [b"const = (", b"\xff\xfe", b"(" * 100_000])
def test_a_script_that_cannot_be_read_is_refused(data: bytes) -> None:
    assert "scannable" in red(repository(**{TS: data}))  # type: ignore[arg-type]  # bytes are fine


def test_a_script_that_decides_by_numbers_passes() -> None:
    text = """import { createHash } from "node:crypto";
import table from "./table.json";
export const classify = (status: number, attempt: number): boolean => table.http.includes(status) && attempt < 3;
"""
    assert red(repository(**{TS: text, "src/app/retry/table.json": '{"http": [429]}'})) == set()


def test_without_the_extra_a_script_is_refused_and_python_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tree_sitter", "tree_sitter_javascript", "tree_sitter_typescript"):
        monkeypatch.setitem(sys.modules, name, None)
    assert red(repository(**{"src/app/retry/web.ts": 'import { a } from "./a"\n'})) == {"scannable", "resolved"}
    assert red(repository()) == set()
    assert [row for row in selftest("imports") if row.problems] == []
