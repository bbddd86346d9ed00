"""What a plan's endpoint is to the proxy, and to those who ask it."""

import pytest

from drillmaster.plan import base_urls, without_v1


@pytest.mark.parametrize(
    ("upstream", "openai"),
    [
        ("https://api.openai.com", "http://p:1/v1"),
        ("https://api.openai.com/", "http://p:1/v1"),
        ("https://api.openai.com/v1", "http://p:1/v1"),
        ("https://openrouter.ai/api/v1", "http://p:1/v1"),
        ("https://x.example/openai", "http://p:1"),  # a path of its own, and no /v1 that a client would add
    ],
)
def test_each_sdk_gets_the_base_url_it_wants(upstream: str, openai: str) -> None:
    assert base_urls("http://p:1", upstream) == {
        "MODEL_BASE_URL": "http://p:1", "OPENAI_BASE_URL": openai, "ANTHROPIC_BASE_URL": "http://p:1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "dialled"),
    [
        ("http://127.0.0.1:9000/v1", "http://127.0.0.1:9000"),
        ("http://127.0.0.1:9000/v1/", "http://127.0.0.1:9000"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api"),
        ("https://api.openai.com", "https://api.openai.com"),
        ("https://x.example/openai/", "https://x.example/openai/"),
        ("https://x.example/v1beta", "https://x.example/v1beta"),
        ("https://x.example/v11", "https://x.example/v11"),
        ("https://x.example/xv1", "https://x.example/xv1"),
    ],
)
def test_a_v1_at_the_end_of_the_endpoint_comes_once_whoever_says_it(written: str, dialled: str) -> None:
    assert without_v1(written) == dialled
