"""The page on pytest runs as it stands."""

import re
from pathlib import Path

import pytest

from drillmaster import faults
from drillmaster.backstage.seen import Attempt
from tests.e2e.pytestlab import reasons

pytestmark = pytest.mark.e2e
pytest_plugins = ("pytester",)

PAGE = (Path(__file__).resolve().parents[2] / "docs/howto/pytest.md").read_text("utf-8")


def test_the_examples_of_the_page_pass_in_their_order(pytester: pytest.Pytester) -> None:
    agent, first, *others = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    pytester.makepyfile(agent=agent, test_page="import openai\n" + "\n\n".join([first, *others]))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", timeout=90)
    assert result.ret == 0, reasons(result)
    result.assert_outcomes(passed=5)


def test_what_the_page_shows_of_a_failure_is_what_is_said(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.S | re.M)
    (shown,) = (text for language, text in blocks if not language and "nobody met" in text)
    pytester.makepyfile(
        test_page="""
        import openai, pytest
        @pytest.mark.fault("stall", after_events=3)
        def test_streaming(provider, provider_env):
            openai.OpenAI().chat.completions.create(model="large-1", messages=[{"role": "user", "content": "hello"}])
        """
    )
    said = reasons(pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=90))
    assert without_numbers(shown) in without_numbers(said), said


def without_numbers(text: str) -> str:
    return re.sub(r" +", " ", re.sub(r"[\d.]+", "0", text)).strip()


def test_the_page_names_what_there_is() -> None:
    for tag in re.findall(r"fault\(\"([\w-]+)\"", PAGE):
        assert tag in faults.names()
    table = PAGE.partition("What the wire saw")[2].partition("`provider.assert_met()`")[0]
    named = {
        word
        for row in table.splitlines()
        if row.startswith("| `")
        for word in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert len(named) > 15
    assert named <= set(Attempt.__struct_fields__)
