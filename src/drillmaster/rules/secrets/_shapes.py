"""Shapes of credentials in bytes: vendors' prefixes, tokens, private keys, addresses with a password, headers, assignments.

1. A shape is a trigger, letters without which it cannot be, and a pattern that is tried where the trigger stands and nowhere
   else. One pass over the file finds all triggers, by the rarest letter of each.
2. Patterns repeat with a bound and without giving back (`{n,m}+`), so that no input makes one slow.
3. A vendor's prefix is enough by itself. A name such as `password` is not: the value behind it has to look like one.
4. What stands for a secret is none: `<YOUR_KEY>`, `${TOKEN}`, `{{ token }}`, `***`, `xxxx`, `[screened]`.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import groupby

from drillmaster.rules.secrets._compiled import compiled
from drillmaster.rules.secrets._vendors import MORE

__all__ = ["Found", "find", "stands_for_one"]

Found = tuple[str, int, bytes]
"""Kind, offset of the secret, and the secret itself, which goes no further than its fingerprint."""

_LEFT = rb"(?<![A-Za-z0-9])"
_WORD = rb"[A-Za-z0-9_-]"
_MOST = 4_096  # of a value; longer ones are cut there


def _words(text: bytes) -> frozenset[bytes]:
    return frozenset(text.split())


_FILLER = (
    rb"[xX*.#_=\xe2\x80\xa6\xe2\x80\xa2-]{1,4096}+\Z|<|\$[{(A-Za-z_]|\{\{|\{[A-Za-z_][A-Za-z0-9_.]{0,60}\}|%[({A-Za-z]|%s\b|\[[A-Za-z]"
    rb"|\*{3}|[A-Za-z0-9_-]{0,24}?(?:x{4,255}|X{4,255}|\*{4,255})\Z"
    rb"|(?i:your[-_ ]?|change-?_?me\Z|redacted|placeholder|example\Z|insert[-_]|replace[-_]|removed\Z|masked\Z|hidden\Z)"
)
_NO_VALUE = _words(
    b"none null nil true false undefined nan yes no string str bytes int integer number float bool boolean text any object array "
    b"list dict map optional required secret secrets token tokens password passwords passwd pwd passphrase credential credentials "
    b"cookie cookies authorization key keys value values empty missing invalid incorrect wrong unset unknown default input field "
    b"prompt reset forgot forgotten confirm label hint type name varchar char env vault file stdin keyring manager "
    b"generator policy "
    b"protected encrypted hashed const let var self this new function return import export async await lambda get set and or not "
    b"is was the a an in for with must should can will has have been from to if of on at by it "
    b"authentication authenticated header headers auth login expired changed rotated needed here there"
)


def stands_for_one(value: bytes) -> bool:
    """Whether a value says where a secret goes, and is none."""
    return compiled(_FILLER).match(value) is not None


def entropy_bits(value: bytes) -> float:
    """Shannon's entropy of a value in bits a byte."""
    n = len(value)
    counts = [value.count(byte) for byte in set(value)]
    return -sum(c / n * math.log2(c / n) for c in counts)


def _vendor(value: bytes) -> bool:
    """A vendor's prefix counts unless what follows is crossed out: `ghp_xxxxxxxx`."""
    return len(set(value[-8:]) - set(b"xX*.#-_")) > 0


def _dashed(value: bytes) -> bool:
    """Of `sk-...` with dashes in it: a style sheet's `sk-fading-circle` is none, a key has digits and both cases."""
    rest = value[3:]
    if not _vendor(value):
        return False
    if max((len(part) for part in re.split(rb"[-_]", rest)), default=0) >= 20:
        return True
    digits = sum(chr(byte).isdigit() for byte in rest)
    return digits >= 3 and rest.lower() != rest and rest.upper() != rest


def _token_of_json(value: bytes) -> bool:
    """A JWT's head is JSON and names its algorithm."""
    head = value.split(b".", 1)[0]
    try:
        read = json.loads(base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) and ("alg" in read or "typ" in read or "enc" in read)


def _pair(value: bytes) -> bool:
    """`Basic` is base64 of `user:password`."""
    try:
        read = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in read[:-1] and read.isascii() and all(byte >= 0x20 for byte in read)


