"""The fault `key-expired`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script, answer_error

__all__ = ["KeyExpired"]


class KeyExpired(Fault, frozen=True, kw_only=True, tag="key-expired"):
    """Let the credential in use expire `after_s` into the fault: 401 to it from then on, and to no new one.

    Expired is every credential that was seen here before that moment, known by its hash alone; where none was, the first
    one after it. A credential that is seen later passes, for good. A request without any is answered 401 too.

    Breaks: agents that read their key once, at the start; secrets that rotate without a reload; 401s that are retried.
    Looks like: a key that worked a minute ago; the API's own 401, for an expired credential where it has such.
    Cannot show: whether the new key has the old one's rights.
    """

    group = "credentials"
    seen = ("status",)

    after_s: Annotated[float, Meta(ge=0, le=86_400, description="from the injection to the expiry; 0: at once")] = 0.0

    def script(self, cx: Cx) -> Script:
        expiry_ns = cx.injected_ns + round(self.after_s * 1e9)
        if cx.now_ns() < expiry_ns:
            if cx.key_hash is not None:
                cx.cell("key-expired").setdefault("old", set()).add(cx.key_hash)
            return
        if cx.key_hash is not None:
            old = cx.cell("key-expired").setdefault("old", set())
            was_used = cx.key_first_ns is not None and cx.key_first_ns < expiry_ns
            none_was = not old and (cx.keys_since_ns is None or cx.keys_since_ns >= expiry_ns)
            if was_used or none_was:
                old.add(cx.key_hash)
            if cx.key_hash not in old:
                return
        yield from answer_error(cx, None, "auth-expired")
