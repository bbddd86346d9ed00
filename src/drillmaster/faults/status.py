"""The fault `status`."""

from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, answer_error, with_fields
from drillmaster.http1 import Answer, answer_head

__all__ = ["Status"]


class Status(Fault, frozen=True, kw_only=True, tag="status"):
    """Read the whole request, then answer with this status in the provider's own words, or as a gateway's HTML page.

    Where the API has several errors of one status, `condition` chooses (docs/reference/dialects.md lists them); one
    that an API does not know falls back to the status alone.

    Breaks: fallbacks that know some statuses; code that reads `error.code` out of a page that is HTML.
    Looks like: a well-formed answer; the connection stays usable. 408, 409, 429 and >= 500 are retried by most SDKs.
    Cannot show: an error inside a 200 (see error-in-200), or what a status does once it heals (see rate-limit).
    """

    group = "status"
    hands_on = False
    seen = ("status",)

    status: Annotated[int, Meta(ge=400, le=599, description="any error status, registered or not", examples=[500])]
    condition: (
        Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,39}$", description="which of the API's errors of this status")]
        | None
    ) = None
    html: Annotated[bool, Meta(description="a gateway's HTML page in place of the API's JSON")] = False
    should_retry: Annotated[
        bool | None, Meta(description="x-should-retry, which SDKs of OpenAI's and Anthropic's kind obey")
    ] = None
    asks_upstream: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.html and self.condition is not None:
            raise ValueError("condition and html, wanted one of the two: a gateway's page knows no conditions")

    def script(self, cx: Cx) -> Script:
        yield from answer_error(cx, self.status, self.condition, put=self._put)

    def _put(self, answer: Answer) -> Answer:
        if self.html:
            answer = _page(self.status)
        if self.should_retry is not None:
            answer = with_fields(answer, ("x-should-retry", "true" if self.should_retry else "false"))
        return answer


def _page(status: int) -> Answer:
    title = answer_head(status, ()).split(b"\r\n")[0].decode("ascii")[len("HTTP/1.1 ") :].strip()
    page = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
    page += "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    return Answer(status, (("server", "nginx"), ("content-type", "text/html")), page.encode(), "nginx's own page")
