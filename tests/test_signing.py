"""Signatures by real keys, made here and thrown away. ssh-keygen is a program, so these are end-to-end tests."""

import subprocess
from pathlib import Path

import pytest

from drillmaster.errors import Problem, Refused
from drillmaster.signing import POLICY, sign, signature_of, signs, verify

pytestmark = [pytest.mark.e2e, pytest.mark.needs("ssh-keygen")]


def make_key(folder: Path, name: str, comment: str) -> Path:
    key = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(key)], check=True, timeout=30
    )
    return key


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_key(folder, "scribe", "scribe@example.com")
    make_key(folder, "other", "two words")
    return folder


@pytest.fixture
def seal(tmp_path: Path) -> Path:
    path = tmp_path / "seal.json"
    path.write_bytes(b'{"head":"sha256:00"}\n')
    return path


def test_a_signature_holds_for_its_key_and_names_it(seal: Path, keys: Path) -> None:
    assert sign(seal, keys / "scribe") == signature_of(seal)
    signer = verify(seal, keys / "scribe.pub")
    assert signer.identity == "scribe@example.com"
    assert signer.fingerprint.startswith("SHA256:")


def test_a_second_signature_takes_the_place_of_the_first(seal: Path, keys: Path) -> None:
    sign(seal, keys / "scribe")
    sign(seal, keys / "other")
    assert verify(seal, keys / "other.pub", identity="lead").identity == "lead"
    with pytest.raises(Refused):
        verify(seal, keys / "scribe.pub")
    assert sorted(path.name for path in seal.parent.iterdir()) == ["seal.json", "seal.json.sig"]


def test_one_changed_byte_is_refused(seal: Path, keys: Path) -> None:
    sign(seal, keys / "scribe")
    seal.write_bytes(b'{"head":"sha256:01"}\n')
    with pytest.raises(Refused, match=r"seal\.json\.sig"):
        verify(seal, keys / "scribe.pub")


def test_a_signature_of_another_namespace_is_none(seal: Path, keys: Path) -> None:
    sign(seal, keys / "scribe", namespace=POLICY)
    verify(seal, keys / "scribe.pub", namespace=POLICY)
    with pytest.raises(Refused, match="namespace"):
        verify(seal, keys / "scribe.pub")


def test_no_signature_is_refused_with_the_command_that_makes_one(seal: Path, keys: Path) -> None:
    with pytest.raises(Refused, match="--sign KEY"):
        verify(seal, keys / "scribe.pub")


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"])
def test_a_file_that_is_no_signature_is_refused(text: str, seal: Path, keys: Path) -> None:
    signature_of(seal).write_text(text)
    with pytest.raises(Refused):
        verify(seal, keys / "scribe.pub")


def test_an_allowed_signers_file_wants_an_identity_and_holds_for_it(seal: Path, keys: Path, tmp_path: Path) -> None:
    roster = tmp_path / "allowed_signers"
    lines = [
        f"{who} {(keys / f'{key}.pub').read_text().strip()}\n" for who, key in (("sam", "scribe"), ("lee", "other"))
    ]
    roster.write_text("# people\n" + "".join(lines))
    sign(seal, keys / "scribe")
    assert verify(seal, roster, identity="sam").identity == "sam"
    with pytest.raises(Refused):
        verify(seal, roster, identity="lee")
    with pytest.raises(Problem, match="--identity NAME"):
        verify(seal, roster)


def test_a_key_whose_comment_is_no_name_still_verifies(seal: Path, keys: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.pub"
    kind, key, _ = (keys / "scribe.pub").read_text().split(None, 2)
    strange.write_text(f'{kind} {key} *,"?\n')
    sign(seal, keys / "scribe")
    assert verify(seal, strange).identity == "signer"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("key", "no key\n", "a key that signs"),
        ("key", None, "an SSH key"),
    ],
)
def test_what_is_no_key_does_not_sign(name: str, text: str | None, said: str, seal: Path, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(Problem, match=said):
        sign(seal, tmp_path / name)
    assert not signature_of(seal).exists()


def test_a_private_key_is_not_taken_for_a_signer(seal: Path, keys: Path) -> None:
    sign(seal, keys / "scribe")
    with pytest.raises(Problem, match=r"found a private key, .*name scribe\.pub"):
        verify(seal, keys / "scribe")


def test_without_ssh_keygen_the_remedy_says_what_to_install(
    seal: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="install openssh-client"):
        sign(seal, keys / "scribe")


@pytest.mark.parametrize(
    ("candidate", "is_one"),
    [
        ("gate.json.sig", True),
        ("gate.json.second.sig", True),
        ("gate.json.pin.yaml.sig", False),
        ("gate.json2.sig", False),
        ("gate.json", False),
        ("gate.json..sig", False),
        ("other/gate.json.sig", False),
    ],
)
def test_a_signature_is_of_the_file_that_its_name_says(candidate: str, is_one: bool) -> None:
    assert signs("gate.json", candidate) == is_one