def _bearer(value: bytes) -> bool:
    """A token, and no word of a sentence: `bearer of bad news`, `Bearer authentication`."""
    if stands_for_one(value) or len(value) < 8 or _code(value):
        return False
    has_digit = any(0x30 <= byte <= 0x39 for byte in value)
    inner = value[1:]
    mixed = inner.lower() != inner and inner.upper() != inner
    return has_digit or (mixed and len(value) >= 12) or (len(value) >= 20 and b"-" not in value and b"." not in value)


def _random(value: bytes) -> bool:
    """What was drawn, not written: long enough, letters and digits mixed, no sentence."""
    if stands_for_one(value) or len(value) < 8 or b" " in value or b"://" in value or value.lower() in _NO_VALUE:
        return False
    if _code(value):
        return False
    has_digit = any(0x30 <= byte <= 0x39 for byte in value)
    has_letter = any(chr(byte).isalpha() for byte in value)
    if not has_letter:
        return False
    if has_digit:
        return entropy_bits(value) >= 2.5
    mixed = value[1:].lower() != value[1:] and value.upper() != value
    return len(value) >= 20 and mixed and entropy_bits(value) >= 3.5 and b"-" not in value and b"_" not in value


_IDENTIFIER = rb"[A-Za-z_$][A-Za-z0-9_$]*(?:(?:\.|->|::)[A-Za-z_$][A-Za-z0-9_$]*)+\Z"
_NAMES_ITSELF = rb"(?i)passw|passphrase|pwd|secret|token|credential|api_?key|_key\b|env\b"


def _code(value: bytes) -> bool:
    """An expression, not a value: `args.password`, `os.environ[...]`, `getpass()`, `db_password`."""
    if compiled(_IDENTIFIER).match(value) is not None and re.search(rb"[0-9]", value) is None:
        return True
    if re.search(rb"[(\[{]", value) is not None and re.match(rb"[A-Za-z0-9_.$]+[(\[{]", value) is not None:
        return True
    if re.match(rb"[A-Za-z_$][A-Za-z0-9_$.]*+(?:\?[^:]{1,200}:|\|\||&&|\?\.|\+)", value) is not None:
        return True
    if re.fullmatch(rb"(?:[A-Z][a-z]+[0-9]{0,5}){2,}", value) is not None:
        return True  # a class
    word = re.fullmatch(rb"[A-Za-z_][A-Za-z0-9_-]*", value)
    if word is None or compiled(_NAMES_ITSELF).search(value) is None:
        return False
    digits = sum(0x30 <= byte <= 0x39 for byte in value)
    return digits == 0 or (digits <= 2 and value.count(b"_") >= 2)


def _password(value: bytes, *, quoted: bool, equals: bool, alone: bool) -> bool:
    """A password behind its name: anything where a line sets it, and no word of a sentence, a label or an expression."""
    if len(value) < 4 or stands_for_one(value) or value.lower() in _NO_VALUE:
        return False
    if not quoted and (_code(value) or (value.isupper() and value.translate(None, b"_-").isalpha())):
        return False  # PASSWORD and VALUE stand for one
    if value.startswith((b"/", b"./", b"~/", b"$", b"--", b"=", b"<", b"!", b"|", b"&", b"(", b"%{")) and not quoted:
        return False
    odd = any(0x30 <= byte <= 0x39 for byte in value) or any(byte in b"!@#$%^&*+/~?" for byte in value)
    mixed = value[1:].lower() != value[1:] and value.upper() != value
    if quoted:
        if b" " in value:  # a label of a form, unless it has what labels have not
            return odd and not value.endswith((b"?", b".", b"!", b":")) and len(value.split()) <= 2
        if compiled(_NAMES_ITSELF).search(value) is not None and not odd:
            return False
        return odd or mixed or (value.isascii() and value.lower() == value and value.translate(None, b"-_.").isalpha())
    if equals:
        return odd or mixed or value.isascii()
    return odd or mixed or (alone and value.isascii())


_VALUE = (
    rb"(?:\\{0,4}+[\"'`](?P<q>[^\"'`\\\r\n]{1,512}+)|(?P<b>[^\s\"'`,;&)}\]<>\\{\[|][^\s\"'`,;&)}\]<>\\]{0,255}+"
    rb"|\$\{|<[^>\s]{1,64}+>|\[[^\]\s]{1,64}+\]))"
)
_JOINS = (
    rb"\\{0,4}+[\"'`\]]?[ \t]{0,4}+(?P<join>:=|=>|==?|:|(?<=[ \t])\|(?=[ \t])|(?<=[ \t])(?:is|was)[ \t]"
    # A pair of fields, as in lists of headers and of variables: {"name": "DB_PASSWORD", "value": "..."}
    rb"|,?\s{0,40}+\\{0,4}+[\"']?value\\{0,4}+[\"']?[ \t]{0,4}+[:=])[ \t]{0,4}+"
)

