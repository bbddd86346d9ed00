"""A mark that keeps a test out is one under any name; what another file's decorator does is said to be not followed."""

import pytest

from drillmaster.rules.weakening import Compared, Version, compared

TEST = "import functools, os, pytest, unittest\nfrom shop import total\n\n{}\n{}def test_a():\n    {}assert total(1) == 2\n"


def read(head: str, mark: str = "", body: str = "") -> Compared:
    before, after = TEST.format("", "", ""), TEST.format(head, mark, body)
    return compared([Version(path="tests/test_a.py", before=before.encode(), after=after.encode())])


def kinds(head: str, mark: str = "", body: str = "") -> set[str]:
    return {one.kind for one in read(head, mark, body).weakenings}


MARKED = [
    ("from helpers import flaky as steady", "@steady\n"),
    ("from helpers import flaky as steady", "@steady(3)\n"),
    ("from pytest import mark as m", "@m.skip('x')\n"),
    ("later = pytest.mark.skip", "@later\n"),
    ("later = pytest.mark.skip", "@later(reason='x')\n"),
    ("later: object = pytest.mark.xfail(strict=False)", "@later\n"),
    ("m = pytest.mark\nlater = m.skip\nsoon = later", "@soon('x')\n"),
    ("later = pytest.mark.skip\nsoon = functools.partial(later, 'x')", "@soon()\n"),
    ("later = pytest.mark.skip('x')\nsoon = later(later, later)", "@soon\n"),
    ("s0 = pytest.mark.skip\n" + "".join(f"s{n + 1} = s{n}.with_args\n" for n in range(50)), "@s50\n"),
    ("later, slow = pytest.mark.skip, pytest.mark.slow", "@later\n"),
    ("later = pytest.mark.skip if os.environ.get('CI') else pytest.mark.slow", "@later\n"),
    ("later = functools.partial(pytest.mark.skipif, True)", "@later(reason='x')\n"),
    ("later = lambda f: pytest.mark.skip(f)", "@later\n"),
    ("def later(f):\n    return pytest.mark.skip(reason='x')(f)\n", "@later\n"),
    ("def later(why):\n    return pytest.mark.skip(reason=why)\n", "@later('x')\n"),
    ("", "@getattr(pytest.mark, 'skip')\n"),
    ("from unittest import skip as later", "@later('x')\n"),
    ("from unittest import skipIf as when", "@when(True, 'x')\n"),
    ("from unittest import expectedFailure as sure", "@sure\n"),
    ("import unittest as u", "@u.skip('x')\n"),
    ("pytestmark = [pytest.mark.slow]\npytestmark += [pytest.mark.skip]", ""),
    ("pytestmark: list = [pytest.mark.skip]", ""),
    ("MARKS = [pytest.mark.skip]\npytestmark = [pytest.mark.slow] + MARKS", ""),
    ("later = pytest.mark.skip\npytestmark = [later('x')]", ""),
    ("pytestmark = [*[pytest.mark.skip]]", ""),
    ("pytestmark = []\npytestmark.append(pytest.mark.skip)", ""),
    ("pytestmark = pytest.mark.skip if os.environ.get('CI') else []", ""),
    ("from helpers import pytestmark", ""),
    ("from helpers import marks as pytestmark", ""),
    ("def setup_module():\n    pytest.skip('x')\n", ""),
    ("def setUpModule():\n    raise unittest.SkipTest('x')\n", ""),
    ("from pytest import skip as s\n\ndef setup_function(f):\n    s('x')\n", ""),
]


@pytest.mark.parametrize(("head", "mark"), MARKED)
def test_a_mark_under_another_name_is_that_mark(head: str, mark: str) -> None:
    assert "skipped" in kinds(head, mark)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("from pytest import skip as s", "s('x')"),
        ("from unittest import SkipTest as Done", "raise Done('x')"),
        ("later = pytest.skip", "later('x')"),
        ("from pytest import importorskip as need", "need('x')"),
    ],
)
def test_a_skip_under_another_name_ends_the_test(head: str, body: str) -> None:
    assert "skipped" in kinds(head, body=f"{body}\n    ")


@pytest.mark.parametrize(
    "method",
    [
        "    def setUp(self):\n        self.skipTest('x')\n",
        "    @classmethod\n    def setUpClass(cls):\n        raise unittest.SkipTest('x')\n",
        "    def setup_method(self):\n        pytest.skip('x')\n",
    ],
)
def test_what_is_run_before_the_tests_of_a_class_can_skip_them(method: str) -> None:
    head = "import unittest\nfrom shop import total\n\nclass TestA(unittest.TestCase):\n{}"
    case = head + "    def test_a(self):\n        self.assertEqual(total(1), 2)\n"
    said = compared(
        [Version(path="tests/test_a.py", before=case.format("").encode(), after=case.format(method).encode())]
    )
    assert {one.kind for one in said.weakenings} == {"skipped"}


def test_an_import_that_changes_to_a_mark_is_seen_where_the_test_stays_as_it_was() -> None:
    text = (
        "from shop import total\nfrom helpers import {} as steady\n\n@steady\ndef test_a():\n    assert total(1) == 2\n"
    )
    before, after = text.format("timed"), text.format("flaky")
    said = compared([Version(path="tests/test_a.py", before=before.encode(), after=after.encode())])
    assert {one.kind for one in said.weakenings} == {"skipped"}


@pytest.mark.parametrize(
    ("head", "mark"),
    [
        ("from helpers import with_db", "@with_db\n"),
        ("slow = pytest.mark.slow", "@slow\n"),
        ("pytestmark = [pytest.mark.slow, pytest.mark.django_db]", ""),
        ("from unittest import mock as skip_net", "@skip_net.patch('shop.net')\n"),
        ("def setup_module():\n    os.environ['TZ'] = 'UTC'\n", ""),
        ("def named(f):\n    f.name = 'a'\n    return f\n", "@named\n"),
        ("retry_policy = dict(times=3)", ""),
    ],
)
def test_what_lets_a_test_run_is_no_mark(head: str, mark: str) -> None:
    assert kinds(head, mark) == set()


def test_a_renamed_alias_is_no_change() -> None:
    text = "import pytest\nfrom shop import total\n{0} = pytest.mark.skip\n\n@{0}\ndef test_a():\n    assert total(1) == 2\n"
    versions = [Version(path="tests/test_a.py", before=text.format("a").encode(), after=text.format("b").encode())]
    assert compared(versions).weakenings == ()


def test_another_files_decorator_is_named_for_a_person_to_follow() -> None:
    said = read("from tests.helpers import with_db", "@with_db\n")
    assert (said.weakenings, said.not_followed) == ((), ("tests/test_a.py:6 test_a @with_db of tests.helpers",))


def test_names_within_names_do_not_double_with_each_line() -> None:
    lines = "".join(f"m{n + 1} = pytest.mark.skip(m{n}, m{n}, why=m{n})\n" for n in range(200))
    assert "skipped" in kinds(f"m0 = pytest.mark.skip\n{lines}", "@m200\n")


def test_a_long_mark_that_many_tests_have_is_not_written_out_for_each() -> None:
    head = f"later = pytest.mark.skip({[*range(2_000)]})\n" + "later\n" * 2_000
    assert "skipped" in kinds(head, "@later\n")
