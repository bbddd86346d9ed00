"""Answers to the cold call that every other call would get too, and what to mend then."""

__all__ = ["found_of", "remedy_of"]

_CANNOT_WORK = {
    400: "the body is not what this API wants: see --dialect, --model and --payloads",
    401: "give the key from the environment: --header Authorization=NAME_OF_THE_VARIABLE",
    402: "the account has no credit",
    403: "the key may not do that: see --header",
    404: "mend the path of the URL, or the model's name",
    405: "mend the path of the URL: it takes another method",
    407: "it asks for credentials as a proxy does: give the endpoint's own URL; proxies of the environment are not asked",
    410: "mend the path of the URL",
    413: "send a smaller payload",
    415: "the body is not what this API wants: see --dialect",
    422: "the body is not what this API wants: see --dialect, --model and --payloads",
    501: "this server does not know the method: --query makes it a GET, all else is a POST",
}
_NO_WEBSOCKET = (
    "see whether a WebSocket is opened at that path, and which subprotocol it wants: target.websocket of a plan"
)
_CANNOT_OPEN = _CANNOT_WORK | dict.fromkeys((400, 405, 413, 415, 422, 426, 501), _NO_WEBSOCKET)
_CANNOT_OPEN |= {404: "mend the path of the URL"}
"""Of a WebSocket, whose upgrade has no body, no model and no method to choose."""


def remedy_of(kind: str, status: int, *, websocket: bool, tls_failed: str = "") -> str | None:
    """What to mend where a call of that kind of failure and status says that the plan cannot work; None: it says no such thing."""
    if kind == "protocol" and tls_failed == "WRONG_VERSION_NUMBER":
        return "write http:// (or ws://), or the port where it speaks TLS"
    if kind == "protocol" and tls_failed:
        return "see that it is for this name, in its time, from an authority that is trusted here or is target.ca_file of a plan"
    if kind == "protocol" and status > 0:
        return "have the server mend it: other clients may guess what is meant, and not all guess the same"
    if kind == "protocol":
        return "see whether it speaks HTTP/1.1 at all, with http or https, and a certificate that ca_file trusts"
    if status == 304:
        return "send no field that asks for what has changed, such as If-None-Match: see headers"
    if 300 <= status < 400:
        return "write the URL that it leads to: redirects are not followed"
    return (_CANNOT_OPEN if websocket else _CANNOT_WORK).get(status)


def found_of(kind: str, status: int, *, tls_failed: str = "") -> str:
    """What such a call found, in words; `status` -1: none came."""
    if tls_failed:
        return f"a TLS handshake that failed ({tls_failed})"
    if status <= 0:
        return "no HTTP that could be read"
    return f"status {status}" + (
        ", and a body that is not framed or packed as its head says" if kind == "protocol" else ""
    )
