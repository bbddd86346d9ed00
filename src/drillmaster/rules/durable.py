"""The law of durable state: which files of an agent's working directory a later turn rereads, and who may write them.

1. The class of a file is told from its path alone, as a person would read it: case, spaces, styles of letters, characters without
   width and backslashes make no difference. A variant (`memory.json.bak`, `memory-2.json`, `.memory.json.swp`) has the class of
   what it is a variant of: renaming it back takes one call.
2. Only parts below the workspace's root count. A workspace that lies under `~/.cache` is no cache.
3. Six classes are durable: `memory`, `cache`, `transcript`, `vectors`, `plan`, `identity`; `store` is a binary store of any.
   `control` and `pointer` hold no memory and decide what happens. `draft` is text for people. What fits none is `other`.
4. A lane writes what a table gives it, by class; anything else is denied. A lane that is not in the table, spelled otherwise, empty
   or no text writes nothing, and so does a path that does not say plainly what it is (`unsafe`): a zero, a step upwards.
5. A free lane (a model nobody answers for) never writes memory, cache, transcript, vectors, store, identity, control or pointer,
   whatever a table says. Plans it writes below a temporary folder alone, since nobody rereads those.
6. The path of a write is the one that the operating system will use: resolve links before asking, and ask for the target's new name
   when something is moved.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

__all__ = ["DURABLE", "FREE_LANES", "Class", "Place", "may_write", "place", "seen"]

Class = Literal[
    "memory",
    "cache",
    "transcript",
    "vectors",
    "plan",
    "identity",
    "store",
    "pointer",
    "control",
    "draft",
    "other",
    "unsafe",
]
DURABLE: frozenset[Class] = frozenset({"memory", "cache", "transcript", "vectors", "plan", "identity", "store"})
FREE_LANES = frozenset({"free_lane", "best_effort", "free", "model", "agent"})
_NEVER_FREE: frozenset[Class] = (DURABLE - {"plan"}) | {"control", "pointer", "unsafe", "other"}


class Place(msgspec.Struct, frozen=True):
    """What a path is. `name` is its last part as it was read, without what makes it a variant."""

    kind: Class
    name: str
    ephemeral: bool = False
    """Below a temporary folder."""
    known: bool = False
    """Named as memory by the article's own list."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STEMS: tuple[tuple[Class, frozenset[str]], ...] = (
    ("pointer", frozenset({"memory-pointer"})),
    (
        "memory",
        _words(
            "memory memories scratchpad scratch notes note agent-state state agent-memory long-term-memory "
            "longterm-memory short-term-memory "
            "memory-bank memorybank working-memory recap recaps learnings lessons facts knowledge core-memory "
            "checkpoint checkpoints "
            "context-summary summary-of-session remember reflections reflection diary journal insights blackboard beliefs "
            "episodic"
        ),
    ),
    (
        "transcript",
        _words(
            "session sessions transcript transcripts conversation conversations chat chats chat-history history "
            "messages message-log "
            "trajectory trajectories rollout rollouts trace traces chatlog dialog dialogue"
        ),
    ),
    (
        "cache",
        _words(
            "cache tool-result tool-results tool-cache tool-output tool-outputs tool-calls response-cache prompt-cache"
        ),
    ),
    ("vectors", _words("vectors embeddings embedding vector-store vectorstore vector-index faiss chroma")),
    ("plan", _words("plan plans todo todos next-steps next-step action-plan task-list tasklist")),
    (
        "identity",
        _words(
            "identity identities profile persona soul user whoami about-me about-user user-profile credentials credential accounts "
            "cookies cookie-jar cookiejar storage-state "
            "netrc env npmrc pypirc pgpass git-credentials id-rsa id-ed25519 id-ecdsa id-dsa kubeconfig htpasswd"
        ),
    ),
)
_FOLDERS: tuple[tuple[Class, frozenset[str]], ...] = (
    (
        "control",
        _words(
            ".git .github .gitlab .drillmaster .circleci .claude .cursor .vscode .codex .gemini .husky .devcontainer"
        ),
    ),
    ("identity", _words(".ssh .aws .gnupg .kube .azure .docker")),
    (
        "vectors",
        _words(
            "vectors vector-store vectorstore vectordb vector-db embeddings chroma chromadb chroma-db faiss-index "
            "lancedb qdrant milvus weaviate"
        ),
    ),
    (
        "transcript",
        _words("transcripts transcript sessions session conversations chats rollouts trajectories"),
    ),
    ("cache", _words(".agent .cache cache caches tool-cache tool-results tool-outputs")),
    ("memory", _words("memory memories memory-bank checkpoints .memory scratchpads scratchpad")),
    ("plan", _words("plans plan")),
    ("draft", _words("drafts draft")),
)
_LOGS = frozenset({"logs", "log"})
_CONTROL = _words(
    "tools.allow.json tools.allow mcp.json .mcp.json codeowners .oracle-owners agents.md claude.md gemini.md .cursorrules "
    ".windsurfrules "
    ".gitattributes .gitmodules .pre-commit-config.yaml .bashrc .profile .zshrc makefile allowed-signers roster.yaml "
    "settings.json settings.local.json copilot-instructions.md"
)
_VECTOR_SUFFIXES = _words(
    "faiss index hnsw ann annoy usearch lance npy npz parquet arrow feather vec emb embeddings safetensors"
)
_STORE_SUFFIXES = _words(
    "sqlite sqlite3 sqlitedb db db3 s3db sl3 duckdb lmdb mdb ldb rdb aof kdbx pkl pickle joblib "
    "dill shelve dbm rocksdb realm h5 hdf5"
)
_STORE_TAILS = ("-wal", "-shm", "-journal")
# What is put behind or before a name by editors, tools and people; taken off again and again.
_VARIANT = re.compile(
    r"(?:\.(?:bak|backup|old|orig|original|tmp|temp|swp|swo|swx|part|partial|new|save|saved|copy|lock|lck|crdownload|download|prev|previous|"
    r"disabled|gz|bz2|xz|zst|zip|lz4|enc|gpg|asc|age|sig|\d{1,12}|~\d{1,4}~|rej|dist|example|draft|conflict\w{0,20}|sync-conflict\S{0,60}))\Z"
    r"|~\Z|#\Z",
)
_COUNTED = re.compile(
    r"(?:[-_. ](?:v?\d{1,14}|copy|final|old|new|latest|backup|bak|tmp|temp|\d{4}-\d{2}-\d{2}[t0-9_:.z-]{0,20}"
    r"|[0-9a-f]{6,40}|archive|current|main|draft)"
    r"| ?\(\d{1,3}\)|(?<=[a-z])\d{1,6})\Z"
)
_NO_WIDTH = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
# Letters of other alphabets that nobody tells apart by looking, for names alone.
_LOOK_ALIKE = str.maketrans("аеорсухіјѕһԁԛԝмткнвοαιυ", "aeopcyxijshdqwmtkhboaiu")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TEMPORARY = re.compile(r"(?:/tmp|/var/tmp|/dev/shm|/run/user/\d{1,10}|tmp|\.tmp)\Z")
_PLAIN_SUFFIX = re.compile(r"\.[a-z0-9]{1,10}\Z")


