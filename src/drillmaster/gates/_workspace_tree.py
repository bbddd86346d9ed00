"""A working directory as a gate sees it: every entry with its class and what was found in it, and what could not be looked at.

Paths are below the root, `/` between folders, fit to be printed: what in a name is a secret is replaced, bytes that are no text are
escapes. No value that was found is in here.
"""

from typing import Literal

import msgspec

from drillmaster.rules.durable import Class
from drillmaster.rules.secrets import Hit

__all__ = ["Kind", "Pointer", "Seen", "Tree"]

Kind = Literal["file", "link", "fifo", "socket", "device", "mount", "folder", "unknown"]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. What is None or empty was not found, but for `unread` and `trouble`, which say what could not be looked at."""

    path: str
    kind: Kind = "file"
    place: Class = "other"
    known: bool = False
    """Named as memory by the article's own list."""
    by_suffix: bool = False
    """A binary store by its suffix, or by its first bytes."""
    bytes: int = 0
    mtime_ns: int = 0
    """Wall time of the last write, as the file system says."""
    hits: tuple[Hit, ...] = ()
    name_hits: tuple[Hit, ...] = ()
    counts: dict[str, int] = {}
    """Hits by group, in content and name."""
    unread: tuple[str, ...] = ()
    """Why content could not be looked at, or not whole."""
    trouble: str = ""
    """What the system said, where the entry could not be opened, or changed under the reader's eyes."""
    media: str = ""
    hard_links: int = 1
    leads: str = ""
    """Of a link: `inside`, `outside`, `nowhere`."""
    packed: tuple[Class, ...] = ()
    """Classes of the members of an archive."""
    open_mark: str = ""
    """What shows that somebody was writing: a lock, half of a JSON text, a journal that was not taken in."""
    sha256: str = ""
    left_out: bool = False
    """The policy says that its content is not looked at."""


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """A `MEMORY_POINTER` in the tree. `problem` "": it can be followed."""

    path: str
    uri: str = ""
    sha256: str = ""
    blob_there: bool = False
    """The file that it stands for is there as well: the cut was not finished."""
    problem: str = ""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below one root. `cut` says where the walk stopped before its end; "" else."""

    root: str
    entries: tuple[Seen, ...]
    folders: int = 0
    total_bytes: int = 0
    cut: str = ""
    pointers: tuple[Pointer, ...] = ()
    now_ns: int = 0
    """Wall time of the judgement."""
    digest: str = ""
    changed: bool = False
    """Something was added or taken away while it was walked."""

    @property
    def scanned(self) -> int:
        """Regular files whose content was looked at whole."""
        return sum(
            one.kind == "file" and not (one.unread or one.trouble or one.media or one.left_out) for one in self.entries
        )
