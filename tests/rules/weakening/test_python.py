"""Weakened tests in Python: each kind shown, and changes that weaken nothing."""

import textwrap

import pytest

from drillmaster.rules.weakening import Version, compared

HEAD = "import pytest\nfrom pay import charge\n"


def kinds(before: str | None, after: str | None, path: str = "tests/test_pay.py") -> list[str]:
    def data(text: str | None) -> bytes | None:
        return None if text is None else textwrap.dedent(text).encode()

    found = compared([Version(path=path, before=data(before), after=data(after))])
    assert not found.unread, found.unread
    return sorted({one.kind for one in found.weakenings})


def bodies(before: str, after: str) -> list[str]:
    def test(body: str) -> str:
        return HEAD + "def test_a():\n" + textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "    ")

    return kinds(test(before), test(after))


WEAKER = [
    ("assert charge(1) == 3\nassert charge(2) == 4", "assert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3 and charge(2) == 4", "assert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3", "charge(1)", "fewer-asserts"),
    ("assert charge(1) == 3", "return\nassert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3", "if False:\n    assert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3", "while 0:\n    assert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3", "for x in []:\n    assert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3", "def never():\n    assert charge(1) == 3", "fewer-asserts"),
    ("assert charge(1) == 3", "assert True", "tautology"),
    ("assert charge(1) == 3", "assert 1", "tautology"),
    ("assert charge(1) == 3", "expected = charge(1)\nassert charge(1) == expected", "loosened"),
    ("assert charge(1) == 3", "assert (charge(1) == 3) is not None", "loosened"),
    ("assert charge(1) == 3", "charge = lambda n: 3\nassert charge(1) == 3", "mock"),
    ("assert charge(1) == 3", "def charge(n):\n    return 3\nassert charge(1) == 3", "mock"),
    ("assert charge(1) == 3", "yield\nassert charge(1) == 3", "skipped"),
    ("assert charge(1) == 3", "charge(1) == 3", "fewer-asserts"),
    (
        "m = Mock()\ncharge(m)\nm.assert_called_once_with(3)",
        "m = Mock()\ncharge(m)\nm.called_once_with(3)",
        "fewer-asserts",
    ),
    ("assert charge(1) == 3", "with pytest.raises(AssertionError):\n    assert charge(1) == 3", "swallowed"),
    ("assert charge(1) == 3", "import os\nos._exit(0)\nassert charge(1) == 3", "config"),
    (
        "for x in [1, 2, 3]:\n    assert charge(x) == x",
        "for x in [1, 1, 1]:\n    assert charge(x) == x",
        "rows-dropped",
    ),
    ("assert charge(1) == 3", "assert charge(1) == charge(1)", "loosened"),
    ("assert charge(1) == 3", "x = charge(1)\nassert x == x", "tautology"),
    ("assert charge(1) == 3", "assert charge(1) == 3 or True", "tautology"),
    ("assert charge(1) == 3", "assert (charge(1) == 3, 'message')", "tautology"),
    ("assert charge(1) == 3", "ok = True\nassert ok", "tautology"),
    ("assert charge(1) == 3", "assert len(charge(1)) >= 0", "tautology"),
    ("assert charge(1) == 3", "assert isinstance(charge(1), object)", "tautology"),
    ("assert charge(1) == 3", "assert charge(1) == mock.ANY", "tautology"),
    ("assert charge(1) == 3", "assert not False", "tautology"),
    ("assert charge(1) == 3", "assert (x for x in [charge(1)])", "tautology"),
    ("assert charge(1) == 3", "assert charge(1) == 3 if False else True", "tautology"),
    ("assert charge(1) == 3", "assert charge(1) in (3, 4)", "loosened"),
    ("assert charge(1) == 3", "assert charge(1) is not None", "loosened"),
    ("assert charge(1) == 3", "assert charge(1)", "loosened"),
    ("assert charge(1) == 3", "assert isinstance(charge(1), int)", "loosened"),
    ("assert charge(1) == 3", "assert charge(1) != 4", "loosened"),
    ("assert charge(1) == 3", "assert charge(1) == 3 or charge(1) == 4", "loosened"),
    ("assert charge(1) == 3", "assert charge(1) > 0", "loosened"),
    ("assert charge(1) == 3", "r = charge(1)\nassert r", "loosened"),
    ("r = charge(1)\nassert r == 3", "r = charge(1)\nassert r", "loosened"),
    ("assert charge(1) == 3", "assert charge(1) == pytest.approx(3)", "loosened"),
    ("assert charge(1) == 3", "import os\nif os.environ.get('CI'):\n    assert charge(1) == 3", "loosened"),
    ("assert charge(1) == {'a': 1}", "assert 'a' in charge(1)", "loosened"),
    (
        "with pytest.raises(ValueError, match='amount'):\n    charge(0)",
        "with pytest.raises(ValueError):\n    charge(0)",
        "loosened",
    ),
    ("with pytest.raises(ValueError):\n    charge(0)", "with pytest.raises(Exception):\n    charge(0)", "loosened"),
    ("assert charge(1) == pytest.approx(3, rel=1e-6)", "assert charge(1) == pytest.approx(3, rel=1e-2)", "tolerance"),
    ("assert charge(1) == pytest.approx(3)", "assert charge(1) == pytest.approx(3, abs=1)", "tolerance"),
    ("TOL = 1e-6\nassert abs(charge(1) - 3) < TOL", "TOL = 1e-1\nassert abs(charge(1) - 3) < TOL", "tolerance"),
    ("assert abs(charge(1) - 3) < 0.01", "assert abs(charge(1) - 3) < 0.5", "tolerance"),
    ("assert charge(1) < 0.5", "assert charge(1) < 50", "tolerance"),
    ("assert 0.5 > charge(1)", "assert 50 > charge(1)", "tolerance"),
    ("assert charge(1) >= 99", "assert charge(1) >= 10", "tolerance"),
    (
        "import math\nassert math.isclose(charge(1), 3)",
        "import math\nassert math.isclose(charge(1), 3, rel_tol=0.1)",
        "tolerance",
    ),
    ("charge(1, timeout=5)\nassert charge(1) == 3", "charge(1, timeout=500)\nassert charge(1) == 3", "tolerance"),
    ("assert charge(1) == 3", "try:\n    assert charge(1) == 3\nexcept AssertionError:\n    pass", "swallowed"),
    ("assert charge(1) == 3", "try:\n    assert charge(1) == 3\nexcept:\n    print('x')", "swallowed"),
    ("assert charge(1) == 3", "try:\n    assert charge(1) == 3\nfinally:\n    return", "swallowed"),
    (
        "assert charge(1) == 3",
        "import contextlib\nwith contextlib.suppress(Exception):\n    assert charge(1) == 3",
        "swallowed",
    ),
    (
        "assert charge(1) == 3",
        "try:\n    assert charge(1) == 3\nexcept (ValueError, Exception) as e:\n    log(e)",
        "swallowed",
    ),
    ("assert charge(1) == 3", "pytest.skip('flaky')\nassert charge(1) == 3", "skipped"),
    ("assert charge(1) == 3", "if not pytest.x:\n    return\nassert charge(1) == 3", "skipped"),
    ("for x in [1, 2, 3]:\n    assert charge(x) == x", "for x in [1]:\n    assert charge(x) == x", "rows-dropped"),
    (
        "assert charge(1) == 3",
        "from unittest.mock import Mock\ncharge2 = Mock(return_value=3)\nassert charge2(1) == 3",
        "mock",
    ),
    (
        "import pay\nassert pay.charge(1) == 3",
        "import pay\nwith patch('pay.charge', return_value=3):\n    assert pay.charge(1) == 3",
        "mock",
    ),
]


