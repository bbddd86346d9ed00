"""Secrets taken out of text before it is written: by their shape, by the name before them, by their place in a URL.

1. What looks like a credential goes, wherever it stands: vendors' prefixes, JWTs, private keys, `Bearer ...`, the user
   part of a URL and the values of its query, webhook addresses.
2. What follows a telling name (`api_key=`, `"password": "`, `Cookie:`) goes whatever it looks like; after a bare `key=`
   only what looks random, and after a colon in prose only what is no plain word.
3. Digests, UUIDs, run ids and traceparents stay: evidence is joined by them.
4. What follows a telling option (`--password X`, `-p X`) goes as well: in a list of words whatever it looks like, in text
   where it is no plain word.
5. `{payload}`, `{nonce}` and `{id}`, which a plan's URL is filled by, are no secrets and stay.
6. Screened text screens to itself. Where a stream is cut into chunks makes no difference: lines are screened whole, and
   a line longer than HOLD_BYTES in windows whose edges its content decides, never the chunks.

No list of shapes is complete. What is written should be chosen field by field; this is the net below that.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

__all__ = [
    "HOLD_BYTES",
    "MARK",
    "Screener",
    "key_hash",
    "screen_argv",
    "screen_headers",
    "screen_text",
    "screen_url",
    "screen_value",
    "suspicious",
]

MARK = "[screened]"
HOLD_BYTES = 64 * 1024
"""The most that a `Screener` holds back: a longer line is screened in windows of this size."""
_TAIL = 4 * 1024  # of a window, held for the next one, so that what begins there is seen whole
_PEM_CHARS = 32 * 1024  # no private key is longer; behind that a missing END hides nothing any more

_KEPT = rf"(?!{re.escape(MARK)}|\*{{3}}|\$\{{?[A-Z]|<|\{{(?:payload|nonce|id)\}}[\"'\\]|(?:null|none|true|false|undefined|nil)\b)"
_NAMES = (
    r"(?:passwords?|passwd|passphrase|pwd|secrets?|(?<![a-z])token|[_-]token|(?:access|auth|refresh|bearer|session|id)token"
    r"|(?:api|access|secret|private|signing|routing|auth|encryption|account|subscription|storage|master)[_-]?keys?|authorization|credentials?|cookie)"
)
_CLOSED = r"\\*[\"']?\s{0,4}"  # the quote after a name, also one escaped inside a JSON string
_OPEN = r"\s{0,4}"
_QUOTED = r"(?:\\+\"(?P<a>KEPT[^\"\\\n]+)|\"(?P<b>KEPT(?:[^\"\\\n]|\\.)+)|'(?P<c>KEPT[^'\n]+))".replace("KEPT", _KEPT)
_BARE = r"[^\s\"'`,;&)}\]<>\\{\[]"
_PROSE = "bearer|basic|auth|cred|token|scheme|header|format|the|is|and|or|of|for|in|with|must|should|not"

# Each: lower-case substrings of which it needs one, the expression, whose named groups are the secrets, and signs of which it
# needs one too: most prose that names a key has none, and an expression that is not asked is not built either.
_SHAPES: tuple[tuple[tuple[str, ...], str, *tuple[str, ...]], ...] = (
    (("sk-",), r"(?<![A-Za-z0-9])(?P<s>sk-[A-Za-z0-9_-]{6,})"),
    (("sk_", "rk_"), r"(?<![A-Za-z0-9])(?P<s>(?:pc)?[sr]k_[A-Za-z0-9_]{12,}[\w-]*)"),
    (("ghp_", "gho_", "ghs_", "ghu_", "ghr_"), r"(?<![A-Za-z0-9])(?P<s>gh[opsur]_[A-Za-z0-9]{10,}[\w-]*)"),
    (("github_pat_",), r"(?P<s>github_pat_[A-Za-z0-9_]{10,}[\w-]*)"),
    (("glpat-",), r"(?P<s>glpat-[A-Za-z0-9_-]{10,})"),
    (("hf_", "gsk_", "npm_", "xai-"), r"(?<![A-Za-z0-9])(?P<s>(?:hf_|gsk_|npm_|xai-)[A-Za-z0-9_-]{16,})"),
    (("xox", "xapp-"), r"(?<![A-Za-z0-9])(?P<s>(?:xox[a-z]-|xapp-)[A-Za-z0-9-]{8,}[\w-]*)"),
    (("akia", "asia"), r"(?<![A-Za-z0-9])(?P<s>A(?:KI|SI)A[A-Z0-9]{12,}[\w-]*)"),
    (("aiza",), r"(?<![A-Za-z0-9])(?P<s>AIza[A-Za-z0-9_-]{16,})"),
    (("ya29.",), r"(?<![A-Za-z0-9])(?P<s>ya29\.[A-Za-z0-9_-]{10,})"),
    (("sg.",), r"(?<![A-Za-z0-9])(?P<s>SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"),
    (("pplx-", "r8_", "shpat_", "shpss_", "shpca_", "shppa_", "pypi-", "lin_api_", "doo_v1_", "dop_v1_", "dor_v1_", "hvs.", "nrak-",
      "age-secret-key-1", "ntn_", "dp.st.", "dp.pt.", "dp.ct."),
     r"(?<![A-Za-z0-9])(?P<s>(?:pplx-|r8_|shp(?:at|ss|ca|pa)_|pypi-|lin_api_|do[opr]_v1_|hvs\.|NRAK-|AGE-SECRET-KEY-1|ntn_"
     r"|dp\.[spc]t\.)[A-Za-z0-9_-][A-Za-z0-9_.-]{11,}[A-Za-z0-9_-])"),
    (("dapi",), r"(?<![A-Za-z0-9])(?P<s>dapi[0-9a-f]{32}[\w-]*)"),
    ((":aa",), r"(?<![0-9])(?P<s>[0-9]{8,10}:AA[A-Za-z0-9_-]{30,})"),
    (("zapier.com/", "make.com/", "ifttt.com/", "pagerduty.com/"),
     r"(?i:hooks\.zapier\.com/hooks/catch/|hook\.[a-z0-9]{2,5}\.make\.com/|maker\.ifttt\.com/(?:[\w-]{1,64}/){0,4}key/"
     r"|events\.pagerduty\.com/(?:integration|generic)/)(?P<s>[^\s\"'<>\\]+)"),
    (("whsec_",), r"(?P<s>whsec_[A-Za-z0-9+/=_-]{6,})"),
    (("eyj",), r"(?<![A-Za-z0-9])(?P<s>eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*){0,3})"),
    (("bearer",), rf"(?i:bearer)(?:\s{{1,4}}|%20)(?!(?i:{_PROSE})[a-z]{{0,12}}\b)(?P<s>[A-Za-z0-9._~+/=-]{{6,}})"),
    (("basic",), r"(?i:basic)\s{1,4}(?=[A-Za-z0-9+/]{0,512}[0-9=]|[A-Za-z]{0,512}[a-z][A-Z])(?P<s>[A-Za-z0-9+/]{8,}[\w+/=-]*)"),
    (("/services/", "/webhook", "/workflows/"),
     r"(?i:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/"
     r"|office\.com/webhook(?:b2)?/)(?P<s>[^\s\"'<>\\]+)"),
    (("@",), r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}:(?:\\?/){2}(?P<s>[^\s/\"'<>\\]+)@"),
    (("?",), r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}:(?:\\?/){2}[^\s?#\"'<>]+\?(?P<query>[^\s#\"'<>\\]+)"),
    (("private key",), r"(?P<pem>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----)"),
    (("key",), r"(?i:(?<![\w-])key)" + _CLOSED + r"[:=]" + _OPEN + r"[\"']?(?=[^\s\"']{0,512}[a-z])(?=[^\s\"']{0,512}[A-Z])"
     r"(?=[^\s\"']{0,512}[0-9])(?P<s>[A-Za-z0-9_+/=.~-]{20,})", ":", "="),
    (("authorization", "cookie"), r"(?i:authorization|cookie)" + _CLOSED + r":" + _OPEN +
     r"(?P<s>" + _KEPT + r"(?:(?i:bearer|basic|digest|token|negotiate|aws4-hmac-sha256|apikey)\s+[^\s\"'][^\r\n\"']*"
     r"|[^\s=;\"']{1,256}=[^\r\n\"']+))", ":"),
    (("pass", "pwd", "secret", "token", "key", "authorization", "credential", "cookie"),
     rf"(?i:{_NAMES})" + _CLOSED + r"(?:[:=]|=>)" + _OPEN + r"(?:" + _QUOTED
     + rf"|(?<==)(?P<d>{_KEPT}{_BARE}+)|(?<=[:\s])(?P<e>{_KEPT}(?=[^\s]{{0,512}}[0-9_+/=.~!@#$%^*-])(?![A-Za-z]+[.,;:!?]?\s)"
     rf"{_BARE}{{4,}}))", ":", "="),
    (("pass", "pwd", "secret", "token", "key", "authorization", "credential"),
     rf"(?<![\w-])(?i:--[a-z0-9-]{{0,40}}?{_NAMES})(?![\w-]),?\s{{1,4}}[\"']?(?P<s>{_KEPT}(?!-)(?![A-Za-z]+[.,;:!?]?(?:\s|\Z))"
     rf"{_BARE}+)", "--"),
    (("pass", "pwd", "secret", "token", "key", "authorization", "credential"),
     rf"(?<![\w-])(?i:--[a-z0-9-]{{0,40}}?{_NAMES})[\"']\s{{0,4}},\s{{0,4}}(?:\"(?P<a>{_KEPT}(?!--)[^\"\\\n]+)\"|'(?P<b>{_KEPT}(?!--)[^'\n]+)')",
     "--"),
    (("pass", "pwd"),
     rf"(?i:passwords?|passwd|passphrase|pwd)\\*[\"']?\s{{0,4}}:{_OPEN}(?P<s>{_KEPT}{_BARE}+)(?=\s{{0,4}}(?:[\r\n,;}}]|\Z))", ":"),
)  # fmt: skip  # a table: letters that a text must have, and the pattern
# One pass that says no to ordinary lines in 2 µs where 36 searches take 9. Each alternative begins with a letter that
# is rare in text, and looks back from there: for a trigger above there is one here, which a test checks. The field `key`
# of our own evidence, 16 hex digits of a digest, is let by.
_QUICK = re.compile(
    r"k(?:[-_](?<=[sr]k.)|-(?<=nrak-)|(?<=tok)|(?<=ook)|ia(?<=akia)|e\.com/(?<=make\.com/))"
    r"|x(?:ox|app-|ai-|-(?<=pplx-))|z(?:(?<=thoriz)|a(?<=aiza)|apier\.com/)"
    r"|y(?:(?<=key)(?!(?<=\"key)\": ?\"[0-9a-f]{16}\")|a29\.|j(?<=eyj)|\.com/(?<=pagerduty\.com/))"
    r"|g(?:h[opsur]_|ithub_pat_|lpat-|\.(?<=sg\.))"
    r"|b(?:earer|asic)|f(?:_(?<=hf_)|ttt\.com/)|m_(?<=npm_)|c(?:re[td]|_(?<=sec_))"
    r"|p(?:ass|wd|ypi-|i(?<=dapi)|[aspc][tsa]_(?<=shp.._)|\.[spc]t\.(?<=dp\.[spc]t\.))"
    r"|_(?:(?<=r8_)|(?<=ntn_)|api_(?<=lin_api_)|v1_(?<=do[opr]_v1_))|v(?:s\.(?<=hvs\.))|:aa"
)
# With what is glued to the end of a key: behind a mark it would read as the rest of a URL.
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----[^\s\"'<>\\]*")
_RUN_END = re.compile(r"[\n\"']")
_GAP = re.compile(r"[\s,;}\]]")
_QUERY_PART = re.compile(r"([^&;=]*)(=?)([^&;]*)([&;]?)")
_FILLED = re.compile(r"((?:\{(?:payload|nonce|id)\})+)")
_FILE = re.compile(
    r"(?:file|path|dir|name|env|count|s)$", re.IGNORECASE
)  # an option for where a secret is, or how many
_SHORT = frozenset({"-p", "-P", "-u"})
_PORT = r"\d{1,5}(?::\d{1,5})?"
_URL = r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?//|)([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?"

_SECRET_HEADERS = frozenset(
    (
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "cookie2",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-auth-token",
        "x-amz-security-token",
        "x-csrf-token",
        "x-functions-key",
        "ocp-apim-subscription-key",
        "authentication-info",
    )
)
_CHALLENGES = frozenset(("www-authenticate", "proxy-authenticate"))
# Of RFC 6750, 9449 and 9470: they say why a credential was refused, and hold nothing of it.
_ERROR_WORD = (
    r"(?<![\w-])error\s?=\s?(?P<quote>\"?)(?:invalid_request|invalid_token|insufficient_scope|invalid_dpop_proof"
    r"|use_dpop_nonce|insufficient_user_authentication)(?P=quote)(?![\w\"-])"
)
_SCHEME = r"(?:Basic|Bearer|Digest|DPoP) "

Span = tuple[int, int]


def key_hash(value: str | bytes) -> str:
    """Name a credential without showing it: the first 16 hex digits of its SHA-256."""
    import hashlib  # 4 ms that a worker which only marks does not have to pay

    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()[:16]


def screen_text(text: str, *, keep_length: bool = False) -> str:
    """Return the text with every secret replaced by MARK; the same object where there is none.

    With `keep_length` a secret becomes as many `*` as it had characters.
    """
    if not suspicious(text):
        return text
    core = _Core(keep_length=keep_length)
    screened = "".join(core.feed(text)) + "".join(core.close())
    return text if screened == text else screened


def screen_value(text: str, max_chars: int = 1_000) -> str:
    """Screen one value of somebody's evidence and cut it to `max_chars`, the last one an ellipsis where it was cut.

    The same object where there is nothing to do. Costs 2 us and at most what `max_chars` + 4,096 characters cost.
    """
    # What begins within the limit is seen to its end, or as far as matters, before the cut could hide what it is.
    cut = len(text) > max_chars
    screened = screen_text(text[: max_chars + _TAIL] if cut else text)
    return screened[: max_chars - 1] + "\u2026" if cut or len(screened) > max_chars else screened


def screen_argv(words: Sequence[str]) -> list[str]:
    """Screen the words of a command: each as text, and whole where it follows an option that says it is a secret."""
    said: list[str] = []
    before = ""
    for word in words:
        said.append(MARK if word and _told_by(before, word) else screen_text(word))
        before = word
    return said


def _told_by(option: str, word: str) -> bool:
    """Whether an option says that the word after it is a secret."""
    if not option.startswith("-") or "=" in option or word.startswith("--"):
        return False
    if option in _SHORT:
        return re.fullmatch(_PORT, word) is None and (option != "-u" or ":" in word)
    name = option.lstrip("-")
    if _tells(name):
        return _FILE.search(name) is None
    return screen_text(f"{name}={word}") != f"{name}={screen_text(word)}"


def _tells(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever it looks like."""
    from drillmaster.strict import SECRET_NAME  # 8 ms that a worker which only marks does not have to pay

    return SECRET_NAME.search(name) is not None


