"""The fault `html-200`."""

from typing import ClassVar

from drillmaster.faults import Cx, Fault, Script, read_request_whole, send_answer
from drillmaster.http1 import Answer

__all__ = ["Html200"]

_PAGE = b"""<!DOCTYPE html>
<html><head><title>Network sign-in</title></head>
<body><h1>Network sign-in</h1><p>Please accept the terms of use to continue.</p></body></html>
"""


class Html200(Fault, frozen=True, kw_only=True, tag="html-200"):
    """Answer 200 with an HTML page, as a captive portal or a filtering proxy does.

    Breaks: openai, anthropic and groq return a `str` and raise nothing (measured); as a stream: no event, no exception.
    google-genai raises JSONDecodeError, mistralai SDKError.
    Looks like: success; then AttributeError: 'str' object has no attribute 'choices'.
    Cannot show: a redirect to such a page (see login-redirect).
    """

    group = "content"
    hands_on = False
    seen = ("cut",)
    asks_upstream: ClassVar[bool] = False

    def script(self, cx: Cx) -> Script:
        if (yield from read_request_whole()):
            yield from send_answer(Answer(200, (("content-type", "text/html; charset=utf-8"),), _PAGE, "ours"))