# Behind the name in code: `password: str = "..."`.
_TYPED = rb"(?::[ \t]{0,2}+(?:str|string|String|bytes)[ \t]{0,2}+(?==[^=]))?"
_PASSWORD = rb"(?i:passwords?|passwort|passwd|passphrase|passcode|pass|pwd)(?![A-Za-z0-9_-])" + _TYPED + _JOINS + _VALUE
_SECRET = (
    rb"(?i:secret[_-]?access[_-]?key|secret[_-]?key(?:[_-]?base)?|secret|token|credentials?|key)(?![A-Za-z0-9_-])"
    + _TYPED
    + _JOINS
    + _VALUE
)
_PASS = rb"(?i:pass)(?![a-z])"
# Before `key` and `token`, what makes it one that opens something; a page's or a parser's token opens nothing.
_BEFORE_KEY = (
    rb"(?i)(?:api|access|secret|private|signing|encryption|master|auth|account|storage|service"
    rb"|service[_-]?role|shared[_-]?access)[_-]?\Z"
)
_BEFORE_TOKEN = (
    rb"(?i)(?:page|next|continuation|sync|cursor|resume|pad|eos|bos|unk|cls|sep|mask|stop|special|start|end|max|min|first|last|prev|added)"
    rb"[_-]?\Z"
)


def _assigned(data: bytes, at: int, *, password: bool) -> Iterator[Found]:
    match = compiled(_PASSWORD if password else _SECRET).match(data, at)
    if match is None:
        return
    before = data[max(0, at - 24) : at]
    word = match.group(0)[:5].lower()
    if word.startswith(b"key") and compiled(_BEFORE_KEY).search(before) is None:
        return
    if word == b"token" and compiled(_BEFORE_TOKEN).search(before) is not None:
        return
    if (
        before[-1:].isalpha()
        and not _begins_a_word(before, data[at : at + 1])
        and not word.startswith((b"pass", b"pwd"))
    ):
        return
    if word.startswith(b"pass") and match.group(0)[4:5].lower() not in b"wpcW" and before[-1:].isalpha():
        return  # `bypass=`, `compass:`
    quoted = match["q"] is not None
    value = match["q"] if quoted else match["b"].rstrip(b".!?:`*")
    join = match["join"].strip()
    if not quoted and data[at - 1 : at] in (b'"', b"'") and value[:1].isdigit() and value.isalnum() and value.isdigit():
        return  # a vocabulary: "password": 4321
    if join == b"==" and not quoted:
        return
    if (join.isalpha() or join == b"|") and not any(0x30 <= byte <= 0x39 for byte in value):
        return
    if (word.startswith(b"pwd") and value.startswith((b"/", b"~"))) or (
        match.group(0).startswith(b"PWD=") and b"/" in value
    ):
        return  # the shell's working folder
    if (
        compiled(_PASS).match(match.group(0)) is not None
        and not before[-1:].isalnum()
        and before[-1:] not in (b"_", b"-")
    ):
        # `pass` alone is mostly a verdict: PASS = "pass", pass: 31/31
        mixes = any(chr(byte).isalpha() for byte in value) and any(0x30 <= byte <= 0x39 for byte in value)
        if not mixes or not (quoted or join == b"="):
            return
    start = match.start("q" if quoted else "b")
    if password:
        end = data[match.end() : match.end() + 1]
        line = data.rfind(b"\n", max(0, at - 200), at) + 1
        alone = (
            end in (b"", b"\n", b"\r", b",", b";", b"}")
            and re.fullmatch(rb"[\s\w.,:;{}\"'-]{0,80}", data[line:at]) is not None
        )
        good = _password(value, quoted=quoted, equals=join in (b"=", b":=", b"=>"), alone=alone)
    else:
        good = _random(value)
    if good:
        yield ("password" if password else "secret-value"), start, value


