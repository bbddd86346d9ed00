"""Secrets beside the content of a file: in what an archive says of itself, in a jar of cookies, in a file of passwords."""

import gzip
import io
import zipfile

import pytest

from drillmaster.rules.secrets import look

AWS = "AKI" + "A4QTRVZ7WX2LMNOPB"  # in pieces, so that no scanner takes this file for what it is about


def kinds(data: bytes | str) -> list[str]:
    return sorted({hit.kind for hit in look(data.encode() if isinstance(data, str) else data).hits})


def test_what_a_packed_file_says_of_itself_is_looked_at() -> None:
    whole, member = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.comment = AWS.encode()
        archive.writestr("a.txt", "nothing")
    with zipfile.ZipFile(member, "w") as archive:
        entry = zipfile.ZipInfo("a.txt")
        entry.comment = AWS.encode()
        archive.writestr(entry, "nothing")
    stream = io.BytesIO()
    with gzip.GzipFile(AWS, mode="wb", fileobj=stream) as packed:
        packed.write(b"nothing")
    for data in (whole, member, stream):
        assert kinds(data.getvalue()) == ["aws-access-key"]


JAR = ".example.com\tTRUE\t/\tTRUE\t0\t{}\t{}\n"


def test_a_jar_of_cookies_and_a_file_of_passwords_are_told_by_their_lines() -> None:
    assert kinds(JAR.format("session", "a81f0c3be27d4495b0aa")) == ["cookie"]
    assert "password" in kinds("db.internal:5432:app:svc:s3cr3tpW9x\n")


@pytest.mark.parametrize(
    "text",
    [
        JAR.format("lang", "en-US"),
        "hostname:5432:database:username:password\n",
        "localhost:5432:app:app:app\n",
        "ports: ['127.0.0.1:5432:5432']\n",
    ],
)
def test_lines_like_those_without_a_secret_are_let_by(text: str) -> None:
    assert kinds(text) == []
