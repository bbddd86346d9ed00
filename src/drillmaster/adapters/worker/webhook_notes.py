"""What a model may see of an event, and what of its answer may be kept.

1. A copy is made of the fields that were pinned, each by its JSON pointer, and of nothing else. Texts in it are screened for
   secrets and personal data, also behind encodings, and cut. A field that is not there is left out.
2. An answer is a note when it is an object of exactly two fields: a headline of 1 to 120 code points and a risk of three. A
   headline is one line of visible text in normal form C, without marks that turn its direction, without words of two alphabets
   that look alike, and without anything that screening would take out.
3. What is no note is dropped, and why is told by one word of a closed set. Nothing is asked again.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from drillmaster.rules.secrets import look
from drillmaster.screen import MARK, screen_text, screen_value
from drillmaster.stores.inbox import Noted
from drillmaster.strict import Malformed, strict_json

__all__ = ["MOST_HEADLINE", "checked_note", "redacted"]

MOST_HEADLINE = 120
"""Code points."""
_MOST_CHARS = 500
_MOST_ITEMS = 50
_MOST_DEPTH = 6
_MOST_ANSWER_BYTES = 4_096
_RISKS = ("low", "medium", "high")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters, marks and a symbol that show nothing: fillers, joiners, selectors of a variant. In the last, anything can be hidden.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
    "|(?<![\u00a9\u00ae\u2000-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
_LETTERS = re.compile(r"[^\W\d]+")
_LIKE_LATIN = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")


def redacted(document: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Write the copy that a model may see, as JSON: the pinned fields by their pointers, screened."""
    copy: dict[str, Any] = {}
    for pointer in fields:
        found: Any = document
        for name in pointer.removeprefix("/").split("/"):
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if found is not None:
            copy[pointer] = _screened(found, _MOST_DEPTH)
    return screen_text(msgspec.json.encode(copy).decode())


def _screened(value: Any, depth: int) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value
        case str():
            return MARK if _telling(value) else screen_value(value, _MOST_CHARS)
        case _ if depth == 0:
            return MARK
        case Mapping():
            return {
                screen_value(str(name), 100): _screened_under(name, value[name], depth)
                for name in list(value)[:_MOST_ITEMS]
            }
        case _:
            return [_screened(one, depth - 1) for one in value[:_MOST_ITEMS]]


def _screened_under(name: str, value: Any, depth: int) -> Any:
    """Screen a value by the name it stands under too: `password` hides whatever follows."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        line = f'"{name}": "{value}"'
        if screen_text(line) != line:
            return MARK
    return _screened(value, depth - 1)


def _telling(text: str) -> bool:
    """Whether a text holds a secret, or what belongs to a person, in any reading; or cannot be read."""
    looked = look(text.encode("utf-8", "replace"), max_unpacked_bytes=1 << 20)
    return bool(looked.hits or looked.unread)


def checked_note(said: object) -> Noted | str:
    """Hold what a model said against the schema (rule 2); the word of why it is dropped where it is no note.

    `said` is the decoded object, or the JSON text or bytes of one.
    """
    if isinstance(said, str | bytes):
        raw = said.encode("utf-8", "surrogatepass") if isinstance(said, str) else said
        if len(raw) > _MOST_ANSWER_BYTES:
            return "too-long"
        try:
            said = strict_json(raw)
        except Malformed:
            return "not-json"
    if type(said) is not dict or said.keys() != {"headline", "risk"}:
        return "other-fields"
    headline, risk = said["headline"], said["risk"]
    if type(risk) is not str or risk not in _RISKS:
        return "other-risk"
    if type(headline) is not str or not headline.strip():
        return "no-headline"
    if len(headline) > MOST_HEADLINE:
        return "too-long"
    if any(unicodedata.category(char) in _HIDDEN for char in headline) or _BLANK.search(headline):
        return "hidden-characters"
    if unicodedata.normalize("NFC", headline) != headline:
        return "not-normal"
    if any(_two_alphabets(word) for word in _LETTERS.findall(headline)):
        return "look-alikes"
    if screen_text(headline) != headline or _telling(headline):
        return "secret"
    return Noted(headline=headline, risk=risk)  # type: ignore[arg-type]  # it is one of the three


def _two_alphabets(word: str) -> bool:
    """Whether a word has Latin letters, and such of an alphabet that has others of the same shape."""
    names = [unicodedata.name(char, "").partition(" ")[0] for char in word]
    return "LATIN" in names and any(name in _LIKE_LATIN for name in names)