def _begins_a_word(before: bytes, first: bytes) -> bool:
    """Whether a name goes on in camel case or behind one of the words that make it a secret: `clientSecret`, `authtoken`."""
    if first.isupper() and before[-1:].islower():
        return True
    return (
        re.search(
            rb"(?i)(?:auth|access|refresh|bearer|session|client|app|api|bot|user|id|private|account|consumer)\Z", before
        )
        is not None
    )


_HEADER = (
    rb"(?i:authorization|x-api-key|api-key|x-auth-token|x-goog-api-key|x-amz-security-token)\\{0,4}+[\"']?"
    rb"[ \t]{0,4}+[:=,]\s{0,40}+(?:\\{0,4}+[\"']?value\\{0,4}+[\"']?[ \t]{0,4}+[:=][ \t]{0,4}+)?\\{0,4}+[\"']?"
    rb"(?P<v>[^\s\"'\\,;{}<>]{1,512}+(?:[ \t]{1,4}+[^\s\"'\\;{}<>]{1,2048}+)?)"
)
_SCHEMES = (
    b"bearer",
    b"basic",
    b"digest",
    b"token",
    b"negotiate",
    b"aws4-hmac-sha256",
    b"apikey",
    b"api-key",
    b"key",
    b"hmac",
    b"bot",
)


def _header(data: bytes, at: int) -> Iterator[Found]:
    match = compiled(_HEADER).match(data, at)
    if match is None:
        return
    scheme, _, rest = match["v"].partition(b" ")
    rest = rest.strip()
    if scheme.lower() in _SCHEMES:
        if not rest or stands_for_one(rest) or rest.lower() in _NO_VALUE or _code(rest):
            return
        if scheme.lower() == b"basic" and not _pair(rest):
            return
        odd = any(0x30 <= byte <= 0x39 for byte in rest) or (rest[1:].lower() != rest[1:] and len(rest) > 6)
        if odd or (len(rest) >= 16 and b" " not in rest and rest.isascii()):
            yield "authorization", match.start("v"), match["v"]
    elif not rest and b"," not in match.group(0)[: match.start("v") - at] and _random(scheme):
        yield "authorization", match.start("v"), scheme


_COOKIE = (
    rb"(?i:cookie2?)\\{0,4}+[\"']?[ \t]{0,4}+[:=,]\s{0,40}+(?:\\{0,4}+[\"']?value\\{0,4}+[\"']?[ \t]{0,4}+[:=][ \t]{0,4}+)?"
    rb"\\{0,4}+[\"']?(?P<v>[A-Za-z0-9!#$%&*+.^_|~-]{1,128}+=[^\r\n\"'\\<>]{0,4096}+)"
)


def _cookie(data: bytes, at: int) -> Iterator[Found]:
    match = compiled(_COOKIE).match(data, at)
    if match is not None:
        value = match["v"].partition(b"=")[2].partition(b";")[0].strip()
        if (
            len(value) >= 3
            and b"(" not in value
            and b")" not in value
            and not stands_for_one(value)
            and value.lower() not in _NO_VALUE
            and not _code(value)
        ):
            yield "cookie", match.start("v"), match["v"]


_PEM = (
    rb"-----BEGIN [A-Z0-9 ]{0,40}+(?<=PRIVATE KEY)(?: BLOCK)?-----(?:\\{1,4}[rn]|\s|\\{1,4}\s){1,8}+(?P<body>[A-Za-z0-9+/]{4,256}+)"
    rb"|-----BEGIN [A-Z0-9 ]{0,40}+(?<=PRIVATE KEY BLOCK)-----(?:\\{1,4}[rn]|\s){1,8}+(?P<block>[A-Za-z0-9+/]{4,256}+)"
)


def _pem(data: bytes, at: int) -> Iterator[Found]:
    match = compiled(_PEM).match(data, at)
    if match is not None:
        yield "private-key", at, match["body"] or match["block"]


_BEFORE_AT = rb"(?:[A-Za-z][A-Za-z0-9+.-]{0,40}):?(?:\\?/){2}(?P<user>[^\s/:@\"'<>\\`?#]{0,256}+):(?P<pw>[^\s/\"'<>\\`]{1,512})\Z"
_ORACLE = rb"(?i)jdbc:oracle:[a-z]{2,6}:(?P<user>[^\s/:@\"']{1,64})/(?P<pw>[^\s/@\"']{1,128})\Z"