def place(path: object) -> Place:
    """Tell what a path is. Anything that is no text, is empty or does not say plainly where it leads is `unsafe`."""
    if isinstance(path, bytes):
        path = path.decode("utf-8", "surrogateescape")
    if not isinstance(path, str) or not path:
        return Place("unsafe", "")
    text = _plain(path)
    parts = [part.strip(" ") for part in text.split("/")]
    steps = [part.rstrip(". ") if part.strip(". ") else part for part in parts if part not in ("", ".")]
    if not steps or _CONTROLS.search(path) or any(part.strip(" ") == ".." or not part.strip(". ") for part in steps):
        # What it seems to be is still told by the scanner, for which every name is a name.
        return Place("unsafe", steps[-1] if steps else "")
    told = _told(steps, absolute=text.startswith("/"))
    if told.kind == "other":
        # `agentMemory.json` is two words, and `memory.json:more` a stream of the file before the colon. Second, so that
        # no case or colon makes another thing of what was known already.
        plainer = re.sub("(?<=[a-z0-9])(?=[A-Z])", "-", unicodedata.normalize("NFKC", path)).partition(":")[0]
        if plainer != path and plainer.strip("./\\ "):
            again = place(plainer)
            told = again if again.kind not in ("other", "unsafe") else told
    return told


def _plain(path: str) -> str:
    return _NO_WIDTH.sub("", unicodedata.normalize("NFKC", path)).casefold().translate(_LOOK_ALIKE).replace("\\", "/")