@pytest.mark.parametrize(("before", "after", "kind"), WEAKER)
def test_a_weaker_test_is_told(before: str, after: str, kind: str) -> None:
    assert kind in bodies(before, after)


HARMLESS = [
    ("result = charge(1)\nassert result == 3", "r = charge(1)\nassert r == 3"),  # renamed
    ("assert charge(1) == 3", "assert (\n    charge( 1 ) == 3  # why\n)"),  # formatted
    ("assert charge(1) == 3", "got = charge(1)\nassert got == 3"),  # a variable taken out
    ("assert charge(1) == 3", "assert charge(1) == 3\nassert charge(2) == 4"),  # one more
    (
        "assert charge(1) == 3\nassert charge(2) == 4",
        "assert charge(2) == 4\nassert charge(1) == 3",
    ),  # in another order
    ("assert charge(1) == 3", "assert charge(1) == 4"),  # another value: for its owner to see
    ("assert charge(1) == pytest.approx(3, rel=1e-2)", "assert charge(1) == pytest.approx(3, rel=1e-6)"),  # narrower
    ("assert charge(1)", "assert charge(1) == 3"),  # stricter
    ("assert charge(1) == 3 and charge(2) == 4", "assert charge(1) == 3\nassert charge(2) == 4"),
    ("assert charge(1) == 3", "assert charge(1) == 3, 'why it must be three'"),
    (
        "with pytest.raises(ValueError):\n    charge(0)",
        "with pytest.raises(ValueError, match='amount'):\n    charge(0)",
    ),
    (
        "try:\n    charge(0)\nexcept ValueError as e:\n    assert 'a' in str(e)",
        "try:\n    charge(0)\nexcept ValueError as error:\n    assert 'a' in str(error)",
    ),
    ("for x in [1, 2]:\n    assert charge(x) == x", "for n in [1, 2, 3]:\n    assert charge(n) == n"),
    ("assert charge(1) == 3", "with patch('pay.clock', return_value=3):\n    assert charge(1) == 3"),
    (
        "m = Mock()\ncharge(m)\nm.assert_called_once_with(3)",
        "gateway = Mock()\ncharge(gateway)\ngateway.assert_called_once_with(3)",
    ),
    ("assert charge(1) == 3", "assert charge(1) == 3\nm = Mock()\ncharge(m)\nassert m.call_count == 1"),
    ("TOL = 0.1\nassert abs(charge(1) - 3) < TOL", "assert abs(charge(1) - 3) < 0.1"),
    ("assert 'x' in charge(1)", "assert 'x' in charge(1)\nassert 'y' not in charge(1)"),
    ("assert charge(1) == 3", "try:\n    assert charge(1) == 3\nfinally:\n    cleanup()"),
    ("assert charge(1) == 3", "try:\n    assert charge(1) == 3\nexcept AssertionError:\n    dump()\n    raise"),
    ("assert not charge(1)", "assert not charge(1)"),
    ("assert charge(1) == 3", "import asyncio\nassert charge(1) == 3"),
]


