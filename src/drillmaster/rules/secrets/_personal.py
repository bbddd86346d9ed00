"""What belongs to a person, and what names a live environment: neither opens anything, and neither belongs into memory.

1. An e-mail address has a host that a mail can go to: letters at its end, and no file's suffix (`icon@2x.png`). Addresses of
   machines (`git@`, `noreply@`) are nobody's.
2. A payment card has an issuer's first digits, its length, and a last digit that Luhn's sum makes. Digits of a longer number,
   of a fraction or an identifier are none.
3. A live environment is named by a connection string without a password, by a cloud's resource name, or by a host inside a
   private network.
"""

from collections.abc import Iterator

from drillmaster.rules.secrets._compiled import compiled

__all__ = ["find_live", "find_personal", "luhn"]

Found = tuple[str, int, bytes]


def _words(text: bytes) -> frozenset[bytes]:
    return frozenset(text.split())


_LOCAL = rb"[A-Za-z0-9][A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{0,63}\Z"
_HOST = rb"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}(?P<top>[A-Za-z]{2,24})(?![A-Za-z0-9_(-])"
_SUFFIXES = _words(
    b"png jpg jpeg gif svg webp ico css js mjs cjs ts tsx jsx json md html htm xml py rb go rs java c h cpp txt yaml yml "
    b"toml lock map "
    b"local sh zip tar gz whl pdf service socket timer mount target"
)
_MACHINES = _words(b"git noreply no-reply donotreply hg svn mailer-daemon postmaster nobody actions")

_CARDS: tuple[tuple[bytes, frozenset[int]], ...] = (
    (rb"4", frozenset({13, 16, 19})),
    (rb"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", frozenset({16})),
    (rb"3[47]", frozenset({15})),
    (rb"6011|65|64[4-9]", frozenset({16, 19})),
    (rb"35(?:2[89]|[3-8])", frozenset({16})),
    (rb"3(?:0[0-5]|[68])", frozenset({14})),
)
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_GROUPED = (b"0000 0000 0000 000", b"0000-0000-0000-000", b"0000 000000 0000", b"0000-000000-0000")
_BARE = b"0" * 13
_AROUND = rb"[0-9A-Za-z_.]"
# A field that counts or names something else, before bare digits.
_NO_CARD = (
    rb"(?i)(?:id|ids|_at|time|stamp|_ns|_us|_ms|seed|hash|offset|size|bytes|nonce|sha|crc|isbn|imei)"
    rb"[\"']?\s{0,3}[:=]\s{0,3}[\"']?\Z"
)


def luhn(digits: bytes) -> bool:
    """Whether the last digit is the one that Luhn's sum makes."""
    total = 0
    for place, byte in enumerate(reversed(digits)):
        digit = byte - 0x30
        if place % 2:
            digit = digit * 2 - 9 if digit > 4 else digit * 2
        total += digit
    return total % 10 == 0


def _card(digits: bytes) -> bool:
    if len(set(digits)) < 2:  # sixteen zeros are no card
        return False
    return any(compiled(first).match(digits) and len(digits) in lengths for first, lengths in _CARDS) and luhn(digits)


def find_personal(data: bytes) -> Iterator[Found]:
    """Yield addresses and card numbers in plain bytes."""
    at = data.find(b"@")
    while at >= 0:
        yield from _address(data, at)
        at = data.find(b"@", at + 1)
    marked = data.translate(_DIGITS)
    at = marked.find(_BARE)
    while at >= 0:
        end = at + 13
        while marked[end : end + 1] == b"0":
            end += 1
        digits = data[at:end]
        before, after = data[at - 1 : at] if at else b"", data[end : end + 1]
        apart = (
            compiled(_AROUND).match(before) is None
            and before not in (b"-", b"+")
            and (compiled(_AROUND).match(after) is None or after == b".")
        )
        if apart and _card(digits) and compiled(_NO_CARD).search(data[max(0, at - 40) : at]) is None:
            yield "payment-card", at, digits
        at = marked.find(_BARE, end)
    for shape in _GROUPED:
        at = marked.find(shape)
        while at >= 0:
            end = at + len(shape)
            while marked[end : end + 1] == b"0" and end - at < 24:
                end += 1
            digits = data[at:end].translate(None, b" -")
            before = data[at - 1 : at] if at else b""
            if (
                compiled(_AROUND).match(before) is None
                and compiled(_AROUND).match(data[end : end + 1].replace(b".", b"")) is None
                and _card(digits)
            ):
                yield "payment-card", at, digits
            at = marked.find(shape, end)


def _address(data: bytes, at: int) -> Iterator[Found]:
    host = compiled(_HOST).match(data, at + 1, at + 256)
    if host is None or host["top"].lower() in _SUFFIXES:
        return
    begin = at
    while (
        begin > 0
        and at - begin < 64
        and (data[begin - 1 : begin].isalnum() or data[begin - 1] in b".!#$%&'*+/=?^_{|}~-")
    ):
        begin -= 1
    local = data[begin:at].lstrip(b".!#$%&'*+/=?^_{|}~-")
    local = local.rpartition(b"=")[2].rpartition(b"/")[2]
    if not local or (
        data[at - len(local) - 1 : at - len(local)] == b":" and data[:at].rfind(b"//", max(0, at - 300)) >= 0
    ):
        return  # behind `scheme://user:` stands a password, which is told as one
    if data[max(0, at - len(local) - 2) : at - len(local)] == b"//":
        return  # the user of an address such as ssh://deploy@host
    if compiled(_LOCAL).match(local) is not None and local.lower() not in _MACHINES:
        yield "email", at - len(local), data[at - len(local) : host.end()]


_STORES = (
    rb"(?i)(?:postgres(?:ql)?|mysql|mariadb|mongodb|redis|rediss|amqps?|kafka|mssql|sqlserver|oracle|cassandra|clickhouse|cockroachdb|nats"
    rb"|elasticsearch|ldaps?|memcached|snowflake|jdbc:[a-z]{2,16})(?:\+[a-z0-9]{1,16})?:(?:\\?/){2}\Z"
)
_LOOPBACK = rb"(?i)(?:[^\s/@\"']{0,100}@)?(?:localhost|127\.|\[::1\]|0\.0\.0\.0|host\b|example\b|\$|<|\{)"
_LIVE = (
    rb"(?i)arn:aws[a-z-]{0,12}:[a-z0-9-]{2,32}:[a-z0-9-]{0,20}:[0-9]{12}:"
    rb"|(?<=[a-z0-9])\.(?:internal|cluster\.local|rds\.amazonaws\.com|cache\.amazonaws\.com|database\.windows\.net|mongodb\.net)\b"
)
_LIVE_TRIGGERS = (b"arn:aws", b".internal", b".cluster.local", b".amazonaws.com", b".windows.net", b".mongodb.net")


def find_live(data: bytes) -> Iterator[Found]:
    """Yield names of live environments in plain bytes."""
    at = data.find(b"://")
    while at >= 0:
        if (
            compiled(_STORES).search(data[max(0, at - 40) : at + 3]) is not None
            and compiled(_LOOPBACK).match(data, at + 3) is None
        ):
            yield "connection-string", at, data[at : at + 3]
        at = data.find(b"://", at + 3)
    low = data.lower()
    if any(trigger in low for trigger in _LIVE_TRIGGERS):
        for match in compiled(_LIVE).finditer(data):
            yield "live-name", match.start(), match.group(0)
