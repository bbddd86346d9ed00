"""Weakened tests in Python, where the weakening stands around the test, or within what is compared; and what is everyday."""

import pytest

from tests.rules.weakening.test_python import HEAD, kinds

BODY = "    assert charge(1) == 3\n    assert charge(2) == 4\n"
TEST = f"def test_a():\n{BODY}"
LOOP = "def test_a():\n    for a, b in [(1, 3), (2, 4)]:\n        assert charge(a) == b\n"
TABLE = "@pytest.mark.parametrize('a,b', [(1, 3), (2, 4)])\ndef test_a(a, b):\n    assert charge(a) == b\n"
RAISES = "def test_a():\n    with pytest.raises(ValueError, match='neg'):\n        charge(-1)\n"
WITHIN = "    with {}:\n        assert charge(1) == 3\n        assert charge(2) == 4\n"

WEAKER = [
    (TEST, f"from contextlib import suppress as s\ndef test_a():\n{WITHIN.format('s(Exception)')}", "config"),
    (
        TEST,
        "class Quiet:\n    def __enter__(self): pass\n    def __exit__(self, *a): return True\n"
        f"def test_a():\n{WITHIN.format('Quiet()')}",
        "config",
    ),
    (
        TEST,
        "@contextmanager\ndef quiet():\n    try:\n        yield\n    except Exception:\n        pass\n"
        f"def test_a():\n{WITHIN.format('quiet()')}",
        "config",
    ),
    (TEST, f"def quiet(f):\n    return lambda: None\n@quiet\n{TEST}", "config"),
    (
        TEST,
        "def quiet(f):\n    @wraps(f)\n    def run():\n        try:\n            f()\n        except Exception:\n"
        f"            pass\n    return run\n@quiet\n{TEST}",
        "config",
    ),
    (TEST, f"def quiet(f):\n    @wraps(f)\n    def run(): pass\n    return run\n@quiet\n{TEST}", "config"),
    (TEST, f"class Same:\n    def __eq__(self, other): return True\n{TEST}", "config"),
    (TEST, f"{TEST}test_a.__test__ = False\n", "config"),
    (TEST, f"{TEST}test_a.__code__ = (lambda: None).__code__\n", "config"),
    (TEST, f"{TEST}globals().pop('test_a')\n", "config"),
    (TEST, f"{TEST}globals()['test_a'] = None\n", "config"),
    (TEST, f"{TEST}del globals()['test_a']\n", "config"),
    (TEST, f"{TEST}setattr(sys.modules[__name__], 'test_a', None)\n", "config"),
    (TEST, f"import pay\npay.charge = lambda n: n + 2\n{TEST}", "config"),
    (TEST, f"@pytest.fixture(autouse=True)\ndef f():\n    pytest.skip('x')\n{TEST}", "skipped"),
    (
        TEST,
        f"@pytest.fixture(autouse=True)\ndef f(monkeypatch):\n    monkeypatch.setattr('pay.charge', int)\n{TEST}",
        "mock",
    ),
    (TEST, f"from tests.ways import charge\n{TEST}", "mock"),
    (TEST, TEST.replace("charge(1) ==", "int(charge(1)) =="), "loosened"),
    (TEST, TEST.replace("charge(1) ==", "round(charge(1)) =="), "loosened"),
    (TEST, TEST.replace("charge(1) ==", "(charge(1) or 3) =="), "loosened"),
    (TEST, f"X = charge(1)\n{TEST.replace('== 3', '== X')}", "loosened"),
    (LOOP, LOOP.replace("        assert", "        if a: continue\n        assert"), "loosened"),
    (LOOP, LOOP.replace("        assert", "        if a == 2:\n            break\n        assert"), "loosened"),
    (TABLE, TABLE.replace("    assert", "    a = 1\n    assert"), "skipped"),
    (RAISES, RAISES.replace("ValueError", "Exception"), "loosened"),
    (RAISES, f"E = Exception\n{RAISES.replace('ValueError', 'E')}", "loosened"),
    (RAISES, RAISES.replace("ValueError", "(ValueError, TypeError)"), "loosened"),
    (RAISES, RAISES.replace("'neg'", "''"), "loosened"),
    (RAISES, RAISES.replace("'neg'", "'.*'"), "loosened"),
    (RAISES, RAISES.replace("'neg'", "'neg|'"), "loosened"),
    (RAISES, f"{RAISES}        raise ValueError('neg')\n", "tautology"),
    (RAISES, RAISES.replace("charge(-1)", "raise ValueError('neg')"), "tautology"),
]


@pytest.mark.parametrize(("before", "after", "kind"), WEAKER)
def test_what_takes_a_failure_away_is_told(before: str, after: str, kind: str) -> None:
    assert kind in kinds(HEAD + before, HEAD + after)


EVERYDAY = [
    (TEST, TABLE),
    (TEST, LOOP),
    (
        TEST,
        "def test_a(subtests):\n    for a, b in [(1, 3), (2, 4)]:\n        with subtests.test(a=a):\n"
        "            assert charge(a) == b\n",
    ),
    (TEST, f"@pytest.fixture(autouse=True)\ndef f(monkeypatch):\n    monkeypatch.setattr('time.time', int)\n{TEST}"),
    (TEST, f"def timed(f):\n    @wraps(f)\n    def run():\n        f()\n    return run\n@timed\n{TEST}"),
    (TEST, f"def tagged(f):\n    f.tag = 1\n    return f\n@tagged\n{TEST}"),
    (TEST, f"import pay\npay.TIMEOUT_S = 1\n{TEST}"),
    (
        TEST,
        "class Clock:\n    def __enter__(self): pass\n    def __exit__(self, *a): return False\n"
        f"def test_a():\n{WITHIN.format('Clock()')}",
    ),
    (TEST, f"class Money:\n    def __eq__(self, other): return self.n == other.n\n{TEST}"),
    (RAISES, RAISES.replace("'neg'", "'negative'")),
    (RAISES.replace(", match='neg'", ""), RAISES),
    (RAISES.replace("ValueError", "Exception"), RAISES),
    (RAISES, RAISES.replace("charge(-1)", "charge(-2)")),
    (LOOP, LOOP.replace("        assert", "        b = b + 0\n        assert")),
]


@pytest.mark.parametrize(("before", "after"), EVERYDAY)
def test_what_is_done_every_day_is_no_weakening(before: str, after: str) -> None:
    assert kinds(HEAD + before, HEAD + after) == []


def test_a_table_that_has_not_all_of_what_was_asserted_is_less() -> None:
    assert "fewer-asserts" in kinds(HEAD + TEST + "    assert charge(3) == 5\n", HEAD + TABLE)
    looser = TABLE.replace("assert charge(a) == b", "assert charge(a) >= 0")
    assert kinds(HEAD + TEST, HEAD + looser) != []


def test_what_a_block_raises_under_another_one_is_the_blocks_to_let_through() -> None:
    new = "def test_b():\n    with pytest.raises(ValueError), charge(1):\n        raise ValueError('neg')\n"
    assert kinds(HEAD + TEST, HEAD + TEST + new) == []
