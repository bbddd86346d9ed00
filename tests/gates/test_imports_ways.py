"""More ways to a model, or a body, than an import and an attribute: what the gate `imports` finds of them."""

import pytest

from drillmaster.gates._cases.imports import LIMITS, classifier, repository
from drillmaster.gates.imports import Modules


def red(evidence: Modules) -> set[str]:
    return {one.id for one in LIMITS.checks(evidence) if one.status != "pass"}


HELPERS = {"src/app/helpers/__init__.py": "", "src/app/helpers/llm.py": "import openai\n"}
THROUGH: dict[str, dict[str, str]] = {
    "a star takes what __all__ names": {
        "src/app/helpers/__init__.py": '__all__ = ["llm"]\n',
        "src/app/clock.py": "from app.helpers import *\n",
    },
    "a package that was taken from another": {"src/app/clock.py": "from app import helpers\nhelpers.llm.ask()\n"},
    "the same, under another name": {"src/app/clock.py": "from app import helpers\nx = helpers\nx.llm.ask()\n"},
    "a package under another name": {"src/app/clock.py": "import app.helpers\nx = app.helpers\nx.llm.ask()\n"},
    "by getattr": {"src/app/clock.py": "from app import helpers\ngetattr(helpers, 'llm').ask()\n"},
    "by getattr of a dotted name": {"src/app/clock.py": "import app.helpers\ngetattr(app.helpers, 'llm').ask()\n"},
    "the same, with dots": {"src/app/clock.py": "from . import helpers as h\nh.llm.ask()\n"},
}


@pytest.mark.parametrize("files", THROUGH.values(), ids=THROUGH)
def test_a_module_below_a_package_is_found_where_it_is_taken_by_name(files: dict[str, str]) -> None:
    assert red(repository(**HELPERS | files)) == {"model-import"}


def test_an_export_that_is_no_module_leads_nowhere() -> None:
    files = {"src/app/clock.py": "from app import helpers\nhelpers.now()\n"}
    assert red(repository(**files | {"src/app/helpers/__init__.py": '__all__ = ["now"]\nnow = 1\n'})) == set()


PLACES = [
    '__path__ = ["/srv/elsewhere"]',
    "__path__.append('/srv')",
    "import app\napp.__path__ = ['/srv']",
    "setattr(app, '__path__', ['/srv'])",
    "__package__ = 'openai'\nfrom . import OpenAI",
    "del __package__",
    "def f():\n    import json\nf.__code__ = f.__code__.replace(co_names=('openai',))",
    "import sys\nsys._getframe().f_builtins[x]('openai')",
    "import pydoc\npydoc.locate('openai')",
    "import timeit\ntimeit.timeit('import openai')",
    "import cProfile\ncProfile.run('import openai')",
    "import logging.config\nlogging.config.dictConfig(x)",
    "from logging import config\nconfig.dictConfig(x)",
    "from unittest import mock\nmock.patch('openai.x')",
    "import site\nsite.addsitedir('/srv')",
    "import importlib\nimportlib.reload(x)",
    "import sys\nsys.path_importer_cache",
    "import _frozen_importlib as f\nf._gcd_import('openai')",
    "from importlib._bootstrap import _gcd_import as f\nf('openai')",
    "import _imp\n_imp.create_dynamic(x)",
    "import gc\ngc.get_objects()",
    "g = getattr\ng(r, x)",
    "import functools\nfunctools.partial(getattr, r)(x)",
    "c.load_extension('x')",
]


@pytest.mark.parametrize("text", PLACES)
def test_what_moves_the_place_that_is_looked_in_or_runs_a_text_is_followed_by_nobody(text: str) -> None:
    assert "dynamic-import" in red(classifier(text + "\n"))


def test_an_annotation_in_quotes_is_read_as_what_it_says() -> None:
    assert red(classifier("x: \"__import__('openai').Client\"\n")) == {"model-import"}
    assert red(classifier("def f(x: 'int | None', y: 'no python') -> 'str': return 1\n")) == set()


