"""The upstream's URL: what it becomes, and what is refused."""

import pytest

from drillmaster.errors import Problem
from drillmaster.proxy.settings import Upstream


@pytest.mark.parametrize(
    ("url", "upstream"),
    [
        ("https://api.example.com", Upstream(True, "api.example.com", 443, b"", b"api.example.com")),
        ("https://api.example.com:443/v1/", Upstream(True, "api.example.com", 443, b"/v1", b"api.example.com")),
        ("http://127.0.0.1:9000/a/b", Upstream(False, "127.0.0.1", 9000, b"/a/b", b"127.0.0.1:9000")),
        ("http://[::1]:80", Upstream(False, "::1", 80, b"", b"[::1]")),
        (
            "https://bücher.example/ü",
            Upstream(True, "xn--bcher-kva.example", 443, b"/%C3%BC", b"xn--bcher-kva.example"),
        ),
        ("HTTP://Host", Upstream(False, "host", 80, b"", b"host")),
    ],
)
def test_what_a_url_becomes(url: str, upstream: Upstream) -> None:
    assert Upstream.parse(url) == upstream


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "localhost:80",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x:y",
        "http://u:p@x",
        "http://x?q",
        "http://x#f",
    ],
)
def test_a_url_that_is_no_upstream_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(Problem) as caught:
        Upstream.parse(url)
    assert "u:p" not in str(caught.value)
    assert caught.value.remedy