def seen(path: str) -> Place:
    """Tell what a file that is there is, by its path below the root: as `place`, where no name is unsafe but only odd."""
    cleaned = _CONTROLS.sub("", path)
    told = place(cleaned) if cleaned else Place("unsafe", "")
    if told.kind != "unsafe":
        return told
    return place("/".join(part.strip(". ") or "dots" for part in cleaned.split("/")))


def _told(steps: list[str], *, absolute: bool) -> Place:
    name = steps[-1]
    folders = [one.replace("_", "-").replace(" ", "-") for one in steps[:-1]]
    before = ("/" if absolute else "") + "/".join(steps[:-1])
    ephemeral = (
        any(_TEMPORARY.match("/".join(before.split("/")[: n + 1])) for n in range(before.count("/") + 1))
        if before
        else False
    )
    core = _core(name)
    stem = _stem(core)
    known = core in {"memory.json", "memory.md", "scratchpad.md", "notes.md", "agent-state.json"}
    kind = _kind(name, core, stem, folders)
    return Place(kind, core, ephemeral, known)


def _core(name: str) -> str:
    """A name without what makes it a variant: `.~lock.memory.json#` and `memory.json.bak.gz` are `memory.json`."""
    core = name.replace("_", "-").replace(" ", "-").strip("-")
    core = re.sub(r"\A(?:\.~lock\.|~\$|\.#|#|copy-of-|backup-of-|\.(?=[^.]{1,60}\.[^.]{1,40}\.sw[opx]\Z))", "", core)
    for _ in range(8):
        shorter = _VARIANT.sub("", core)
        if shorter == core or not shorter:
            break
        core = shorter
    return core.rstrip(".-") or core


def _stem(core: str) -> str:
    stem = core.lstrip(".")
    for _ in range(3):  # memory.json.gz has lost .gz; notes.tar.md has two left
        shorter = _PLAIN_SUFFIX.sub("", stem)
        if shorter == stem or not shorter:
            break
        stem = shorter
    for _ in range(4):
        shorter = _COUNTED.sub("", stem)
        if shorter == stem or not shorter:
            break
        stem = shorter
    return stem.strip("-. ")


def _kind(name: str, core: str, stem: str, folders: list[str]) -> Class:
    if stem == "memory-pointer" or core.startswith("memory-pointer"):
        return "pointer"
    if (
        any(folder in names for kind, names in _FOLDERS[:1] for folder in folders)
        or core in _CONTROL
        or name in _CONTROL
    ):
        return "control"
    low = name.replace("_", "-")
    suffixes = core.split(".")[1:] + low.split(".")[1:]
    bare = {suffix.removesuffix(tail) for suffix in suffixes for tail in ("", *_STORE_TAILS)}
    if bare & _VECTOR_SUFFIXES:
        return "vectors"
    if bare & _STORE_SUFFIXES:
        return "store"
    for kind, stems in _STEMS:
        if stem in stems:
            return kind
    if core.startswith(".env") or core in {".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials"}:
        return "identity"
    for kind, names in _FOLDERS[1:]:
        if any(folder in names for folder in folders):
            return kind
    if any(folder in _LOGS for folder in folders):
        return "transcript"
    # A word among others: agent_memory_v2_prod.json, session-log-of-monday.jsonl.
    words = stem.split("-")
    for kind, stems in _STEMS[1:]:
        if (
            kind in ("memory", "transcript", "plan")
            and words[0] in stems | {"agent"}
            and (words[0] in stems or set(words) & stems)
        ):
            return kind
    if {"memory", "scratchpad", "transcript", "transcripts"} & set(words):
        return "memory" if {"memory", "scratchpad"} & set(words) else "transcript"
    return "other"


def may_write(lane: object, path: object, grants: Mapping[str, frozenset[Class]]) -> bool:
    """Whether a lane may open this path for writing. `grants`: which classes each lane writes; what it does not say is denied."""
    if not isinstance(lane, str) or lane not in grants:
        return False
    where = place(path)
    if where.kind == "unsafe" or where.kind not in grants[lane] or where.kind not in get_args(Class):
        return False
    plain = unicodedata.normalize("NFKC", lane).casefold().strip().replace("-", "_").replace(" ", "_")
    if plain in FREE_LANES:
        return where.kind not in _NEVER_FREE and (where.kind != "plan" or where.ephemeral)
    return True
