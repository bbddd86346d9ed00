"""Where an interview's engines run: options that contradict each other are refused, and other people's scripts are no plans."""

import importlib.util

import pytest
from click.testing import CliRunner

from drillmaster.cli.interview import command

URL = "http://127.0.0.1:9/x"
LOCUST = importlib.util.find_spec("locust") is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([URL, "--workers", "2"], "--workers belongs to --engine locust"),
        ([URL, "--bind", "127.0.0.1:0"], "--bind belongs to --engine locust"),
        ([URL, "--engine", "locust"], "--engine locust needs --workers N"),
        (
            [URL, "--engine", "locust", "--workers", "2", "--processes", "2"],
            "start more workers instead of --processes",
        ),
        ([URL, "--engine", "k6"], "'k6' is not one of"),
        (["--self-test", "--engine", "locust", "--workers", "2"], "run it on each worker's"),
        ([URL, "--processes", "0"], "a number of engine processes, 1 to 64"),
        ([URL, "--processes", "65"], "a number of engine processes, 1 to 64"),
        (["http://ada:word@127.0.0.1:9/x", "--engine", "locust", "--workers", "2"], "no key goes over the channel"),
        (["http://[::1/x"], "the endpoint's whole URL"),
        (["ws://[::1/x"], "the endpoint's whole URL"),
        (["locustfile.py"], "locust -f locustfile.py --host http://127.0.0.1:8081"),
        (["some/load.js"], "k6 run -e BASE_URL=http://127.0.0.1:8081 some/load.js"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_words_that_do(words: list[str], said: str) -> None:
    done = CliRunner().invoke(command, words)
    assert done.exit_code != 0
    assert said in done.output + str(done.exception), done.output


@pytest.mark.skipif(not LOCUST, reason="needs Locust: pip install 'drillmaster[locust]'")
def test_an_address_that_is_none_is_refused() -> None:
    done = CliRunner().invoke(command, [URL, "--engine", "locust", "--workers", "2", "--bind", "nowhere:port"])
    assert "--bind" in str(done.exception) and "HOST:PORT" in str(done.exception)