@pytest.mark.parametrize(("before", "after"), HARMLESS)
def test_a_harmless_change_is_left_alone(before: str, after: str) -> None:
    assert bodies(before, after) == []


UNIT = "import unittest\nclass A(unittest.TestCase):\n"
ONE = "def test_a():\n    assert charge(1) == 3\n"
ROWS = "def test_a(x):\n    assert charge(x) == x\n"
CLASS = "class TestA:\n    def test_a(self):\n        assert charge(1) == 3\n"
CASE = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(charge(1), 3)\n"


def module(text: str) -> str:
    return HEAD + textwrap.dedent(text)


FILES = [
    (ONE, "", "test-removed"),
    (ONE, "def check_a():\n    assert charge(1) == 3\n", "test-removed"),
    (ONE, "def _test_a():\n    assert charge(1) == 3\n", "test-removed"),
    ("def test_a():\n    charge(1)\n", "", "test-removed"),
    (CLASS, "class HelperA:\n    def test_a(self):\n        assert charge(1) == 3\n", "test-removed"),
    (ONE, ONE + "test_a = None\n", "test-removed"),
    (ONE, ONE + "del test_a\n", "test-removed"),
    (ONE, ONE + "def test_a():\n    charge(1)\n", "fewer-asserts"),
    (ONE, "if False:\n    def test_a():\n        assert charge(1) == 3\n", "test-removed"),
    (ONE, "@pytest.mark.skip\n" + ONE, "skipped"),
    (ONE, "@pytest.mark.xfail(strict=False)\n" + ONE, "skipped"),
    (ONE, "@pytest.mark.flaky(reruns=5)\n" + ONE, "skipped"),
    (ONE, "later = pytest.mark.skipif(True, reason='x')\n@later\n" + ONE, "skipped"),
    (ONE, "pytestmark = pytest.mark.skip\n" + ONE, "skipped"),
    (ONE, "pytestmark = [pytest.mark.slow, pytest.mark.xfail]\n" + ONE, "skipped"),
    (ONE, "pytest.skip('x', allow_module_level=True)\n" + ONE, "skipped"),
    (ONE, "import os\nif os.name == 'nt':\n    def test_a():\n        assert charge(1) == 3\n", "skipped"),
    (CLASS, "@pytest.mark.skip\n" + CLASS, "skipped"),
    (CLASS, "class TestA:\n    __test__ = False\n    def test_a(self):\n        assert charge(1) == 3\n", "skipped"),
    (
        CASE,
        "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(charge(1))\n",
        "loosened",
    ),
    (
        CASE,
        "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(3, 3)\n",
        "tautology",
    ),
    (
        "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertAlmostEqual(charge(1), 3)\n",
        UNIT + "    def test_a(self):\n        self.assertAlmostEqual(charge(1), 3, places=1)\n",
        "tolerance",
    ),
    (
        CASE,
        UNIT + "    @unittest.skip('x')\n    def test_a(self):\n        self.assertEqual(charge(1), 3)\n",
        "skipped",
    ),
    (
        "@pytest.mark.parametrize('x', [1, 2, 3])\n" + ROWS,
        "@pytest.mark.parametrize('x', [1, 2])\n" + ROWS,
        "rows-dropped",
    ),
    (
        "ROWS = [1, 2, 3]\n@pytest.mark.parametrize('x', ROWS)\n" + ROWS,
        "ROWS = [1]\n@pytest.mark.parametrize('x', ROWS)\n" + ROWS,
        "rows-dropped",
    ),
    (
        "@pytest.mark.parametrize('x', [1, 2, 3])\n" + ROWS,
        "@pytest.mark.parametrize('x', [1, 2, pytest.param(3, marks=pytest.mark.skip)])\n" + ROWS,
        "rows-dropped",
    ),
    (
        "@pytest.mark.parametrize('x', [1, 2, 3])\n" + ROWS,
        "@pytest.mark.parametrize('x', rows())\n" + ROWS,
        "rows-dropped",
    ),
    ("@pytest.mark.parametrize('x', [1])\n" + ROWS, "@pytest.mark.parametrize('x', [])\n" + ROWS, "skipped"),
    (
        "def check(x):\n    assert charge(x) == x\ndef test_a():\n    check(1)\n",
        "def check(x):\n    charge(x)\ndef test_a():\n    check(1)\n",
        "fewer-asserts",
    ),
    ("@pytest.mark.timeout(5)\n" + ONE, "@pytest.mark.timeout(500)\n" + ONE, "tolerance"),
    (
        "@settings(max_examples=500)\ndef test_a(x):\n    assert charge(x) == 3\n",
        "@settings(max_examples=1)\ndef test_a(x):\n    assert charge(x) == 3\n",
        "rows-dropped",
    ),
]


