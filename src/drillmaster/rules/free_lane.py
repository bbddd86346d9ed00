"""Whether a name is a person's, or that of a free lane, a model, a bot, or of a machine that may go away.

1. A free lane is named by one of four words: free-lane, free-model, free-server, chat-draft. How it is spelled changes
   nothing: case, spaces, dots, dashes or none between its parts, capitals inside, digits for letters, letters of another
   script that look the same, marks above letters, characters that cannot be seen.
2. A word is a word: `jeffree-lane`, `freelancer` and `freebsd` hold `free` and name no free lane.
3. A person is written `human:NAME`. A name has a letter in it, no character that cannot be seen, stands in no free lane,
   and is no model's, no bot's, no program's, and no placeholder. No word of it mixes
   scripts that look alike. It is one person's: nothing parts it in two.
4. Some people are called Claude. That word alone, or with what models are called by, is the model's; with a surname it is
   a person's. A roster, where there is one, is asked besides.
5. A controller's runtime is free where `free` stands alone in it or with what hosts are called by (`free-tier`, `freebox`),
   and is not to be relied on where it says of itself that it is for trying, is lent, or goes away (`scratch`, `spot`).
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

__all__ = ["HUMAN", "HUMAN_PINNED", "free_lane", "human", "pinned_spec", "shaky_runtime"]

HUMAN = "human:"
HUMAN_PINNED = "human-pinned:"

# Letters of other scripts that are drawn like Latin ones; what compatibility forms (fullwidth, mathematical) stand for is
# known to Unicode itself.
_ALIKE = str.maketrans(
    "абвгдезикмнопрстухѕіјһԁԛԝьӏ" + "αβεικνορτυχωηγ" + "օոսցհաե" + "ıɑɡɩʟʀᴇꜰᴍᴏᴅ",
    "a6brde3ukmhonpctyxsijhdqwbl" + "abeikvoptuxwny" + "onughae" + "iagilrefmod",
)
_ALIKE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})
_DIGITS = str.maketrans("01345$@|!", "oleassali")
_MARKERS = (("free", "lane"), ("free", "model"), ("free", "server"), ("chat", "draft"))

_BRANDS = frozenset(
    {
        *(
            "gpt",
            "chatgpt",
            "copilot",
            "codex",
            "gemini",
            "llama",
            "mixtral",
            "qwen",
            "deepseek",
            "grok",
            "glm",
            "sonnet",
        ),
        *(
            "opus",
            "haiku",
            "openai",
            "anthropic",
            "perplexity",
            "cursor",
            "windsurf",
            "monkeycode",
            "dependabot",
            "renovate",
        ),
    }
)
_ROLES = frozenset(
    {
        *("llm", "vlm", "model", "chatbot", "bot", "robot", "agent", "assistant", "autopilot", "automation", "cron"),
        *("daemon", "ai"),
    }
)
_MODEL_ID = re.compile(
    r"(?:(?:chat)?gpt|claude|gemini|gemma|llama|mistral|mixtral|qwen|deepseek|grok|kimi|glm|phi|palm|nova|sonnet|opus"
    r"|haiku)[0-9][0-9a-z.]*|o[134](?:mini|pro|preview)?|[0-9]{2,3}b"
)
_ALONE_A_MODEL = frozenset({"claude", "mistral"})
_ALSO_PEOPLE = frozenset({*_ALONE_A_MODEL, "gemma", "kimi", "phi", "palm", "nova", "command", "devin"})
_WITH_MODELS = frozenset(
    {
        *(
            "code",
            "desktop",
            "cli",
            "instant",
            "nano",
            "mini",
            "small",
            "medium",
            "large",
            "pro",
            "max",
            "flash",
            "turbo",
        ),
        *("latest", "preview", "beta", "free", "lane", "api", "ai", "nemo", "plus", "r", "it", "chat"),
    }
)
_VERSION = re.compile(r"[a-z]?[0-9][0-9a-z]*")
_BOTS = frozenset(
    {
        *(
            "agent",
            "ai",
            "alert",
            "auto",
            "build",
            "cd",
            "chat",
            "ci",
            "code",
            "cutover",
            "deploy",
            "dev",
            "free",
            "git",
        ),
        *("gpt", "help", "lane", "llm", "merge", "model", "my", "oncall", "ops", "page", "pager", "plan", "release"),
        *("review", "ro", "ship", "slack", "sre", "support", "test", "the", "work"),
    }
)
_NOBODY = frozenset(
    {
        *(
            "tbd",
            "tba",
            "todo",
            "fixme",
            "xxx",
            "none",
            "null",
            "nil",
            "undefined",
            "unknown",
            "anonymous",
            "nobody",
            "noone",
        ),
        *(
            "someone",
            "somebody",
            "anyone",
            "anybody",
            "everyone",
            "everybody",
            "whoever",
            "placeholder",
            "name",
            "owner",
        ),
        *(
            "human",
            "person",
            "user",
            "admin",
            "root",
            "me",
            "you",
            "us",
            "na",
            "example",
            "test",
            "true",
            "false",
            "default",
        ),
        *("any", "all", "auto", "system", "self", "free", "the", "your", "here"),
    }
)
_PROGRAMS = frozenset(
    (
        "ci",
        "cd",
        "cicd",
        "pipeline",
        "jenkins",
        "buildkite",
        "workflow",
        "actions",
        "scheduler",
        "script",
        "webhook",
        "runner",
    )
)
_PARTS_NAMES = ":;|&"
_HOSTS = frozenset(
    {
        *(
            "tier",
            "plan",
            "trial",
            "host",
            "hosting",
            "hosted",
            "box",
            "runner",
            "runtime",
            "vm",
            "vps",
            "node",
            "instance",
        ),
        *(
            "dyno",
            "space",
            "quota",
            "credit",
            "credits",
            "account",
            "cloud",
            "lane",
            "model",
            "server",
            "shared",
            "pool",
        ),
        *("container", "machine", "worker", "forever", "api", "endpoint"),
    }
)
_SHAKY = frozenset(
    {
        *(
            "scratch",
            "sandbox",
            "playground",
            "spot",
            "preemptible",
            "preemptable",
            "ephemeral",
            "hobby",
            "trial",
            "gratis",
        ),
        *(
            "laptop",
            "macbook",
            "notebook",
            "colab",
            "kaggle",
            "codespace",
            "codespaces",
            "demo",
            "throwaway",
            "toy",
            "temp",
        ),
        *("replit", "glitch", "stackblitz", "gitpod", "devbox"),
        *("tmp", "temporary", "unpinned", "localhost", "sleeping", "unmanaged", "unowned", "borrowed"),
    }
)


def free_lane(text: str) -> bool:
    """Whether a text names a free lane (rules 1 and 2)."""
    for words in _spellings(text):
        if any(word.startswith(first + second) for word in words for first, second in _MARKERS):
            return True
        if any(
            one == first and other.startswith(second) for one, other in pairwise(words) for first, second in _MARKERS
        ):
            return True
    return False


def human(text: str | None) -> tuple[str, str]:
    """Read `human:NAME`: the name and "", or "" and what is wrong with it (rules 3 and 4)."""
    return _behind(text, HUMAN, "a name", _no_person)


def pinned_spec(text: str | None) -> tuple[str, str]:
    """Read `human-pinned:SPEC`: the specification's name and "", or "" and what is wrong with it."""
    return _behind(text, HUMAN_PINNED, "the name of a specification", _no_spec)