def _with_password(data: bytes, at: int) -> Iterator[Found]:
    """`scheme://user:password@host`, looked for from its `@` backwards."""
    window_at = max(0, at - 800)
    window = data[window_at:at]
    slashes = max(window.rfind(b"//"), window.rfind(b"/\\/"))
    if slashes < 0:
        match = compiled(_ORACLE).search(window[-220:]) if b"jdbc:oracle" in window[-220:] else None
        if match is not None and not stands_for_one(match["pw"]):
            yield "connection-password", at - len(match["pw"]), match["pw"]
        return
    begin = slashes
    while (
        begin > 0 and slashes - begin < 44 and (window[begin - 1 : begin].isalnum() or window[begin - 1] in b"+.-:\\/")
    ):
        begin -= 1
    while begin < slashes and not window[begin : begin + 1].isalpha():
        begin += 1
    match = compiled(_BEFORE_AT).match(window, begin)
    after = data[at + 1 : at + 2]
    if match is None or not (after.isalnum() or after in (b"[", b"_", b"/", b"%", b"$", b"{", b"<", b"")):
        return
    password = match["pw"]
    if stands_for_one(password) or (password.isdigit() and len(password) <= 5 and b"." in match["user"]):
        return  # host:port/@... of a dev server
    yield "connection-password", window_at + match.start("pw"), password


_CURL_USER = rb"curl\b[^\n]{0,300}?[ \t](?:-u|--user)[ =]{0,2}[\"']?(?P<v>[^\s:\"'$<{]{1,128}:[^\s\"'$<{]{1,256})"


def _curl(data: bytes, at: int) -> Iterator[Found]:
    match = compiled(_CURL_USER).match(data, at, at + 800)
    if match is not None and not stands_for_one(match["v"].partition(b":")[2]):
        yield "basic-option", match.start("v"), match["v"]


_ELEMENT = rb"(?i:passwords?|passwd|passphrase|secret|token|credentials?)>(?P<v>[^<>\s]{4,512}+)</"


def _element(data: bytes, at: int) -> Iterator[Found]:
    """`<password>...</password>`"""
    match = compiled(_ELEMENT).match(data, at)
    if match is None or compiled(rb"<[\w:.-]{0,40}\Z").search(data[max(0, at - 42) : at]) is None:
        return
    value = match["v"]
    password = match.group(0)[:4].lower() == b"pass"
    if _password(value, quoted=False, equals=True, alone=True) if password else _random(value):
        yield ("password" if password else "secret-value"), match.start("v"), value


# A line of a browser's or curl's jar: host, whether for hosts below it, path, whether by TLS alone, until when, name, value.
_JAR = rb"(?i)(?:true|false)\t/[^\t\r\n]{0,200}+\t(?:true|false)\t[0-9]{1,12}+\t[^\t\r\n]{1,128}+\t(?P<s>[^\t\r\n]{8,4096}+)"


def _whole(value: bytes) -> bool:
    """Whether a field that holds nothing but a password holds one."""
    return _password(value, quoted=False, equals=True, alone=True)


_NETRC = rb"(?i)login[ \t\r\n]{1,8}+[^\s]{1,128}+[ \t\r\n]{1,8}+password[ \t\r\n]{1,8}+(?P<v>[^\s\"'<$]{4,256}+)"


def _netrc(data: bytes, at: int) -> Iterator[Found]:
    """`machine HOST login NAME password VALUE`"""
    match = compiled(_NETRC).match(data, at)
    if match is None or compiled(rb"(?i)\b(?:machine|default)\b").search(data[max(0, at - 100) : at]) is None:
        return
    if _password(match["v"].rstrip(b"`"), quoted=False, equals=True, alone=True):
        yield "password", match.start("v"), match["v"]


def _web_key(data: bytes, at: int) -> Iterator[Found]:
    """The private part of a JSON web key."""
    window = data[max(0, at - 2_000) : at + 4_000]
    match = compiled(rb"\"(?:d|k)\"\s{0,4}:\s{0,4}\"([A-Za-z0-9_-]{16,1024}+)\"").search(window)
    if match is not None:
        yield "private-key", max(0, at - 2_000) + match.start(1), match[1]


Check = Callable[[bytes], bool]
Finder = Callable[[bytes, int], Iterator[Found]]


def _simple(kind: str, pattern: bytes, check: Check = _vendor) -> Finder:
    def look(data: bytes, at: int) -> Iterator[Found]:
        match = compiled(pattern).match(data, at)
        if match is not None:
            group = "s" if "s" in match.re.groupindex else 0
            if check(match[group]):
                yield kind, match.start(group), match[group]

    return look