@pytest.mark.parametrize(("before", "after", "kind"), FILES)
def test_a_weaker_file_is_told(before: str, after: str, kind: str) -> None:
    assert kind in kinds(module(before), module(after))


HARMLESS_FILES = [
    (
        ONE + "def test_b():\n    assert charge(2) == 4\n",
        "def test_b():\n    assert charge(2) == 4\n" + ONE,
    ),  # moved within the file
    (
        ONE + "    assert charge(2) == 4\n",
        "def test_one():\n    assert charge(1) == 3\ndef test_two():\n    assert charge(2) == 4\n",
    ),  # split
    (
        "def test_one():\n    assert charge(1) == 3\ndef test_two():\n    assert charge(2) == 4\n",
        "def test_both():\n    assert charge(1) == 3\n    assert charge(2) == 4\n",
    ),  # put together
    (
        "def test_a():\n    r = charge(1)\n    assert r.code == 3\n    assert r.ok is True\n",
        "def good(answer):\n    assert answer.code == 3\n    assert answer.ok is True\ndef test_a():\n    good(charge(1))\n",
    ),  # a helper taken out
    (ONE, "def test_charges_one():\n    assert charge(1) == 3\n"),  # renamed
    (ONE, "class TestPay:\n    def test_a(self):\n        assert charge(1) == 3\n"),  # into a class
    ("@pytest.mark.parametrize('x', [1, 2])\n" + ROWS, "ROWS = [1, 2]\n@pytest.mark.parametrize('x', ROWS)\n" + ROWS),
    ("@pytest.mark.parametrize('x', [1, 2])\n" + ROWS, "@pytest.mark.parametrize('x', [2, 1, 5])\n" + ROWS),
    ("@pytest.mark.skip\n" + ONE, ONE),  # runs again
    (ONE, "@pytest.mark.slow\n" + ONE),
    (CASE, ONE),  # from one runner to the other
    (ONE, ONE + "@pytest.mark.skipif(True, reason='x')\ndef test_new():\n    assert charge(4) == 4\n"),
    (ONE, "async " + ONE),
]


