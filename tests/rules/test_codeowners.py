"""CODEOWNERS: last match wins, sections, and lines that a host would skip without a word."""

import pytest

from drillmaster.rules.codeowners import read_codeowners


@pytest.mark.parametrize(
    ("text", "path", "owners"),
    [
        ("* @a\n/fixtures/ @b @org/c\n", "fixtures/x.json", ("@b", "@org/c")),
        ("/fixtures/ @b\n* @a\n", "fixtures/x.json", ("@a",)),  # the last one decides
        ("* @a\n/fixtures/\n", "fixtures/x.json", ()),  # and can take owners away
        ("* @a # everybody\n", "x", ("@a",)),
        ("* ada@example.com\n", "x", ("ada@example.com",)),
        ("docs/* @a\n", "docs/b/c.md", ()),
        ("a\\ b.txt @a\n", "a b.txt", ("@a",)),
        ("[Pay]\n/pay/ @a\n[Docs] @d\n/docs/\n/pay/docs/\n", "pay/docs/x", ("@a", "@d")),
        ("[Pay] @d\n/pay/\n", "pay/x", ("@d",)),
        ("^[Pay][2] @d\n/pay/ @e\n", "pay/x", ("@e",)),
        ("[Pay]\n/pay/ @a\n!/pay/gen/\n", "pay/gen/x", ()),
        ("[Pay]\n/a/ @a\n[pay]\n/a/ @b\n", "a/x", ("@b",)),  # one section, whatever its case
        ("# c\r\n* @a\r\n", "x", ("@a",)),
        ("\ufeff* @a\n", "x", ("@a",)),
    ],
)
def test_who_is_asked(text: str, path: str, owners: tuple[str, ...]) -> None:
    read = read_codeowners(text.encode())
    assert read.defects == ()
    assert read.of(path) == owners


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"* @a\n!/gen/ @b\n", "negated"),
        (b"* @a\n!/gen/\n", "negated"),
        (b"/a/[b].py @a\n", "range"),
        (b"* not-an-owner\n", "no owner"),
        (b"\\#a @a\n", "escaped #"),
        (b"", "no line"),
        (b"# x\n", "no line"),
        (b"* @\xff\n", "no UTF-8"),
        (b"* @a\x1b[31m\n", "control"),
        ("* @a\u202e\n".encode(), "control or format"),
        (b"x" * (3 << 20) + b"y", "hosts do not read"),
        (b"a//b @a\n", "empty name"),
        (b"[Pay] nobody\n/pay/\n", "no owner"),
    ],
)
def test_a_line_that_would_be_skipped_is_a_defect(data: bytes, said: str) -> None:
    assert any(said in what for _, what in read_codeowners(data).defects)


GITLAB = """# everything, but for words
* @org/backend @org/front-end @bot_of.releases
!/docs/*.md
!/docs/**/*.md
.gitlab/CODEOWNERS @org/leads
config/*.yml @first.last @with_under @with-dash

^[Source code editing]
.editor.example @first.last

^[Backend] @org/backend
*.rb

[Two of them][2] @org/db
/db/*migrate/
/**/click/
# files of the folder alone
/db/*

[Secure::Secrets] @@maintainer
/lib/secrets/
"""
GITHUB = """*       @global1 @global-2
*.go docs@example.com
/build/logs/ @doc #a comment
docs/* @doc
apps/ @octo
apps/ours
packages/kbn-x @org/core.team
src/components/abode/* @one
/x-pack/**/*.ts @org/pack
Dockerfile @ship
\t**/logs @logs
"""


@pytest.mark.parametrize(
    ("text", "path", "owners"),
    [
        (GITLAB, "src/a.c", ("@org/backend", "@org/front-end", "@bot_of.releases")),
        (GITLAB, "docs/a.md", ()),
        (GITLAB, "docs/a/b.md", ()),
        (GITLAB, ".gitlab/CODEOWNERS", ("@org/leads",)),
        (GITLAB, "config/x.yml", ("@first.last", "@with_under", "@with-dash")),
        (GITLAB, "db/post_migrate/1.sql", ("@org/backend", "@org/front-end", "@bot_of.releases", "@org/db")),
        (GITLAB, "docs/click/a.md", ("@org/db",)),  # left out above, and asked of in a section
        (GITLAB, "lib/secrets/a", ("@org/backend", "@org/front-end", "@bot_of.releases", "@@maintainer")),
        (GITHUB, "x", ("@global1", "@global-2")),
        (GITHUB, "a/b.go", ("docs@example.com",)),
        (GITHUB, "build/logs/x", ("@logs",)),
        (GITHUB, "docs/a/b.txt", ("@global1", "@global-2")),
        (GITHUB, "deep/apps/x", ("@octo",)),
        (GITHUB, "apps/ours/x", ()),
        (GITHUB, "packages/kbn-x/src/a.ts", ("@org/core.team",)),
        (GITHUB, "packages/kbn-xy/a.ts", ("@global1", "@global-2")),
        (GITHUB, "src/components/abode/a.py", ("@one",)),
        (GITHUB, "x-pack/a/b/c.ts", ("@org/pack",)),
        (GITHUB, "a/Dockerfile", ("@ship",)),
    ],
)
def test_files_in_the_forms_that_large_projects_keep(text: str, path: str, owners: tuple[str, ...]) -> None:
    read = read_codeowners(text.encode())
    assert (read.defects, read.of(path)) == ((), owners)
