"""The fault `login-redirect`, played by hand."""

from tests.faults.streamlab import play


def test_it_leads_to_a_page_that_the_proxy_serves_itself() -> None:
    played = play("login-redirect", [], asked=b"{}")
    assert (played.status, played.body) == (302, b"")
    page = play("login-redirect", [], path=played.headers["location"])
    assert page.status == 200
    assert b"password" in page.body
    assert played.headers["location"].startswith("/")  # nobody is led to another host
