"""The law of a tool's name and of the words about it, which a model reads and a person approves.

1. A name is 1 to 128 characters: ASCII letters, digits, `_ - . / :`, as the specification of MCP advises. One whole in another
   script is a name too, where no part of it can be taken for ASCII.
   It begins with a letter, a digit or `_`, leads through no folder (`..`, `//`), and is none of JavaScript's own.
2. A name holds nothing that cannot be seen, no space, no control, and is in Unicode normal form C. Two scripts in one name
   are refused, and so is a name of another script that reads as an ASCII one.
3. Two names that look the same are one name: case, lookalike letters, `_` beside `-`, 0 beside o and 1 beside l are set aside.
4. Words hold no character that a person does not see and a model reads: tag characters (but for flags), terminal
   sequences, bidirectional overrides, runs of variation selectors, zero-width characters that join no letters and no emoji.
5. Words that speak to the model behind the person's back (a pseudo tag such as `<IMPORTANT>`, an order to drop earlier
   orders, an order to keep something from the user) are named. A plain "IMPORTANT:" tells nobody to hide anything.
"""

import re
import unicodedata
from collections.abc import Iterator

import msgspec

from drillmaster.rules._looks import ALIKE, look

__all__ = ["Fault", "hidden", "instructs", "look", "name_faults", "words_of"]

MAX_NAME = 128
MAX_NODES = 20_000
"""Of one descriptor, whose words are gathered."""


class Fault(msgspec.Struct, frozen=True):
    """What is wrong, as an id, and what was found, printable."""

    kind: str
    found: str


_PLAIN = re.compile(r"[A-Za-z0-9_.:/-]+")
_TAGS = range(0xE0000, 0xE0080)
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ZERO = frozenset(
    "\u200b\u2060\u2061\u2062\u2063\u2064\ufeff\u180e\u00ad\u034f\u115f\u1160\u3164\uffa0"
    "\u206a\u206b\u206c\u206d\u206e\u206f\ufff9\ufffa\ufffb"
)
_JOINERS = frozenset("\u200c\u200d")
_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]{1,10}\U000e007f"
_SELECTORS = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
_ANSI = "\x1b[\\[\\]()#;?PX^_a-zA-Z]|\x9b"

# Patterns are compiled where they are first needed: most lists hold no text that gets so far, and a hook waits for its start.
_PSEUDO_TAG = (
    r"(?i)</?\s*(important|system|secret|hidden|assistant|admin|developer|sys|inst|override)\s*/?>"
    r"|\[/?(inst|system)\]|<\|\s*(im_start|im_end|system|assistant|endoftext)\b"
)
_NEAR = r"\b[^.\n]{0,30}\b"
_PERSON = r"(the )?(user|human|person|operator|developer)s?\b(?! (interface|id|name|account|agent|table)|'s|_|-)"
_ORDERS = tuple(
    rf"(?i)\b{_NEAR.join(parts)}"
    for parts in (
        (
            r"(ignore|disregard|forget|override|bypass)",
            r"(previous|prior|above|earlier|preceding|all|other|any|system|safety)",
            r"(instructions?|prompts?|rules|messages|guidelines|directives|commands)\b",
        ),
        (
            r"(do not|don'?t|never|must not|without)",
            r"(tell|telling|mention|mentioning|inform|informing|reveal|revealing|show|showing|notify|notifying|alert|alerting"
            r"|disclose|disclosing)",
            _PERSON,
        ),
        (
            r"(before|prior to|after|when|instead of)",
            r"(using|calling|running|invoking|use|call|run|invoke|other|any)",
            r"(read|send|open|cat|upload|post|forward|include|pass|append)\b[^.\n]{0,40}(~/|/etc/|\.ssh|\.env\b|id_rsa"
            r"|mcp\.json|credential|secret|private key|api[ _-]?key|access[ _-]?token)",
        ),
        (r"(keep|hide)", r"(secret|hidden|from)", _PERSON),
    )
)


def name_faults(name: object) -> tuple[Fault, ...]:
    """Say what is wrong with a tool's name by rules 1 and 2; nothing: it is one."""
    if name is None:
        return (Fault("name-missing", "no name"),)
    if not isinstance(name, str):
        return (Fault("name-missing", f"a name that is {_kind(name)}, not text"),)
    if not name.strip():
        return (Fault("name-missing", "an empty name"),)
    found = list(_of_name(name))
    return tuple(found)


