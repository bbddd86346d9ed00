"""The fault `login-redirect`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script, read_request_whole, send_answer
from drillmaster.http1 import Answer

__all__ = ["LoginRedirect"]

_PATH = "/drill-login"
_PAGE = b"""<!DOCTYPE html>
<html><head><title>Sign in</title></head>
<body><form method="post"><input name="user"><input name="password" type="password"></form></body></html>
"""


class LoginRedirect(Fault, frozen=True, kw_only=True, tag="login-redirect"):
    """Answer 302 to a login page, which the proxy itself serves (200, HTML) for as long as the fault is on.

    The page is `/drill-login` on the address that the client asked, so that nobody is led off the machine.

    Breaks: clients that follow: openai, anthropic, groq and requests do (measured), turn the POST into a GET, and are
    given a page with a status of 200. httpx and httpx2 by themselves return the 302.
    Looks like: html-200, two requests a call; credentials may travel to wherever a redirect points.
    Cannot show: a redirect to another host, where clients drop their Authorization.
    """

    group = "content"
    hands_on = False
    seen = ("redirect",)
    asks_upstream: ClassVar[bool] = False
    leads_to: ClassVar[str] = _PATH

    def script(self, cx: Cx) -> Script:
        if not (yield from read_request_whole()):
            return
        html = ("content-type", "text/html; charset=utf-8")
        if cx.request is not None and cx.request.path == _PATH:
            yield from send_answer(Answer(200, (html,), _PAGE, "ours"))
        else:
            yield from send_answer(Answer(302, (("location", _PATH), html), b"", "ours"))