def shaky_runtime(text: str | None) -> str:
    """Say why a controller must not run there (rule 5); "" where nothing speaks against it."""
    if text is None or not text.strip():
        return "no runtime is named"
    wrong = _no_word(text)
    if wrong:
        return wrong
    for words in _spellings(text):
        if _says_free(words):
            return "it says of itself that it is free"
        for word in words:
            if _stem(word) in _SHAKY:
                return f"{word}: a runtime that is for trying, or that goes away without notice"
    # Not where only a capital parts it from the rest: FreeBSD.
    if any("free" in (word, _stem(word)) for digits in (False, True) for word in _words(text, digits=digits)):
        return "it says of itself that it is free"
    return ""


def _says_free(words: list[str]) -> bool:
    joined = any(word.startswith("free") and _stem(word.removeprefix("free")) in _HOSTS for word in words)
    return joined or any(one == "free" and other in _HOSTS for one, other in pairwise(words))


def _behind(text: str | None, prefix: str, what: str, wrong_with: Callable[[str], str]) -> tuple[str, str]:
    if text is None:
        return "", "nothing is named"
    if not text.startswith(prefix):
        return "", f"wanted {prefix} and {what}"
    name = text.removeprefix(prefix).strip(" ")
    wrong = wrong_with(name) if name else "nothing behind the colon"
    return ("", wrong) if wrong else (name, "")


