"""What the pytest plugin fails a test for, since it shows nothing, and what it then says."""

import re

import pytest

from tests.e2e.pytestlab import Run, reasons

pytestmark = pytest.mark.e2e
pytest_plugins = ("pytester",)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(pytester, monkeypatch)


REFUSED = {
    "test_nobody_came": (
        """@pytest.mark.fault("503")
        def {name}(provider): pass""",
        r"nobody met the fault 503\n.*0 requests came to http://127.0.0.1:\d+: is that the base URL",
    ),
    "test_not_a_stream": (
        """def {name}(provider):
            with provider.fault("stall", after_events=3): ask(provider.url)""",
        r"test_agent.py:\d+: nobody met the fault stall\(after_events=3\)\n[^\n]*1 request came:\n.*"
        r"POST /v1/chat/completions m -> 200, clean.*strikes only answers by a stream",
    ),
    "test_other_model": (
        """def {name}(provider):
            with provider.fault("503", when={{"model": "large"}}): ask(provider.url, model="small")""",
        r"nobody met the fault 503\(when={'model': 'large'}\).*503 as r1: 0 fit its `when`, 0 came in its times",
    ),
    "test_one_rule_of_two": (
        """def {name}(provider):
            with provider.rules([{{"mode": "503", "first": 1}}, {{"mode": "refusal", "when": {{"model": "x"}}}}]):
                ask(provider.url)""",
        r"nobody met the fault refusal\(when={'model': 'x'}\)\n",
    ),
    "test_without_a_with": (
        """def {name}(provider):
            provider.fault("503"); ask(provider.url)""",
        r"the fault 503 was asked for and never switched on; write `with provider.fault",
    ),
    "test_in_a_fixture_that_goes_on": (
        """@pytest.fixture
        def broken(provider):
            with provider.fault("503"): yield
        def {name}(broken): pass""",
        r"nobody met the fault 503\n",
    ),
    "test_an_expected_error_of_another_cause": (  # the base URL is wrong; that an error came shows nothing
        """def {name}(provider):
            with pytest.raises(OSError):
                with provider.fault("reset"): ask("http://127.0.0.1:9")""",
        r"test_agent.py:\d+: nobody met the fault reset\n",
    ),
    "test_an_error_that_is_swallowed": (
        """def {name}(provider):
            try:
                with provider.rules([{{"mode": "503", "when": {{"model": "x"}}}}]):
                    ask(provider.url); raise ValueError
            except ValueError: pass""",
        r"nobody met the fault 503\(when={{'model': 'x'}}\)\n[^\n]*1 request came:\n".replace("{{", "{").replace(
            "}}", "}"
        ),
    ),
    "test_past_a_proxy": (
        """def {name}(provider, monkeypatch):
            monkeypatch.setenv("http_proxy", "http://127.0.0.1:1"); monkeypatch.setenv("no_proxy", "intern")
            with provider.fault("503"): pass""",
        r"NO_PROXY does not name 127.0.0.1: a client that reads them went to that proxy",
    ),
    "test_may_miss_in_words": (
        """@pytest.mark.fault("503", may_miss="no")
        def {name}(provider): pass""",
        r"{name}: @pytest.mark.fault: found may_miss='no', wanted True or False",
    ),
    "test_marks_that_cannot_be_together": (
        """@pytest.mark.fault("refused")
        @pytest.mark.fault("503")
        def {name}(provider): pass""",
        r"{name}: @pytest.mark.fault: /0/mode: found refused, which acts on the port",
    ),
    "test_two_ways_to_say_it": (
        """def {name}(provider):
            provider.answers({{"text": "a b", "pieces": ["c"]}})""",
        r"provider.answers: /0: found text and pieces",
    ),
    "test_fewer_tokens_than_none": (
        """def {name}(provider): provider.answers({{"text": "a", "input_tokens": -1}})""",
        r"provider.answers: /0/input_tokens: found -1",
    ),
    "test_a_tool_without_a_name": (
        """def {name}(provider): provider.answers({{"tools": [{{"name": ""}}]}})""",
        r"provider.answers: /0/tools/0/name: found",
    ),
    "test_more_lines_than_are_kept": (
        """def {name}(provider): provider.answers(*["a"] * 10_001)""",
        r"provider.answers: found 10,001 lines, wanted at most 10,000",
    ),
    "test_no_pattern": (
        """def {name}(provider): provider.answers("a", model=None)""",
        r"provider.answers: found model=None, wanted a pattern",
    ),
    "test_too_much": (
        """def {name}(provider):
            provider.answers("x" * (65 << 20))""",
        r"provider.answers: found 68,\d+,\d+ bytes, wanted at most 67,108,864",
    ),
    "test_nested": (
        """def {name}(provider):
            with provider.fault("503"):
                ask(provider.url)
                with provider.fault("hang"): pass""",
        r"found a fault that is on already, by test_agent.py:\d+, wanted one window at a time.*provider.rules",
    ),
    "test_by_getfixturevalue": (
        """def {name}(request):
            provider = request.getfixturevalue("provider")
            with pytest.raises(ValueError), provider.fault("503"): raise ValueError""",
        r"test_agent.py:\d+: nobody met the fault 503\n",
    ),
    "test_misspelt": ("""def {name}(provider): provider.fault("stll")""", r"did you mean stall\?"),
    "test_misspelt_word": (
        """def {name}(provider): provider.fault("stall", frist=1)""",
        r"found the word frist, wanted a parameter of stall \(after_events\) or one of every.*did you mean first\?",
    ),
    "test_misspelt_mark": (
        """@pytest.mark.fault("stall", after_evnts=3)
        def {name}(provider): pass""",
        r"{name}: @pytest.mark.fault: found the word after_evnts.*did you mean after_events\?",
    ),
    "test_a_mark_without_a_fault": (
        """@pytest.mark.fault(after_events=3)
        def {name}(provider): pass""",
        r"found 0 arguments without a name, wanted one, the fault",
    ),
    "test_two_meanings": (
        """def {name}(provider): provider.fault("stale-keep-alive", nth=2)""",
        r"found nth, which stale-keep-alive has as a parameter and rules have as a word.*params={'nth': 2}",
    ),
    "test_senseless": (
        """def {name}(provider):
            with provider.fault("503", share=7): pass""",
        r"test_agent.py:\d+: provider.fault: /share: found 7.0, wanted 0 < share <= 1",
    ),
    "test_wrong_value": (
        """def {name}(provider): provider.fault("stall", after_events=-1)""",
        r"test_agent.py:\d+: provider.fault: fault stall: found after_events=-1, wanted after_events as `int` >= 0",
    ),
    "test_no_number": (
        """def {name}(provider):
            with provider.fault("503", share=float("nan")): pass""",
        r"found (nan|NaN|Out of range float)",
    ),
    "test_no_character": (
        """def {name}(provider): provider.answers("\\ud800")""",
        r"provider.answers: found .*surrogates not allowed",
    ),
    "test_wrong_answer": (
        """def {name}(provider): provider.answers({{"txt": "a"}})""",
        r"provider.answers.*txt",
    ),
    "test_foreign_fixture": (
        """class Test:
            @pytest.fixture
            def provider(self): return 1
            @pytest.mark.fault("503")
            def {name}(self, provider): pass""",
        r"the fixture `provider` of this test is not drillmaster's",
    ),
    "test_assert_met": (
        """def {name}(provider):
            ask(provider.url); provider.assert_met()""",
        r"0 requests met a fault, wanted at least one\n.*1 request reached",
    ),
    "test_assert_attempts_in_two_ways": (
        """def {name}(provider): provider.assert_attempts(1, at_least=5)""",
        r"found both times and a bound",
    ),
    "test_assert_attempts_that_nothing_can_hold": (
        """def {name}(provider): provider.assert_attempts(at_least=5, at_most=1)""",
        r"found at_least=5 above at_most=1",
    ),
    "test_assert_attempts": (
        """def {name}(provider):
            ask(provider.url, model="a"); provider.assert_attempts(at_least=2, model="a*")""",
        r"1 request of model a\* reached the wire, wanted 2 or more\n",
    ),
}


