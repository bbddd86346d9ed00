"""What a name looks like to a person: letters of other scripts, width, case and signs set aside."""

import unicodedata

__all__ = ["ALIKE", "look"]

# Letters of other scripts that are drawn as ASCII ones, in any common typeface. Not all of Unicode's list: what people use.
_PAIRS = (
    ("аеорсухіјѕһԁԛԝьвнкмтгӏԍіѵ", "aeopcyxijshdqwbbhkmtrlgiv"),
    ("αορνικτυχεϲϳηγρω", "aopviktyxecjnypw"),
    ("աոսօցհյզ", "wnuoghjq"),
    ("ıɑɡɩʟɪℓ", "iagilil"),
    ("АВЕКМНОРСТУХІЈЅ", "abekmhopctyxijs"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "abezhikmnoptyx"),
    ("ՕՍ", "ou"),
)
ALIKE = {foreign: plain for row in _PAIRS for foreign, plain in zip(*row, strict=True)}


def look(name: str) -> str:
    """Give what a name looks like; two that look the same are one by rule 3."""
    plain = unicodedata.normalize("NFKD", name)
    plain = "".join(char for char in plain if unicodedata.category(char) not in ("Cf", "Mn", "Cc"))
    plain = "".join(ALIKE.get(char, char) for char in plain).casefold()
    plain = "".join(ALIKE.get(char, char) for char in plain)
    return plain.replace("0", "o").replace("1", "l").replace("-", "_").replace(".", "_").strip()
