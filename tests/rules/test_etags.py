"""Entity tags are hashes of bytes, and conditions are equalities of tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.etags import conditional, strong_etag, tags, weak_match

NOW = strong_etag(b'{"cart": []}')
OLD = strong_etag(b'{"cart": [1]}')


def test_a_tag_is_of_bytes() -> None:
    # openssl dgst -sha256 -binary < /dev/null | basenc --base64url
    assert strong_etag(b"") == '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"'
    assert strong_etag(bytearray(b"a")) == strong_etag(memoryview(b"a")) == strong_etag(b"a") != strong_etag(b"b")
    for text in ("", "a", None, 5, ["a"]):
        with pytest.raises(TypeError, match="of bytes"):
            strong_etag(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "found"),
    [
        # RFC 9110, 13.1.2
        ('"xyzzy"', ('"xyzzy"',)),
        ('W/"xyzzy"', ('W/"xyzzy"',)),
        ('"xyzzy", "r2d2xxxx", "c3piozzzz"', ('"xyzzy"', '"r2d2xxxx"', '"c3piozzzz"')),
        ('W/"xyzzy", W/"r2d2xxxx", W/"c3piozzzz"', ('W/"xyzzy"', 'W/"r2d2xxxx"', 'W/"c3piozzzz"')),
        ("*", ("*",)),
        (" * ", ("*",)),
        # empty elements of a list are let by, a comma inside a tag is the tag's
        (', "a",, \t"b" ,', ('"a"', '"b"')),
        ('"a,b"', ('"a,b"',)),
        ('""', ('""',)),
        ('"\xe9"', ('"\xe9"',)),
        # none of these is a list of tags
        *((one, None) for one in ("", " ", ",", "xyzzy", '"a', 'a"', '"a" "b"', '"a b"', 'w/"a"', 'W/ "a"', "'a'")),
        *((one, None) for one in ('*, "a"', '"a", *', '"a"; q=1', '"a"\n', '"\x00"', '"a\u20ac"', None, 5, ['"a"'])),
        ('"' + "a" * 9000 + '"', None),
    ],
)
def test_a_list_of_tags_is_read_as_it_is_written(field: object, found: tuple[str, ...] | None) -> None:
    assert tags(field) == found


def test_a_long_list_that_is_none_costs_no_time() -> None:
    for text in (" " * 8000 + "x", ", " * 4000 + "x", '"a" ' + " \t" * 4000 + '"', '"' * 8000):
        assert tags(text) is None or text == '"' * 8000


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [  # RFC 9110, 8.8.3.2, the column of weak comparison
        ('W/"1"', 'W/"1"', True),
        ('W/"1"', 'W/"2"', False),
        ('W/"1"', '"1"', True),
        ('"1"', '"1"', True),
    ],
)
def test_weakness_is_set_aside(one: str, other: str, same: bool) -> None:
    assert weak_match(one, other) is weak_match(other, one) is same


@pytest.mark.parametrize(
    ("method", "etag", "conditions", "answer"),
    [
        ("GET", NOW, {}, "send"),
        ("GET", NOW, {"if_none_match": NOW}, "not-modified"),
        ("HEAD", NOW, {"if_none_match": f"W/{NOW}"}, "not-modified"),
        ("GET", f"W/{NOW}", {"if_none_match": NOW}, "not-modified"),
        ("GET", NOW, {"if_none_match": f"{OLD}, {NOW}"}, "not-modified"),
        ("GET", NOW, {"if_none_match": OLD}, "send"),
        ("GET", NOW, {"if_none_match": "*"}, "not-modified"),
        ("GET", None, {"if_none_match": "*"}, "send"),
        ("PUT", None, {"if_none_match": "*"}, "send"),
        ("PUT", NOW, {"if_none_match": "*"}, "precondition-failed"),
        ("PUT", NOW, {"if_none_match": NOW}, "precondition-failed"),
        # a caption, a key without quotes: no tag
        ("GET", NOW, {"if_none_match": "shared cart summary"}, "send"),
        ("GET", NOW, {"if_none_match": NOW.strip('"')}, "send"),
        ("PUT", NOW, {"if_none_match": "shared cart summary"}, "precondition-failed"),
        ("get", NOW, {"if_none_match": NOW}, "precondition-failed"),
        # If-Match is strong, and comes first
        ("PUT", NOW, {"if_match": NOW}, "send"),
        ("PUT", NOW, {"if_match": f"W/{NOW}"}, "precondition-failed"),
        ("PUT", f"W/{NOW}", {"if_match": f"W/{NOW}"}, "precondition-failed"),
        ("PUT", NOW, {"if_match": OLD}, "precondition-failed"),
        ("PUT", NOW, {"if_match": "*"}, "send"),
        ("PUT", None, {"if_match": "*"}, "precondition-failed"),
        ("PUT", None, {"if_match": NOW}, "precondition-failed"),
        ("PUT", NOW, {"if_match": "nonsense"}, "precondition-failed"),
        ("GET", NOW, {"if_match": OLD, "if_none_match": NOW}, "precondition-failed"),
        ("GET", NOW, {"if_match": NOW, "if_none_match": NOW}, "not-modified"),
    ],
)
def test_a_condition_is_answered(method: str, etag: str | None, conditions: dict[str, str], answer: str) -> None:
    assert conditional(method, etag, **conditions) == answer


@given(st.text(max_size=60))
def test_no_field_makes_a_change_that_was_conditional_go_through_by_being_unreadable(field: str) -> None:
    assert tags(field) is not None or conditional("PUT", NOW, if_none_match=field) == "precondition-failed"


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_two_bodies_have_one_tag_only_if_they_are_one(one: bytes, other: bytes) -> None:
    assert (strong_etag(one) == strong_etag(other)) == (one == other)
    assert tags(strong_etag(one)) == (strong_etag(one),)