def _any(value: bytes) -> bool:
    return True


_AWS = (b"AKIA", b"ASIA", b"ABIA", b"ACCA")
_STRIPE = (b"sk_live_", b"sk_test_", b"rk_live_", b"rk_test_")
_SLACK = rb"(?i)hooks\.slack\.com\\?/(?:services|workflows)\\?/(?P<s>[A-Za-z0-9/\\]{12,255}+)"
_DEFINED = (
    rb"(?i)define\(\s{0,4}+[\"'][A-Z_]{0,30}?(?:PASSWORD|SECRET|_KEY|_SALT|TOKEN)[\"']\s{0,4}+,\s{0,8}+"
    rb"[\"'](?P<s>[^\"'\r\n]{6,256}+)[\"']"
)
_JWT = rb"eyJ[A-Za-z0-9_-]{6,4096}+\.[A-Za-z0-9_-]{2,16384}+\.[A-Za-z0-9_-]{0,4096}+"
# Trigger, in lower case, and what is tried where it stands.
_TABLE: tuple[tuple[bytes, Finder], ...] = (
    *((p.lower(), _simple("aws-access-key", _LEFT + p + rb"[A-Z0-9]{12,124}+(?![a-z])")) for p in _AWS),
    *((p, _simple("github-token", _LEFT + p + rb"[A-Za-z0-9_]{16,255}+")) for p in (b"ghp_", b"gho_", b"ghs_", b"ghu_", b"ghr_")),
    (b"github_pat_", _simple("github-token", rb"github_pat_[A-Za-z0-9_]{16,255}+")),
    *(
        (p, _simple("gitlab-token", _LEFT + p + rb"[A-Za-z0-9_.-]{16,255}+"))
        for p in (b"glpat-", b"gldt-", b"glrt-", b"glcbt-", b"glptt-", b"glft-", b"glsoat-", b"gloas-", b"glagent-")
    ),
    (b"xox", _simple("slack-token", _LEFT + rb"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,255}+")),
    (b"xapp-", _simple("slack-token", _LEFT + rb"xapp-[A-Za-z0-9-]{12,255}+")),
    (b"hooks.slack.com", _simple("webhook-address", _SLACK)),
    (b"/api/webhooks/", _simple("webhook-address", rb"(?<=[.]com)/api/webhooks/(?P<s>[0-9]{5,24}/[A-Za-z0-9_-]{12,255}+)")),
    (b"office.com/webhook", _simple("webhook-address", rb"(?i)office\.com/webhook(?:b2)?/(?P<s>[^\s\"'<>\\]{16,512}+)")),
    (b"sk-ant-", _simple("anthropic-key", _LEFT + rb"sk-ant-[A-Za-z0-9_-]{6,512}+")),
    (b"sk-", _simple("openai-key", _LEFT + rb"sk-(?!ant-)(?:proj|svcacct|admin|None|or-v1|lf)-[A-Za-z0-9_-]{8,512}+")),
    (b"sk-", _simple("openai-key", _LEFT + rb"sk-(?!ant-|proj-|svcacct-|admin-|or-v1-|lf-|None-)[A-Za-z0-9_-]{16,512}+", _dashed)),
    *((p, _simple("stripe-key", _LEFT + p + rb"[A-Za-z0-9]{8,255}+")) for p in _STRIPE),
    (b"whsec_", _simple("webhook-secret", rb"whsec_[A-Za-z0-9+/=_-]{12,255}+")),
    (b"aiza", _simple("google-key", _LEFT + rb"AIza[A-Za-z0-9_-]{20,255}+")),
    (b"gocspx-", _simple("google-key", _LEFT + rb"GOCSPX-[A-Za-z0-9_-]{16,255}+")),
    (b"ya29.", _simple("google-key", _LEFT + rb"ya29\.[A-Za-z0-9_-]{16,1024}+")),
    (b"npm_", _simple("npm-token", _LEFT + rb"npm_[A-Za-z0-9]{20,255}+")),
    (b"pypi-", _simple("pypi-token", _LEFT + rb"pypi-Ag(?:EIcHlwaS5vcmc)?+[A-Za-z0-9_-]{8,512}+")),
    (b"hf_", _simple("hugging-face-token", _LEFT + rb"hf_[A-Za-z0-9]{20,255}+")),
    (b"gsk_", _simple("groq-key", _LEFT + rb"gsk_[A-Za-z0-9]{20,255}+")),
    (b"xai-", _simple("xai-key", _LEFT + rb"xai-[A-Za-z0-9]{20,255}+")),
    (b"pplx-", _simple("perplexity-key", _LEFT + rb"pplx-[A-Za-z0-9]{20,255}+")),
    (b"r8_", _simple("replicate-token", _LEFT + rb"r8_[A-Za-z0-9]{30,255}+")),
    (b"sg.", _simple("sendgrid-key", _LEFT + rb"SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,128}+")),
    (b"dop_v1_", _simple("digitalocean-token", rb"dop_v1_[a-f0-9]{32,128}+")),
    (b"shpat_", _simple("shopify-token", rb"shpat_[A-Fa-f0-9]{16,128}+")),
    (b"dckr_pat_", _simple("docker-token", rb"dckr_pat_[A-Za-z0-9_-]{16,128}+")),
    (b"hvs.", _simple("vault-token", _LEFT + rb"hvs\.[A-Za-z0-9_-]{20,255}+")),
    (b"age-secret-key-", _simple("private-key", rb"(?i)age-secret-key-1[0-9a-z]{40,90}+")),
    (b"lsv2_", _simple("langsmith-key", _LEFT + rb"lsv2_(?:pt|sk)_[A-Za-z0-9_]{16,128}+")),
    (b"sbp_", _simple("supabase-token", _LEFT + rb"sbp_[a-f0-9]{32,64}+")),
    (b"tskey-", _simple("tailscale-key", rb"tskey-[a-z]{2,10}-[A-Za-z0-9-]{12,128}+")),
    (b"atatt3", _simple("atlassian-token", _LEFT + rb"ATATT3[A-Za-z0-9_=-]{40,512}+")),
    (b"lin_api_", _simple("linear-key", _LEFT + rb"lin_api_[A-Za-z0-9]{20,128}+")),
    (b"sntrys_", _simple("sentry-token", rb"sntrys_[A-Za-z0-9_=+/-]{20,512}+")),
    (b"accountkey=", _simple("azure-key", rb"(?i)accountkey=(?P<s>[A-Za-z0-9+/]{40,128}+={0,2})")),
    (b"putty-user-key", _simple("private-key", rb"(?i)putty-user-key-file-[0-9]: (?P<s>[a-z0-9-]{4,40})", _any)),
    (b"eyj", _simple("jwt", _LEFT + _JWT, _token_of_json)),
    (b"bearer", _simple("bearer-token", rb"(?i:bearer)(?:[ \t]{1,4}+|%20|\+)(?P<s>[A-Za-z0-9._~+/=-]{6,4096}+)", _bearer)),
    (b"basic", _simple("basic-credentials", rb"(?i:basic)[ \t]{1,4}+(?P<s>[A-Za-z0-9+/]{6,1024}+={0,2})", _pair)),
    (b"-----begin ", _pem),
    (b'"kty"', _web_key),
    (b'"auth"', _simple("basic-credentials", rb"(?i)\"auth\"\s{0,4}:\s{0,4}\"(?P<s>[A-Za-z0-9+/]{6,1024}+={0,2})\"", _pair)),
    (b"x-amz-signature=", _simple("signed-address", rb"(?i)x-amz-signature=(?P<s>[0-9a-f]{32,128}+)")),
    (b"&sig=", _simple("signed-address", rb"(?i)&sig=(?P<s>[A-Za-z0-9%+/]{30,128}+)")),
    (b":aa", _simple("telegram-token", rb"(?<=[0-9]{8}):(?P<s>AA[A-Za-z0-9_-]{30,40}+)")),
    *((trigger, _simple(kind, pattern)) for trigger, kind, pattern in MORE),
    *(
        (b"-" + name, _simple("password-option", rb"(?i)-[a-z-]{4,10}[ \t]{1,4}+[\"']?(?P<s>[^\s\"'<>|;&]{8,200}+)", _random))
        for name in (b"password ", b"passwd ", b"token ", b"secret ", b"api-key ", b"api-token ")
    ),
    (b"sshpass ", _simple("password-option", rb"(?i)sshpass[ \t]{1,4}+-p[ \t]{0,4}+[\"']?(?P<s>(?![$%<])[^\s\"'<>|;&]{4,200}+)")),
    (b"define(", _simple("password", _DEFINED, lambda value: _password(value, quoted=True, equals=True, alone=True))),
    (b"login", _netrc),
    *((name, _simple("cookie", _JAR, _random)) for name in (b"true\t/", b"false\t/")),
    (b":5432:", _simple("password", rb":5432:[^:\s]{1,63}+:[^:\s]{1,63}+:(?P<s>[^:\s\"'<$]{4,256}+)(?=\s|\Z)", _whole)),
    *((name, _element) for name in (b"pass", b"secret", b"token", b"credential")),
    *((name, _header) for name in (b"authorization", b"x-api-key", b"x-auth-token", b"x-goog-api-key", b"x-amz-security-token")),
    (b"cookie", _cookie),
    (b"curl", _curl),
    *((name, lambda data, at: _assigned(data, at, password=True)) for name in (b"pass", b"pwd")),
    *((name, lambda data, at: _assigned(data, at, password=False)) for name in (b"secret", b"token", b"key", b"credential")),
)  # fmt: skip  # a table, one shape a line