def _no_person(name: str) -> str:
    wrong = _no_word(name)
    if wrong:
        return wrong
    if any(c in unicodedata.normalize("NFKC", name) for c in _PARTS_NAMES):
        return "more than one name"
    if any(len({_script(c) for c in word if c.isalpha()} & _ALIKE_SCRIPTS) > 1 for word in re.split(r"[\W_]+", name)):
        return "letters of two scripts in one word, which read as another name"
    for words in _spellings(name):
        if all(_stem(word) in {"", *_PROGRAMS} for word in words):
            return "a program"
        if any(one == "free" and other in _HOSTS for one, other in pairwise(words)):
            return "a free lane"
        models = [word for word in words if word in _BRANDS | _ROLES or _MODEL_ID.fullmatch(word)]
        if models and (models != ["ai"] or len(words) == 1):  # Ai Nguyen is somebody
            return "a model or a bot"
        if any(word.endswith("bot") and word.removesuffix("bot") in _BOTS for word in words):  # Chabot is a surname
            return "a model or a bot"
        if _called_like_a_model(words):
            return "a model or a bot"
    return ""


def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def _no_spec(name: str) -> str:
    wrong = _no_word(name)
    if wrong:
        return wrong
    for words in _spellings(name):
        if any(word in _BRANDS or _MODEL_ID.fullmatch(word) for word in words) or _called_like_a_model(words):
            return "a model's"
    return ""


def _called_like_a_model(words: list[str]) -> bool:
    """Rule 4. `claude`, `claude-3`, `mistral large`; not `claude.dupont`, `gabriela.mistral`, and not `gemma` alone."""
    first, *rest = words
    if first not in _ALSO_PEOPLE:
        return False
    if not rest:
        return first in _ALONE_A_MODEL
    return all(_VERSION.fullmatch(word) or word in _WITH_MODELS for word in rest)


def _no_word(name: str) -> str:
    """What no name can be, whoever's it is."""
    unseen = _unseen(name)
    if unseen:
        return unseen
    if free_lane(name):
        return "a free lane"
    words = _words(name)
    if not any(c.isalpha() for word in words for c in word):
        return "no letter in it"
    if all(_stem(word) in {"", *_NOBODY} for word in words) or "".join(words) in _NOBODY or name.startswith("<"):
        return "a placeholder"
    return ""


def _stem(word: str) -> str:
    return word.rstrip("0123456789")


def _spellings(text: str) -> Iterator[list[str]]:
    """The words of a text, as they stand and as they may be meant: capitals apart or not, digits read as letters."""
    for capitals in (False, True):
        for digits in (False, True):
            words = _words(text, capitals=capitals, digits=digits)
            if words:
                yield words


def _unseen(text: str) -> str:
    """Rule 3: text in which something cannot be seen is not the text that people read."""
    hidden = next((c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")), None)
    return f"a character that cannot be seen (U+{ord(hidden):04X})" if hidden else ""


def _words(text: str, *, capitals: bool = False, digits: bool = False) -> list[str]:
    """Give one spelling for all that look the same (small Latin letters, no marks), split at whatever is no letter or digit.

    Single letters in a row are one word. `capitals` begins a new word at each that follows a small letter (FreeLane).
    """
    plain = unicodedata.normalize("NFKC", text)
    if capitals:
        plain = re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z])", " ", plain)
    flat = unicodedata.normalize("NFKD", plain.casefold())
    seen = "".join(c for c in flat if unicodedata.category(c) not in ("Mn", "Me", "Cf", "Cc")).translate(_ALIKE)
    joined: list[str] = []
    alone = False
    for word in re.split(r"[\W_]+", seen.translate(_DIGITS) if digits else seen):
        if not word:
            continue
        if len(word) == 1 and alone:
            joined[-1] += word
        else:
            joined.append(word)
        alone = len(word) == 1
    return joined
