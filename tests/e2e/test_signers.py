"""Whose signatures hold over given bytes: real keys, an allowed_signers file and a list of revoked keys, as bytes from git."""

import subprocess
from pathlib import Path

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.signing import EVIDENCE, POLICY, Namespace, Signer, sign, signature_of, verify_bytes

pytestmark = [pytest.mark.e2e, pytest.mark.needs("ssh-keygen")]

DATA = b"kind: policy\n"
PEOPLE = ("ada", "ada-new", "bea", "eve")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in PEOPLE:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)],
            check=True,
            timeout=30,
        )
    return folder


@pytest.fixture(scope="module")
def signed(keys: Path) -> dict[str, bytes]:
    """Signatures of DATA in the namespace of policies, by name, and `ada in evidence`."""
    file = keys / "policy.yaml"
    file.write_bytes(DATA)
    found = {}
    for name in PEOPLE:
        found[name] = sign(file, keys / name, namespace=POLICY).read_bytes()
    found["ada in evidence"] = sign(file, keys / "ada", namespace=EVIDENCE).read_bytes()
    return found


def public(keys: Path, name: str) -> str:
    kind, key, *_ = (keys / f"{name}.pub").read_text().split()
    return f"{kind} {key}"


def at(text: str) -> int:
    ns = parse_rfc3339(text)
    assert ns is not None
    return ns


NOW = at("2026-11-30T12:00:00Z")


def check(
    signatures: list[bytes],
    allowed: str,
    *,
    revoked: bytes | None = None,
    data: bytes = DATA,
    namespace: Namespace = POLICY,
    now_ns: int = NOW,
) -> tuple[Signer, ...]:
    return verify_bytes(data, signatures, allowed.encode(), revoked, namespace=namespace, at_ns=now_ns)


def names(signers: tuple[Signer, ...]) -> list[str]:
    return [one.identity for one in signers]


def test_nobody_signed(keys: Path) -> None:
    with pytest.raises(Refused, match="no signature"):
        check([], f"ada {public(keys, 'ada')}")


@pytest.mark.parametrize("allowed", ["", "\n", "# nobody yet\n"])
def test_an_empty_list_allows_nobody(allowed: str, signed: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="nobody in it"):
        check([signed["ada"]], allowed)


def test_a_key_that_is_not_listed_is_nobodys(keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="found"):
        check([signed["eve"]], f"ada {public(keys, 'ada')}")


def test_one_changed_byte_is_refused(keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="incorrect signature: the bytes are not those that were signed"):
        check([signed["ada"]], f"ada {public(keys, 'ada')}", data=DATA + b" ")


def test_a_signature_in_another_namespace_is_refused(keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="namespace"):
        check([signed["ada in evidence"]], f"ada {public(keys, 'ada')}")
    assert names(check([signed["ada in evidence"]], f"ada {public(keys, 'ada')}", namespace=EVIDENCE)) == ["ada"]


def test_a_key_that_is_listed_for_another_namespace_is_refused(keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="not permitted"):
        check([signed["ada"]], f'ada namespaces="git" {public(keys, "ada")}')
    assert names(check([signed["ada"]], f'ada namespaces="git,drillmaster-*" {public(keys, "ada")}')) == ["ada"]


@pytest.mark.parametrize(
    ("option", "now", "holds"),
    [
        ('valid-before="20261201"', "2026-11-30T23:59:59Z", True),
        ('valid-before="20261201"', "2026-12-01T00:00:00Z", True),  # OpenSSH: up to and including
        ('valid-before="20261201"', "2026-12-01T00:00:01Z", False),
        ('valid-before="20261201Z"', "2026-11-30T20:00:00Z", True),
        ('valid-before="20261201Z"', "2026-12-01T01:00:00Z", False),
        ('valid-after="20261201"', "2026-11-30T23:59:59Z", False),
        ('valid-after="20261201"', "2026-12-01T00:00:01Z", True),
    ],
)
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_a_key_holds_from_its_first_day_to_its_last(
    zone: str, option: str, now: str, holds: bool, keys: Path, signed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)  # a day is UTC's wherever it is read
    allowed = f"ada {option} {public(keys, 'ada')}"
    if holds:
        assert names(check([signed["ada"]], allowed, now_ns=at(now))) == ["ada"]
    else:
        with pytest.raises(Refused, match=r"key (has expired|is not yet valid)"):
            check([signed["ada"]], allowed, now_ns=at(now))


def test_a_rotated_key_holds_until_its_day_and_the_new_one_from_then_on(keys: Path, signed: dict[str, bytes]) -> None:
    allowed = (
        f'ada valid-before="20261201" {public(keys, "ada")}\nada valid-after="20261201" {public(keys, "ada-new")}\n'
    )
    before, after = at("2026-11-30T00:00:00Z"), at("2026-12-02T00:00:00Z")
    assert names(check([signed["ada"]], allowed, now_ns=before)) == ["ada"]
    assert names(check([signed["ada-new"]], allowed, now_ns=after)) == ["ada"]
    for name, now_ns in (("ada", after), ("ada-new", before)):
        with pytest.raises(Refused):
            check([signed[name]], allowed, now_ns=now_ns)