def _of_name(name: str) -> Iterator[Fault]:
    shown = _printable(name)
    if len(name) > MAX_NAME:
        yield Fault("name-long", f"{shown}, {len(name)} characters")
    if name[0] in "-./:" or name[-1] in "./:" or ".." in name or "//" in name:
        yield Fault("name-sign", f"{shown}, which reads as a path or an option")
    if name in ("__proto__", "constructor", "prototype"):
        yield Fault("name-sign", f"{shown}, which every object of JavaScript has")
    if _PLAIN.fullmatch(name):
        return
    if any(ord(char) in _TAGS for char in name):
        yield Fault("name-hidden", f"tag characters in {shown}")
    elif re.search(_ANSI, name):
        yield Fault("name-hidden", f"a terminal sequence in {shown}")
    elif any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn") for char in name):
        yield Fault("name-hidden", f"a character that cannot be seen in {shown}")
    if any(char.isspace() for char in name):
        yield Fault("name-space", f"a space in {shown}")
    if not unicodedata.is_normalized("NFC", name):
        yield Fault("name-form", f"{shown}, in another Unicode form than NFC")
    elif unicodedata.normalize("NFKC", name) != name:
        yield Fault("name-form", f"{shown}, with letters of another width or style")
    letters = [char for char in name if char.isalpha()]
    scripts = {_script(char) for char in letters}
    scripts -= {"HIRAGANA", "KATAKANA", "CJK", "BOPOMOFO", "HANGUL"} if len(scripts - _EAST) == 0 else set()
    if len(scripts) > 1:
        yield Fault("name-lookalike", f"{' beside '.join(sorted(scripts)).lower()} letters in {shown}")
    elif any(char in ALIKE for char in letters) and look(name).isascii():  # an accent is seen: é is no e
        yield Fault("name-lookalike", f"{shown}, which reads as {_printable(look(name))}")
    rest = [
        char for char in name if not (char.isalnum() or char in "_-./:" or unicodedata.category(char) in ("Mn", "Mc"))
    ]
    if any(char.isprintable() and not char.isspace() for char in rest):
        yield Fault("name-sign", f"{next(c for c in rest if c.isprintable() and not c.isspace())} in {shown}")


_EAST = frozenset({"HIRAGANA", "KATAKANA", "CJK", "BOPOMOFO", "HANGUL"})


def hidden(text: str) -> tuple[Fault, ...]:
    """Name the characters of rule 4 in a text; each kind once."""
    if text.isascii() and text.isprintable():
        return ()
    found = []
    rest = re.sub(_FLAG, "", text)
    if any(ord(char) in _TAGS for char in rest):
        said = "".join(chr(ord(char) - 0xE0000) for char in rest if 0xE0020 <= ord(char) < 0xE007F)
        found.append(
            Fault("tag-characters", f"tag characters that spell {_printable(said)}" if said else "tag characters")
        )
    if re.search(_ANSI, text):
        found.append(Fault("terminal", "a terminal sequence"))
    elif any(unicodedata.category(char) == "Cc" and char not in "\t\n\r" for char in text):
        found.append(Fault("control", "a control character"))
    if any(char in _BIDI for char in text):
        found.append(Fault("bidirectional", "a mark that turns the direction of text around"))
    if re.search(_SELECTORS, text):
        found.append(Fault("selectors", "a run of variation selectors, which can spell anything"))
    if any(char in _ZERO for char in text) or _idle_joiner(text):
        found.append(Fault("zero-width", "characters without width"))
    if any(unicodedata.category(char) in ("Cs", "Co") for char in text):
        found.append(Fault("private", "a character that means nothing to anybody else"))
    return tuple(found)


def _idle_joiner(text: str) -> bool:
    """Whether a joiner stands where it joins nothing: at an edge, beside ASCII, or beside another."""
    for at, char in enumerate(text):
        if char in _JOINERS:
            before, after = text[at - 1] if at else " ", text[at + 1] if at + 1 < len(text) else " "
            if before.isascii() or before in _JOINERS or after in _JOINERS:
                return True
            if after.isascii() and char == "\u200d":  # its sibling may end a word, as Persian has it
                return True
    return False


def instructs(text: str) -> tuple[Fault, ...]:
    """Name what in a text speaks to the model behind the person's back: rule 5."""
    flat = text
    if not text.isascii():
        flat = unicodedata.normalize("NFKC", text)
        flat = "".join(char for char in flat if char not in _ZERO and char not in _JOINERS)
    found = []
    tag = re.search(_PSEUDO_TAG, flat) if "<" in flat or "[" in flat else None
    if tag:
        found.append(Fault("pseudo-tag", _printable(tag[0])))
    for order in _ORDERS if " " in flat.strip() else ():
        said = re.search(order, flat)
        if said:
            found.append(Fault("order", _printable(said[0])))
    return tuple(found)


def words_of(value: object) -> Iterator[tuple[str, str]]:
    """Give each text of a descriptor, names of properties among them, with its JSON pointer. Bounded by MAX_NODES."""
    waiting: list[tuple[str, object]] = [("", value)]
    for _ in range(MAX_NODES):
        if not waiting:
            return
        where, one = waiting.pop()
        if isinstance(one, str):
            yield where, one
        elif isinstance(one, dict):
            for name, inner in reversed(one.items()):
                step = f"{where}/{str(name).replace('~', '~0').replace('/', '~1')}"
                waiting.append((step, inner))
                waiting.append((step, str(name)))
        elif isinstance(one, list | tuple):
            waiting.extend((f"{where}/{at}", inner) for at, inner in reversed(list(enumerate(one))))
    if waiting:
        yield "", "\U000e0001"  # too much to be read is as good as hidden


def _script(char: str) -> str:
    return unicodedata.name(char, "UNKNOWN").split()[0].partition("-")[0]


def _printable(text: str) -> str:
    shown = "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in text[:80]
    )
    return '"' + (shown if len(shown) <= 60 else shown[:59] + "…") + '"'


def _kind(value: object) -> str:
    return {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(
        type(value), "no text"
    )
