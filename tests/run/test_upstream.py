"""What in an environment leads a model client past the proxy."""

import pytest

from drillmaster.run.upstream import detour, past_proxies

PROXY = "http://127.0.0.1:8081"
ELSEWHERE = "http://gate.example:3128"


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({}, None),
        ({"HTTPS_PROXY": ELSEWHERE}, None),  # the proxy's base URL is http
        ({"HTTP_PROXY": ""}, None),
        ({"HTTP_PROXY": ELSEWHERE}, "HTTP_PROXY"),
        ({"http_proxy": ELSEWHERE, "HTTP_PROXY": ELSEWHERE}, "http_proxy"),
        ({"ALL_PROXY": "socks5://gate.example"}, "ALL_PROXY"),
        ({"all_proxy": ELSEWHERE, "HTTP_PROXY": ELSEWHERE}, "HTTP_PROXY"),
        ({"HTTP_PROXY": ELSEWHERE, "NO_PROXY": "127.0.0.1"}, None),
        ({"HTTP_PROXY": ELSEWHERE, "no_proxy": "localhost, 127.0.0.1:8081"}, None),
        ({"HTTP_PROXY": ELSEWHERE, "NO_PROXY": "*"}, None),
        ({"HTTP_PROXY": ELSEWHERE, "NO_PROXY": "localhost"}, "HTTP_PROXY"),  # a name is not its address
        ({"HTTP_PROXY": ELSEWHERE, "NO_PROXY": "127.0.0.0/8"}, "HTTP_PROXY"),  # what httpx and urllib do not read
        ({"HTTP_PROXY": ELSEWHERE, "NO_PROXY": "127.0.0.1:9000"}, "HTTP_PROXY"),
        (
            {"HTTP_PROXY": ELSEWHERE, "NO_PROXY": "127.0.0.1", "no_proxy": "localhost"},
            "HTTP_PROXY",
        ),  # the small one wins
    ],
)
def test_a_client_is_led_away_by_what_the_most_careful_of_them_would_heed(
    environ: dict[str, str], variable: str | None
) -> None:
    found = detour(environ, PROXY)
    assert (found.variable if found is not None else None) == variable


@pytest.mark.parametrize(
    ("environ", "export", "in_the_plan"),
    [
        ({}, "export NO_PROXY=127.0.0.1", 'env: {NO_PROXY: "127.0.0.1"}'),
        ({"NO_PROXY": "corp"}, "export NO_PROXY=corp,127.0.0.1", 'env: {NO_PROXY: "corp,127.0.0.1"}'),
        ({"no_proxy": "corp"}, "export no_proxy=corp,127.0.0.1", 'env: {no_proxy: "corp,127.0.0.1"}'),
    ],
)
def test_its_remedy_is_what_would_have_kept_it(environ: dict[str, str], export: str, in_the_plan: str) -> None:
    found = detour({"HTTP_PROXY": ELSEWHERE, **environ}, PROXY)
    assert found is not None
    assert export in found.remedy(own_worker=False) and in_the_plan in found.remedy(own_worker=True)
    assert ELSEWHERE not in found.said(own_worker=True) + found.said(own_worker=False)  # a key may be in it
    name, _, value = found.bypass.partition("=")
    assert detour({"HTTP_PROXY": ELSEWHERE, **environ, name: value}, PROXY) is None


def test_a_host_below_a_domain_that_is_named_is_not_led_away() -> None:
    environ = {"HTTPS_PROXY": ELSEWHERE, "NO_PROXY": ".corp.example"}
    assert detour(environ, "https://models.corp.example") is None
    assert detour(environ, "https://models.notcorp.example") is not None


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({}, ""),
        ({"NO_PROXY": "corp"}, "corp,"),  # a small one of ours alone would hide it
        ({"no_proxy": "corp"}, "corp,"),
        ({"NO_PROXY": "other", "no_proxy": "corp"}, "corp,"),
    ],
)
def test_a_worker_is_kept_off_other_proxies_and_loses_nothing_by_it(environ: dict[str, str], kept: str) -> None:
    led = {"HTTP_PROXY": ELSEWHERE, **environ}
    for url in (PROXY, "http://172.17.0.1:8081", "http://[::1]:8081"):
        env = past_proxies(led, url)
        assert detour(env, url) is None
        assert env["NO_PROXY"] == env["no_proxy"] and env["NO_PROXY"].startswith(f"{kept}127.0.0.1,localhost,::1")
        assert env["HTTP_PROXY"] == ELSEWHERE