@pytest.mark.parametrize(("before", "after"), HARMLESS_FILES)
def test_a_harmless_file_is_left_alone(before: str, after: str) -> None:
    # A change from self.assertEqual to assert keeps the count and the strength; its text is another.
    assert kinds(module(before), module(after)) == []


def test_a_name_that_comes_from_a_stand_in_now_is_told() -> None:
    before = HEAD + ONE
    assert kinds(before, before.replace("from pay", "from tests.fakes")) == ["mock"]
    assert kinds(before, before.replace("from pay", "from payments.core")) == []


def test_a_class_that_no_runner_collects_any_more_is_told() -> None:
    after = CLASS.replace("class TestA:\n", "class TestA:\n    def __init__(self):\n        pass\n")
    assert kinds(module(CLASS), module(after)) == ["skipped"]


def test_a_test_that_moved_to_another_file_is_not_lost() -> None:
    text = module(ONE).encode()
    found = compared(
        [
            Version(path="tests/test_a.py", before=text, after=None),
            Version(path="tests/test_b.py", before=None, after=text),
        ]
    )
    assert found.weakenings == ()


def test_a_helper_that_moved_to_another_file_still_asserts_where_it_is_called() -> None:
    helper = "def good(answer):\n    assert answer.code == 3\n    assert answer.ok is True\n"
    test = "def test_a():\n    good(charge(1))\ndef test_b():\n    r = charge(2)\n    good(r)\n"
    one = "def test_a():\n    r = call()\n    good(r)\n"

    def moved(test: str, after: str) -> list[str]:
        versions = [
            Version(path="tests/lab.py", before=b"import pytest\n", after=("import pytest\n" + helper).encode()),
            Version(
                path="tests/test_a.py",
                before=module(helper + test).encode(),
                after=("from lab import good\n" + module(after)).encode(),
            ),
        ]
        return [one.kind for one in compared(versions).weakenings]

    assert moved(one, one) == []
    assert moved(one, one.replace("    good(r)\n", "")) == ["fewer-asserts", "fewer-asserts"]  # there, and not called
    assert moved(test, test.replace("good(r)", "print(r)")).count("fewer-asserts") >= 2


def test_a_deleted_file_loses_its_tests() -> None:
    assert kinds(module(ONE), None) == ["test-removed"]


@pytest.mark.parametrize(
    "data",
    [
        b"def test_a(:\n",
        b"\x00",
        b"\xff\xfe",
        b"(" * 5_000,
        b"-" * 100_000 + b"1",
        b"x = 1\n" * 800_000,
        b"f(" * 3_000 + b")" * 3_000,
    ],
)
def test_a_file_that_cannot_be_read_is_not_passed(data: bytes) -> None:
    found = compared([Version(path="tests/test_a.py", before=b"", after=data)])
    assert found.unread and found.unread[0][2]


def test_content_that_is_not_there_is_not_passed() -> None:
    assert compared([Version(path="tests/test_a.py", before=None, after=None, missing=True)]).unread