def test_what_shows_nothing_fails_and_says_why(run: Run) -> None:
    text = "\n\n".join(f"        {source.format(name=name)}" for name, (source, _) in REFUSED.items())
    result = run(text, "--tb=short")
    result.assert_outcomes(failed=len(REFUSED))
    told = re.split(
        r"^_{3,} (?:Test\.)?(test_\w+) _{3,}$", result.stdout.str().partition("short test summary")[0], flags=re.M
    )
    parts = dict(zip(told[1::2], told[2::2], strict=True))
    for name, (_, said) in REFUSED.items():
        assert parts[name].count("reached http") == (0 if name == "test_foreign_fixture" else 1), parts[name]
        assert re.search(said.replace("{name}", name), parts[name], re.S), (name, parts[name])


def test_a_fault_may_miss_where_the_test_says_so_and_a_failing_test_keeps_its_reason(run: Run) -> None:
    result = run(
        """
        @pytest.mark.fault("503", may_miss=True)
        def test_marked(provider): pass

        def test_within(provider):
            with provider.fault("503", may_miss=True): pass
            with provider.rules([{"mode": "503"}], may_miss=True): pass

        @pytest.mark.fault("503")
        def test_skipped(provider): pytest.skip("not here")

        @pytest.mark.fault("503")
        def test_fails(provider): assert 1 == 2

        def test_fails_within(provider):
            with provider.fault("503"): assert 3 == 4
        """
    )
    result.assert_outcomes(passed=2, skipped=1, failed=2)
    assert "nobody met" not in reasons(result)
    result.stdout.fnmatch_lines(["*what the wire saw*", "w1  503: met 0", "0 requests reached http://127.0.0.1:*"])


def test_a_failure_shows_what_the_wire_saw_without_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-" + "Ab3dEf6hIj9k" * 3
    monkeypatch.setenv("SECRET", secret)
    result = run(
        """
        SECRET = os.environ["SECRET"]
        def test_fails(provider):
            with provider.fault("rate-limit", retry_after_s=2, first=1):
                ask(provider.url, model=SECRET, key=SECRET)
                ask(provider.url, path="/v1/" + SECRET + "?key=" + SECRET)
            assert not provider.attempts
        """,
        "--tb=short",
        "-vv",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*what the wire saw (drillmaster)*",
            "w1  rate-limit(retry_after_s=2, first=1): met 1",
            "2 requests reached http://127.0.0.1:*:",
            "* POST /v1/chat/completions [[]screened] -> 429, clean, asked to wait * s, met rate-limit (w1), * ms",
            "* POST /v1/[[]screened] * -> 404, clean, * ms",
        ]
    )
    assert secret not in reasons(result)


def test_fixtures_on_their_way_out_fail_a_test_that_shows_nothing(run: Run) -> None:
    result = run(
        """
        @pytest.fixture
        def never_on(provider):
            yield
            provider.fault("503")

        def test_never_on(never_on): pass

        @pytest.fixture
        def unmet(provider):
            yield
            with pytest.raises(ValueError), provider.fault("hang"): raise ValueError

        def test_unmet(unmet): pass

        def test_has_failed_already(never_on): assert 1 == 2
        """
    )
    result.assert_outcomes(passed=2, errors=2, failed=1)
    assert "the fault 503 was asked for and never switched on" in reasons(result)
    assert "nobody met the fault hang" in reasons(result)
