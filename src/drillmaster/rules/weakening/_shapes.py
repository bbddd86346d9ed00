"""What a file of tests asserts, whatever its language: the form in which two versions are compared."""

import msgspec

__all__ = ["Assertion", "Suite", "Test", "Unparsed"]


class Unparsed(Exception):
    """A file that cannot be read as its language: what was found, and the one thing that mends it."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.found = found
        self.remedy = remedy


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """One assertion. `strength`: 4 one value only, 3 near it or part of it, 2 a property of it, 1 that there is one."""

    text: str
    """In canonical form: formatting, quotes and the names of local variables count for nothing."""
    subject: str
    """What is looked at, in canonical form."""
    strength: int
    line: int
    tolerance: float | None = None
    """How far a number may be off; None: not at all, or it cannot be told."""
    bound: tuple[str, float] | None = None
    """`<` or `>` and the number, where the assertion is that alone."""
    tautology: bool = False
    """It holds whatever the product does."""
    swallowed: bool = False
    """It may fail without failing the test."""
    conditional: bool = False
    own_mock: bool = False
    """It looks at what the test itself put in the place of the thing under test."""
    inline_snapshot: bool = False
    within: str = ""
    """As the helper it stands in says it, where it stands in one."""

    @property
    def counts(self) -> bool:
        return not (self.tautology or self.swallowed)


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One test that a runner collects. `body` is its text without its name, for what was only renamed."""

    name: str
    line: int
    body: str
    asserts: tuple[Assertion, ...] = ()
    marks: tuple[str, ...] = ()
    """What keeps it from running, or its failure from counting, as it is written."""
    decorated: tuple[str, ...] = ()
    """Decorators that come from another file, with the module: what they do to the test is not looked at."""
    rows: tuple[str, ...] | None = ()
    """What it is run with, a text a row; empty: once; None: that cannot be counted."""
    timeouts: tuple[float, ...] = ()
    """Of waits within it, sorted."""
    limit_s: float | None = None
    """Of the test as a whole; None: it has none of its own."""
    examples: float | None = None
    """How many a generator is asked for."""

    @property
    def live(self) -> bool:
        return not self.marks


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """All of one file. `settings` are statements about collection, as they are written."""

    tests: tuple[Test, ...] = ()
    settings: tuple[str, ...] = ()
    helpers: dict[str, tuple[str, ...]] = {}
    """What functions that are no tests assert, by name, in canonical form: of those that are not as they were."""
    imports: dict[str, str] = {}
    """Where each name of the file comes from."""
    reaches_product: bool = True
    """Whether anything beside the language's own library and the runner is used."""

    def named(self) -> dict[str, Test]:
        return {one.name: one for one in self.tests}