def test_a_revoked_key_is_refused_in_a_list_and_in_a_krl(keys: Path, signed: dict[str, bytes], tmp_path: Path) -> None:
    allowed = f"ada {public(keys, 'ada')}\nbea {public(keys, 'bea')}"
    krl = tmp_path / "krl"
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", krl, keys / "ada.pub"], check=True, timeout=30)
    for revoked in (f"# left in May\n\n{public(keys, 'ada')} ada\n".encode(), krl.read_bytes()):
        with pytest.raises(Refused, match="revoked"):
            check([signed["ada"]], allowed, revoked=revoked)
        assert names(check([signed["bea"]], allowed, revoked=revoked)) == ["bea"]


@pytest.mark.parametrize("revoked", [b"", b"\n", b"# nobody\n"])
def test_a_list_that_revokes_nobody_revokes_nobody(revoked: bytes, keys: Path, signed: dict[str, bytes]) -> None:
    assert names(check([signed["ada"]], f"ada {public(keys, 'ada')}", revoked=revoked)) == ["ada"]


@pytest.mark.parametrize("revoked", [b"ada", b"\xff\xfe", b"SHA256:abc", b"SSHKRL\n\0 torn", b"ssh-ed25519"])
def test_a_list_of_revoked_keys_that_cannot_be_read_refuses(
    revoked: bytes, keys: Path, signed: dict[str, bytes]
) -> None:
    with pytest.raises(Problem):
        check([signed["ada"]], f"ada {public(keys, 'ada')}", revoked=revoked)


@pytest.mark.parametrize(
    "name", ["*", "*@example.com", "ad?", "!eve,*", "ada,*", '"*"', "a\u200bda", "a\u0308da", "ada,", "ada,,bea"]
)
def test_a_pattern_or_a_name_that_nobody_can_see_is_refused(name: str, keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Problem, match=r"allowed_signers:2"):
        check([signed["ada"]], f"bea {public(keys, 'bea')}\n{name} {public(keys, 'ada')}")


@pytest.mark.parametrize(
    "line",
    ["ada", "ada ssh-ed25519", "ada ssh-ed25519 ???", "ada validbefore=x ssh-ed25519 AAAA", "ssh-ed25519 AAAA", "a\0b"],
)
def test_a_line_that_cannot_be_read_refuses_the_file(line: str, keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Problem):
        check([signed["ada"]], f"ada {public(keys, 'ada')}\n{line}\n")


def test_two_people_are_two_and_one_person_is_one(keys: Path, signed: dict[str, bytes]) -> None:
    allowed = f"ada {public(keys, 'ada')}\nada {public(keys, 'ada-new')}\nbea {public(keys, 'bea')}"
    assert names(check([signed["ada"], signed["bea"]], allowed)) == ["ada", "bea"]
    assert names(check([signed["ada"], signed["ada"]], allowed)) == ["ada"]
    assert names(check([signed["ada"], signed["ada-new"]], allowed)) == ["ada"]


@pytest.mark.parametrize("allowed", ["ada,bea {}", "ada {}\nbea {}"])
def test_one_key_under_two_names_is_one_signer(allowed: str, keys: Path, signed: dict[str, bytes]) -> None:
    key = public(keys, "ada")
    assert names(check([signed["ada"], signed["ada"]], allowed.format(key, key))) == ["ada"]


def test_a_key_that_is_listed_for_this_namespace_under_another_name_is_found(
    keys: Path, signed: dict[str, bytes]
) -> None:
    key = public(keys, "ada")
    allowed = f'ada@git.example namespaces="git" {key}\nada namespaces="drillmaster-policy" {key}'
    assert names(check([signed["ada"]], allowed)) == ["ada"]


def test_each_signature_has_to_hold(keys: Path, signed: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="signature 2 of 2"):
        check([signed["ada"], signed["eve"]], f"ada {public(keys, 'ada')}")


@pytest.mark.parametrize("signature", [b"", b"\n", b"nonsense", b"\xff" * 10, b"A" * 100_000])
def test_what_is_no_signature_is_refused(signature: bytes, keys: Path) -> None:
    with pytest.raises(Refused):
        check([signature], f"ada {public(keys, 'ada')}")


@pytest.mark.parametrize(
    "line", ["ada {}", "  ada\t{}\r", '"ada" {}', "ada,ada@example.com {} a comment", "# x\nada {}"]
)
def test_entries_as_people_write_them_are_read(line: str, keys: Path, signed: dict[str, bytes]) -> None:
    assert names(check([signed["ada"]], line.format(public(keys, "ada")) + "\n")) == ["ada"]


def test_a_second_signature_lies_beside_the_first(keys: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(DATA)
    sign(file, keys / "ada", namespace=POLICY)
    assert sign(file, keys / "bea", namespace=POLICY, second=True).name == "policy.yaml.second.sig"
    both = [signature_of(file).read_bytes(), signature_of(file, second=True).read_bytes()]
    allowed = f"ada {public(keys, 'ada')}\nbea {public(keys, 'bea')}"
    assert names(check(both, allowed)) == ["ada", "bea"]