_FREQUENT = b" etaoinsrhldcumfpgwybvk.-/xjqz_"
"""Letters as they are in prose and code, the most frequent first."""


def _rarest(trigger: bytes) -> int:
    return max(
        range(len(trigger)), key=lambda i: _FREQUENT.find(trigger[i : i + 1]) if trigger[i : i + 1] in _FREQUENT else 20
    )


# Behind a name there has to be what sets it; a look at that in the one pass spares most of the tries.
_SETS = rb"[a-z_-]{0,16}[\\\"'`\]]{0,6}[ \t]{0,4}(?:[:=|>]|is[ \t]|was[ \t]|[,\r\n]\s{0,40}[\\\"']{0,4}value)"
_AHEAD = dict.fromkeys((b"pass", b"pwd", b"secret", b"token", b"key", b"credential"), _SETS)


class _Quick:
    """All triggers in one expression, built when the first file is looked at; each alternative begins with a rare letter.

    It consumes that letter alone, so that triggers which overlap are all found; one inside another is tried with it.
    """

    def __init__(self) -> None:
        by_trigger: dict[bytes, list[Finder]] = {}
        for trigger, finder in _TABLE:
            by_trigger.setdefault(trigger, []).append(finder)
        rarest = {trigger: _rarest(trigger) for trigger in by_trigger}
        longest_first = sorted(by_trigger, key=lambda one: (one[rarest[one] :][:1], -len(one)))
        self.finders: list[list[tuple[int, Finder]]] = []
        branches = []
        for letter, group in groupby(longest_first, key=lambda one: one[rarest[one] :][:1]):
            members = list(group)
            inner = []
            for trigger in members:
                at = rarest[trigger]
                back = b"(?<=%s)" % re.escape(trigger[: at + 1]) if at else b""
                ahead = b"(?=%s)" % (re.escape(trigger[at + 1 :]) + _AHEAD.get(trigger, b""))
                inner.append(back + ahead + b"()")
                self.finders.append(
                    [
                        (rarest[other], finder)
                        for other in members
                        if at >= rarest[other] and trigger[at - rarest[other] :].startswith(other)
                        for finder in by_trigger[other]
                    ]
                )
            branches.append(re.escape(letter) + b"(?:" + b"|".join(inner) + b")")
        self.pattern = re.compile(b"|".join(branches))


_quick: list[_Quick] = []
_TRIGGERS = tuple({trigger for trigger, _ in _TABLE})
_SHORT_BYTES = 4_096
"""To look for each trigger in as much takes less than the building of one expression of them all."""


def find(data: bytes) -> Iterator[Found]:
    """Yield every secret in plain bytes. A value may be told twice, by its shape and by the name before it."""
    low = data.lower()
    if _quick or len(low) > _SHORT_BYTES or any(trigger in low for trigger in _TRIGGERS):
        if not _quick:
            _quick.append(_Quick())
        quick = _quick[0]
        for match in quick.pattern.finditer(low):
            for at, finder in quick.finders[(match.lastindex or 1) - 1]:
                yield from finder(data, match.start() - at)
    at = data.find(b"@")
    while at >= 0:
        yield from _with_password(data, at)
        at = data.find(b"@", at + 1)
