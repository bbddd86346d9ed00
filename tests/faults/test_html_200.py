"""The fault `html-200`, played by hand."""

from tests.faults.streamlab import play


def test_it_is_a_page() -> None:
    played = play("html-200", [], asked=b"{}")
    assert (played.status, played.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert played.body.startswith(b"<!DOCTYPE html>")