READS = [
    "import operator\noperator.getitem(r, 'body')",
    "dict.get(r, 'body')",
    "K = 'body'\nr[K]",
    "K = 'body'\nr.get(K)",
    "K = 'body'\ngetattr(r, K)",
    "class A:\n    K: str = 'body'\ndef f(r): return r[A.K]",
    "for k in ('id', 'body'): r[k]",
    "x = [r[k] for k in ['prompt']]",
    "def f(r, k='body'): return r[k]",
    "(k := 'body')\nr[k]",
    "'{0.body}'.format(r)",
    "'{r[body]}'.format(r=r)",
    "'{body}'.format(**r)",
    "'{body}'.format_map(r)",
    "str.format('{0.text}', r)",
    "'%(body)s' % r",
    "import inspect\ninspect.getattr_static(r, 'body')",
]


@pytest.mark.parametrize("text", READS)
def test_a_read_is_found_by_whatever_way_its_name_gets_there(text: str) -> None:
    assert red(classifier(text + "\n")) == {"body-read"}


NETWORKS = [
    "import logging.handlers\nlogging.handlers.HTTPHandler('x', '/')",
    "from logging.handlers import SocketHandler",
    "import urllib.robotparser",
    "from concurrent.futures import ProcessPoolExecutor",
]


@pytest.mark.parametrize("text", NETWORKS)
def test_what_reaches_out_inside_the_standard_library_is_found(text: str) -> None:
    assert red(classifier(text + "\n")) == {"network-import"}


HARMLESS = [
    "K = 'retry-after'\nr[K]",
    "'{0.status} {n}'.format(r, n=1)",
    "'{body}'.format(body=1)",
    "'%(status)s' % r",
    "from timeit import default_timer",
    "from logging.handlers import RotatingFileHandler",
    "getattr(r, 'status', None)",
    "__version__ = '2'",
    "config.reload()",
    "'{'.format(r)",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_reads_nothing_by_the_same_ways_is_let_be(text: str) -> None:
    assert red(classifier(text + "\n")) == set()


TS = "src/app/retry/web.ts"
SCRIPTS = {
    "const {['body']: b} = req": "body-read",
    "const K = 'body'; req[K]": "body-read",
    "req['bo' + 'dy']": "body-read",
    "req[('body')]": "body-read",
    "req['body' as const]": "body-read",
    "import 'data:text/javascript,import \"openai\"'": "resolved",
    "import x from 'https://evil.example/x.js'": "resolved",
    "import x from 'file:///srv/x.js'": "resolved",
    "import x from 'https://esm.run/openai'": "model-import",
    "import x from 'https://esm.sh/v135/openai@4.1.0/es2022/x.mjs'": "model-import",
    "[].constructor.constructor('return 1')()": "dynamic-import",
    "f.constructor('return 1')()": "dynamic-import",
    "module.constructor._load('openai')": "dynamic-import",
    "x['constructor']": "dynamic-import",
    "process.dlopen(m, 'x')": "dynamic-import",
    "vm.compileFunction('x')": "dynamic-import",
    "import.meta.glob('./*.ts')": "dynamic-import",
    "require.context('./x')": "dynamic-import",
    "setTimeout('import(1)', 1)": "dynamic-import",
    "globalThis['req' + 'uire']('openai')": "dynamic-import",
    "new Worker(x)": "dynamic-import",
    "WebAssembly.instantiate(x)": "dynamic-import",
    "const N = 'openai'; require(N)": "model-import",
}


@pytest.mark.parametrize(("text", "check"), SCRIPTS.items(), ids=SCRIPTS)
def test_a_script_has_the_same_ways(text: str, check: str) -> None:
    assert red(repository(**{TS: text + "\n"})) == {check}


@pytest.mark.parametrize(
    "text",
    [
        "const K = 'status'; req[K]",
        "setTimeout(() => 1, 5)",
        "class A { constructor() { this.name = this.constructor.name } }",
        "import x from 'https://esm.sh/lodash'",
        "import fs from 'node:fs'",
        "req['a' + 'b']",
    ],
)
def test_what_a_script_does_every_day_is_let_be(text: str) -> None:
    assert red(repository(**{TS: text + "\n"})) == set()
