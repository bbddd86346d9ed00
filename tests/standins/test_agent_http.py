import pytest

from drillmaster.errors import Problem
from drillmaster.standins.agent_http import base_url


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081/v1"),
        ("http://127.0.0.1:8081/", "http://127.0.0.1:8081/v1"),
        ("http://127.0.0.1:8081/v1", "http://127.0.0.1:8081/v1"),
        ("https://[::1]:8081/openai/v1/", "https://[::1]:8081/openai/v1/"),
    ],
)
def test_a_base_url_without_a_path_gets_the_usual_one(value: str, url: str) -> None:
    assert base_url({"MODEL_BASE_URL": value}, "MODEL_BASE_URL") == url


@pytest.mark.parametrize("value", ["localhost:8081", "ftp://x", "http://", "8081"])
def test_a_base_url_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(Problem):
        base_url({"MODEL_BASE_URL": value}, "MODEL_BASE_URL")


def test_a_base_url_is_refused_without_its_password() -> None:
    with pytest.raises(Problem) as problem:
        base_url({"MODEL_BASE_URL": "ftp://me:hunter2@host"}, "MODEL_BASE_URL")
    assert "hunter2" not in str(problem.value)


def test_nothing_set_is_none() -> None:
    assert base_url({"A": " "}, "A", "B") is None