def test_the_article_s_own_oracle_test_asserts_the_fixture_against_itself() -> None:
    text = (
        "import json\nfrom pathlib import Path\nFIXTURE = Path('fixtures/http/charge-409.json')\n"
        "def test_zero():\n    recorded = json.loads(FIXTURE.read_text())\n    assert '409' in recorded['status']\n"
    )
    assert kinds(None, text) == ["no-product"]
    assert kinds(None, text.replace("import json\n", "import json\nfrom pay import charge\n")) == []
    assert kinds(None, text.replace("def test_zero()", "def test_zero(client)")) == []
    assert kinds(None, text.replace("import json\n", "import json\nimport subprocess\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "collect_ignore = ['test_pay.py']\n",
        "def pytest_ignore_collect(path):\n    return True\n",
        "def pytest_collection_modifyitems(items):\n    items.clear()\n",
        "def pytest_runtest_makereport(item, call):\n    pass\n",
    ],
)
def test_a_conftest_that_leaves_tests_out_is_told(text: str) -> None:
    assert kinds("import pytest\n", "import pytest\n" + text, "tests/conftest.py") == ["config"]


def test_a_conftest_with_one_more_fixture_is_left_alone() -> None:
    assert (
        kinds("import pytest\n", "import pytest\n@pytest.fixture\ndef client():\n    return 1\n", "tests/conftest.py")
        == []
    )


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\n",
            "[tool.pytest.ini_options]\naddopts = '--ignore=tests/oracle'\n",
        ),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = '--ignore=a'\n",
            "[tool.pytest.ini_options]\naddopts = '--ignore=a --ignore=b'\n",
        ),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\ntestpaths = ['a', 'b']\n",
            "[tool.pytest.ini_options]\ntestpaths = ['a']\n",
        ),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\nxfail_strict = true\n",
            "[tool.pytest.ini_options]\nxfail_strict = false\n",
        ),
        ("pyproject.toml", "[tool.coverage.report]\nfail_under = 90\n", "[tool.coverage.report]\nfail_under = 10\n"),
        ("pytest.ini", "[pytest]\n", "[pytest]\naddopts = -k 'not oracle'\n"),
        ("pytest.toml", "[pytest]\n", "[pytest]\naddopts = ['--ignore=tests/oracle']\n"),
        (".pytest.toml", "[pytest]\ntestpaths = ['a', 'b']\n", "[pytest]\ntestpaths = ['a']\n"),
        ("pytest.ini", "[pytest]\n", "[pytest]\nnorecursedirs = oracle\n"),
        ("setup.cfg", "[tool:pytest]\n", "[tool:pytest]\naddopts = --deselect tests/test_a.py::test_a\n"),
        ("tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = pytest || true\n"),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest --passWithNoTests"}}'),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest -u"}}'),
        ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest || true\n"),
        ("Makefile", "test:\n\tpython -m pytest\n", "test:\n\tpython -m pytest -k 'not oracle'\n"),
        ("package.json", '{"jest": {}}', '{"jest": {"testPathIgnorePatterns": ["oracle"]}}'),
    ],
)
def test_settings_that_collect_less_are_told(path: str, before: str, after: str) -> None:
    assert kinds(before, after, path) == ["config"]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("pyproject.toml", "[project]\nname = 'a'\n", "[project]\nname = 'a'\nversion = '1'\n"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = '-q'\n",
            "[tool.pytest.ini_options]\naddopts = '-q --strict-markers'\n",
        ),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\ntestpaths = ['a']\n",
            "[tool.pytest.ini_options]\ntestpaths = ['a', 'b']\n",
        ),
        ("Makefile", "test:\n\tpytest\n", "test:\n\tpython -m pytest\nclean:\n\trm x || true\n"),
        ("tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = python -m pytest -q\n"),
        (
            "package.json",
            '{"scripts": {"lint": "eslint ."}}',
            '{"scripts": {"lint": "eslint --ignore-path x --exclude y ."}}',
        ),
        (
            "pyproject.toml",
            "[project]\nname = 'a'\n",
            "[project]\nname = 'a'\n[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
        ),
        ("package.json", '{"dependencies": {}}', '{"dependencies": {"a": "1"}}'),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest", "build": "tsc"}}'),
    ],
)
def test_settings_that_collect_as_much_are_left_alone(path: str, before: str, after: str) -> None:
    assert kinds(before, after, path) == []