def screen_url(url: str) -> str:
    """Return a URL without user part, query values, fragment and key-shaped path parts; the query's names stay.

    Takes relative references too. A query part without `=` may itself be a token and goes whole.
    """
    match = re.fullmatch(_URL, url, re.DOTALL)
    if match is None:  # not reached: the expression takes any text
        return MARK
    scheme, authority, path, query, fragment = match.groups()
    user, at, host = authority.rpartition("@")
    text = screen_text(f"{scheme}{MARK if user else ''}{at}{host}{path}")
    if query is not None:
        text += "?" + "".join(_screened_query(query[1:]))
    return text + (f"#{MARK}" if fragment and len(fragment) > 1 else "")


def screen_headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return header fields with credentials replaced by MARK, by name, and any other value screened as text.

    Of a challenge (`WWW-Authenticate`) the error words that a document has stay, and the scheme before them.
    """
    return [(name, _screened_field(name.lower(), name, value)) for name, value in pairs]


def _screened_field(low: str, name: str, value: str) -> str:
    if low in _CHALLENGES:
        return _screened_challenge(value)
    return MARK if low in _SECRET_HEADERS or _tells(name) else screen_text(value)


def _screened_challenge(value: str) -> str:
    words = list(re.finditer(_ERROR_WORD, value, re.IGNORECASE | re.ASCII))
    scheme = re.match(_SCHEME, value, re.IGNORECASE) if words else None
    at = scheme.end() if scheme else 0
    parts: list[str] = []
    for word in words:
        parts += [MARK] if value[at : word.start()].strip(" ,") else []
        parts.append(word[0])
        at = word.end()
    parts += [MARK] if value[at:].strip(" ,") else []
    return (scheme[0] if scheme else "") + ", ".join(parts)


class Screener:
    """Screen bytes that come in chunks: feed them, write what comes back, close at the end.

    Holds back the line under way, at most HOLD_BYTES of it. With `keep_length` a secret becomes as many `*` as it had
    bytes and every other byte keeps its place. Bytes that are no UTF-8 pass unchanged.
    """

    def __init__(self, *, keep_length: bool = False) -> None:
        self._core = _Core(keep_length=keep_length)

    def feed(self, data: bytes) -> bytes:
        # Latin-1 maps each byte to one character and back; every expression above looks at ASCII alone.
        return "".join(self._core.feed(data.decode("latin-1"))).encode("latin-1")

    def close(self) -> bytes:
        """Return what was held back. The screener can be fed again, as a new one."""
        return "".join(self._core.close()).encode("latin-1")


def suspicious(text: str) -> bool:
    """Give a quick no, in 12 ns a character: whether any expression could match at all."""
    low = text.lower()
    if _QUICK.search(low) or "asia" in low:
        return True
    return ("@" in low or "?" in low) and ("//" in low or "\\/" in low)


def _screened_query(query: str) -> Iterator[str]:
    for name, equals, value, end in _QUERY_PART.findall(query):
        if equals:
            kept = "".join(part if _FILLED.fullmatch(part) else MARK for part in _FILLED.split(value) if part)
            yield screen_text(name) + "=" + kept + end
        else:
            yield (MARK if name else "") + end


class _Core:
    """The one machine behind `screen_text` and `Screener`. What it does next depends on content alone."""

    def __init__(self, *, keep_length: bool) -> None:
        self._keep_length = keep_length
        self._held = ""
        self._at = 0  # how much of what is held is done with
        self._looked = 0  # up to where it is known to hold no line end
        self._until: re.Pattern[str] | None = None  # inside a secret that is over where this matches
        self._inside = 0  # characters since that secret began

    def feed(self, text: str) -> Iterator[str]:
        self._held += text
        while (segment := self._take()) is not None:
            yield from self._segment(segment, whole=segment.endswith("\n"))
        self._held = self._held[self._at :]
        self._looked, self._at = self._looked - self._at, 0

    def close(self) -> Iterator[str]:
        while self._at < len(self._held):
            segment, self._at = self._held[self._at :], len(self._held)
            yield from self._segment(segment, whole=True)
        self._held, self._at, self._looked, self._until, self._inside = "", 0, 0, None, 0

    def _take(self) -> str | None:
        """Cut the next line off what is held, or a window of a line that is too long to be held."""
        begin, window = self._at, self._at + HOLD_BYTES
        end = self._held.find("\n", max(begin, self._looked), window) + 1
        if not end:
            if len(self._held) < window:
                self._looked = len(self._held)
                return None
            end = window
        self._at = self._looked = end
        return self._held[begin:end]

    def _back(self, text: str) -> None:
        """Hand back the end of what was taken last."""
        self._at -= len(text)
        self._looked = self._at

    def _segment(self, text: str, *, whole: bool) -> Iterator[str]:
        if self._until is not None:
            yield from self._swallow(text)
            return
        if not suspicious(text):
            # The end of a window may be the beginning of something, so it waits for what follows.
            cut = len(text) if whole else self._edge(text, len(text) - _TAIL)
            self._back(text[cut:])
            yield text[:cut]
            return
        matches, secrets, pem = _spans(text)
        cut = len(text) if whole else self._edge(text, len(text) - _TAIL)
        held = next((start for start, end in matches if start < cut < end), cut)
        if pem is not None and (whole or pem < held):
            # What runs into the key has one mark with it.
            begin = next((start for start, end in secrets if start < pem <= end), pem)
            yield self._without(text[:begin], secrets) + self._mark(text[begin : pem + 5])
            self._until, self._inside = _PEM_END, 0
            self._back(text[pem + 5 :])
        elif held == 0 and cut > 0:  # longer than a window: it goes, and so does what follows up to its end
            yield self._mark(text)
            self._until, self._inside = _RUN_END, 0
        else:
            yield self._without(text[:held], secrets)
            self._back(text[held:])

    def _swallow(self, text: str) -> Iterator[str]:
        assert self._until is not None
        match = self._until.search(text)
        pem = self._until is _PEM_END
        if match is not None:
            end = match.end() if pem else match.start()
            self._until = None
            yield self._mark(text[:end], gone="")
            self._back(text[end:])
            return
        # A window is longer than any private key: one that did not end in it does not end.
        self._inside += len(text)
        if pem and self._inside > _PEM_CHARS:
            self._until = None
        yield self._mark(text, gone="")

    def _edge(self, text: str, at: int) -> int:
        """Move a cut back to where a word ends, so that nothing looks like the beginning of one."""
        for near in range(at, at - 256, -1):
            if _GAP.match(text, near - 1):
                return near
        return at

    def _mark(self, secret: str, gone: str = MARK) -> str:
        return "*" * len(secret) if self._keep_length else gone

    def _without(self, text: str, secrets: list[Span]) -> str:
        parts: list[str] = []
        at = 0
        for start, end in secrets:
            if start >= len(text):
                break
            parts += (text[at:start], self._mark(text[start:end]))
            at = end
        parts.append(text[at:])
        return "".join(parts)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII)  # on first use: all of them together cost 12 ms


def _merged(spans: list[Span]) -> list[Span]:
    """Join spans that overlap; those that only touch stay apart."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _spans(text: str) -> tuple[list[Span], list[Span], int | None]:
    """Where expressions match, where in it the secrets are, both by start, and where the first private key begins."""
    matches: list[Span] = []
    secrets: list[Span] = []
    pem: int | None = None
    low = text.lower()
    for triggers, expression, *signs in _SHAPES:
        if not any(trigger in low for trigger in triggers) or (signs and not any(sign in low for sign in signs)):
            continue
        for match in _compiled(expression).finditer(text):
            group = match.lastgroup or "s"
            if group == "pem":
                pem = match.start() if pem is None else min(pem, match.start())
                continue
            matches.append(match.span())
            secrets += _query_values(match[group], match.start(group)) if group == "query" else [match.span(group)]
    return _merged(matches), _merged(secrets), pem


def _query_values(query: str, at: int) -> Iterator[Span]:
    for part in _QUERY_PART.finditer(query):
        group = 3 if part[2] else 1
        begin = at + part.start(group)
        for piece in _FILLED.split(part[group]):
            if piece and piece != MARK and _FILLED.fullmatch(piece) is None:
                yield begin, begin + len(piece)
            begin += len(piece)
