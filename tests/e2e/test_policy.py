"""`drillmaster policy sign | verify | diff`, in real repositories with real keys."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from drillmaster import cli
from drillmaster.signing import EVIDENCE, sign
from tests.e2e.repolab import ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NOW = "2026-11-30T12:00:00Z"
FILE = ".drillmaster/canary-policy.yaml"
POLICY = """\
kind: policy
version: 1
source: docs/canary-runbook.md
owner: Ada
review_by: 2027-02-28
gates:
  - gate: canary
    service: checkout
    collectors: [prometheus]
    max_age_s: 900
    min_requests: 5000
    max_error_ratio: 0.002
    max_p95_ms: 180
    slo_target_ratio: 0.999
    max_slo_burn: 1.5
    min_healthy_hosts: 2
    min_window_s: 600
    min_coverage_ratio: 0.95
    baseline: none
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def policy(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(verb: str, *args: object) -> Said:
        with pytest.raises(SystemExit) as ended:
            cli.main(argv=["policy", verb, *map(str, args)])
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        assert "Traceback" not in told.err
        return Said(ended.value.code, told.out, told.err)

    return run


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    made = Repo(tmp_path / "repo", keys)
    made.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo", "robot", "gone", "stranger"),
            ".drillmaster/roster.yaml": ROSTER,
            FILE: POLICY,
        }
    )
    return made


def lists(repo: Repo, **files: str) -> None:
    """Commit other lists to main."""
    repo.commit({f".drillmaster/{name.replace('roster', 'roster.yaml')}": text for name, text in files.items()})


def test_what_was_signed_verifies_by_the_lists_of_the_base(repo: Repo, keys: Keys, policy: Run) -> None:
    said = policy("sign", repo.path / FILE, "--key", keys.private("ada"))
    assert said.code == 0, said.err
    assert (repo.path / f"{FILE}.sig").is_file()
    said = policy("verify", repo.path / FILE, "--base", "main", "--now", NOW)
    assert said.code == 0, said.err
    assert said.out.startswith("signed by ada (SHA256:")
    assert "by the lists of main (" in said.out


def test_it_says_so_as_json(repo: Repo, keys: Keys, policy: Run) -> None:
    signed = json.loads(policy("sign", repo.path / FILE, "--key", keys.private("ada"), "--json").out)
    assert signed["signature"].endswith(".sig")
    told = json.loads(policy("verify", repo.path / FILE, "--base", "main", "--now", NOW, "--json").out)
    assert [row["identity"] for row in told["signers"]] == ["ada"]


def test_nobody_signed(repo: Repo, policy: Run) -> None:
    said = policy("verify", repo.path / FILE, "--base", "main", "--now", NOW)
    assert (said.code, said.out) == (2, "")
    assert "drillmaster policy sign" in said.err


@pytest.mark.parametrize("who", ["robot", "gone", "stranger"])
def test_a_bot_one_who_left_and_a_stranger_sign_nothing(who: str, repo: Repo, keys: Keys, policy: Run) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private(who))
    said = policy("verify", repo.path / FILE, "--base", "main", "--now", NOW)
    assert (said.code, said.out) == (2, "")
    assert who in said.err


def test_the_day_on_which_somebody_leaves_is_still_theirs(repo: Repo, keys: Keys, policy: Run) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private("gone"))
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", "2020-01-01T23:59:59Z").code == 0
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", "2020-01-02T00:00:00Z").code == 2


def test_changed_bytes_are_refused(repo: Repo, keys: Keys, policy: Run) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private("ada"))
    (repo.path / FILE).write_text(POLICY.replace("180", "1800"))
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", NOW).code == 2


def test_a_signature_under_evidence_is_none_under_a_policy(repo: Repo, keys: Keys, policy: Run) -> None:
    sign(repo.path / FILE, keys.private("ada"), namespace=EVIDENCE)
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", NOW).code == 2


def test_a_key_that_nobody_listed_is_refused(repo: Repo, keys: Keys, policy: Run) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private("mallory"))
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", NOW).code == 2


def test_who_adds_themselves_to_the_list_in_the_change_has_added_nobody(repo: Repo, keys: Keys, policy: Run) -> None:
    repo.branch("change")
    repo.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("mallory"),
            ".drillmaster/roster.yaml": "kind: roster\nversion: 1\npeople: [{identity: mallory}]\n",
        }
    )
    policy("sign", repo.path / FILE, "--key", keys.private("mallory"))
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", NOW).code == 2
    said = policy("verify", repo.path / FILE, "--now", NOW)
    assert said.code == 0
    assert "by the lists of the working tree" in said.out


def test_a_revoked_key_is_refused(repo: Repo, keys: Keys, policy: Run) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private("ada"))
    lists(repo, revoked_keys="# left in a train\n" + keys.private("ada").with_suffix(".pub").read_text())
    said = policy("verify", repo.path / FILE, "--base", "main", "--now", NOW)
    assert said.code == 2
    assert "revoked" in said.err
    assert policy("verify", repo.path / FILE, "--base", "main~1", "--now", NOW).code == 0


def test_a_key_is_rotated_on_a_day(repo: Repo, keys: Keys, policy: Run) -> None:
    old = keys.allowed("ada", options='valid-before="20261201" ')
    new = keys.allowed("ada-new", options='valid-after="20261201" ').replace("ada-new ", "ada ", 1)
    lists(repo, allowed_signers=old + new)
    before, after = "2026-11-30T00:00:00Z", "2026-12-02T00:00:00Z"
    policy("sign", repo.path / FILE, "--key", keys.private("ada"))
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", before).code == 0
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", after).code == 2
    policy("sign", repo.path / FILE, "--key", keys.private("ada-new"))
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", before).code == 2
    assert policy("verify", repo.path / FILE, "--base", "main", "--now", after).code == 0


@pytest.mark.parametrize("text", ["", "*@example.com {}", "ada {}\nbroken\n"])
def test_lists_that_are_not_to_be_relied_on_are_refused(text: str, repo: Repo, keys: Keys, policy: Run) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private("ada"))
    public = " ".join(keys.private("ada").with_suffix(".pub").read_text().split()[:2])
    lists(repo, allowed_signers=text.format(public))
    said = policy("verify", repo.path / FILE, "--base", "main", "--now", NOW)
    assert said.code == 2
    assert "allowed_signers" in said.err


@pytest.mark.parametrize("missing", ["allowed_signers", "roster.yaml"])
def test_a_list_that_is_not_there_is_refused_and_says_how_it_is_written(
    missing: str, repo: Repo, keys: Keys, policy: Run
) -> None:
    policy("sign", repo.path / FILE, "--key", keys.private("ada"))
    repo.commit({f".drillmaster/{missing}": None})
    said = policy("verify", repo.path / FILE, "--base", "main", "--now", NOW)
    assert said.code == 2
    assert missing in said.err


def test_two_people_are_two_and_one_is_one(repo: Repo, keys: Keys, policy: Run) -> None:
    file = repo.path / FILE
    verify = ("verify", file, "--base", "main", "--now", NOW, "--people", 2)
    policy("sign", file, "--key", keys.private("ada"))
    assert policy(*verify).code == 2
    said = policy("sign", file, "--key", keys.private("ada"), "--as", "second")
    assert said.code == 2
    assert not (repo.path / f"{FILE}.second.sig").exists()
    (repo.path / f"{FILE}.second.sig").write_bytes((repo.path / f"{FILE}.sig").read_bytes())
    assert policy(*verify).code == 2
    said = policy("sign", file, "--key", keys.private("bo"), "--as", "second")
    assert said.code == 0, said.err
    said = policy(*verify)
    assert said.code == 0, said.err
    assert "signed by ada (" in said.out and "signed by bo (" in said.out


def test_one_person_with_two_keys_is_one(repo: Repo, keys: Keys, policy: Run) -> None:
    lists(repo, allowed_signers=keys.allowed("ada") + keys.allowed("ada-new").replace("ada-new ", "ada ", 1))
    file = repo.path / FILE
    policy("sign", file, "--key", keys.private("ada"))
    assert policy("sign", file, "--key", keys.private("ada-new"), "--as", "second").code == 0
    assert policy("verify", file, "--base", "main", "--now", NOW).code == 0
    assert policy("verify", file, "--base", "main", "--now", NOW, "--people", 2).code == 2


def test_one_bad_signature_spoils_the_other(repo: Repo, keys: Keys, policy: Run) -> None:
    file = repo.path / FILE
    policy("sign", file, "--key", keys.private("ada"))
    policy("sign", file, "--key", keys.private("mallory"), "--as", "second")
    assert policy("verify", file, "--base", "main", "--now", NOW).code == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kind: policy\n",
        POLICY.replace("180", "fast"),
        POLICY.replace("canary", "canari"),
        POLICY + "    x: 1\n",
        "a: 1\na: 2\n",
    ],
)
def test_a_policy_that_no_gate_could_read_is_not_signed(text: str, repo: Repo, keys: Keys, policy: Run) -> None:
    (repo.path / FILE).write_text(text)
    assert policy("sign", repo.path / FILE, "--key", keys.private("ada")).code == 2
    assert not (repo.path / f"{FILE}.sig").exists()


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        ([{"origin": "https://example.com/server", "signed_by": "ada"}], 0),
        ([{"origin": "", "signed_by": "ada"}], 2),
        ([{"origin": "https://example.com/server", "signed_by": " "}], 2),
        ([{"origin": "https://example.com/server"}], 2),
        ([{"origin": None, "signed_by": None}], 2),
        (["tool"], 2),
    ],
)
def test_an_allow_list_with_blanks_is_not_signed(
    tools: list[object], code: int, repo: Repo, keys: Keys, policy: Run
) -> None:
    listing = repo.path / "tools.json"
    listing.write_text(json.dumps({"kind": "tool-allowlist", "version": 1, "servers": [], "tools": tools}))
    said = policy("sign", listing, "--key", keys.private("ada"))
    assert (said.code, listing.with_name("tools.json.sig").exists()) == (code, code == 0)
    assert code == 0 or "tools.json: /tools/0/" in said.err


def test_what_is_no_policy_of_ours_can_be_signed_too(repo: Repo, keys: Keys, policy: Run) -> None:
    for name, text in (("plan.json", "{}"), ("notes.txt", "x"), ("other.yaml", "a: 1\n")):
        (repo.path / name).write_text(text)
        assert policy("sign", repo.path / name, "--key", keys.private("ada")).code == 0


def test_keys_and_files_that_are_none_are_refused(repo: Repo, keys: Keys, policy: Run, tmp_path: Path) -> None:
    file = repo.path / FILE
    (tmp_path / "no-key").write_text("x")
    for key in ("missing", tmp_path / "no-key", tmp_path):
        assert policy("sign", file, "--key", key).code == 2
    for name in ("missing.yaml", ".drillmaster", "missing"):
        assert policy("sign", repo.path / name, "--key", keys.private("ada")).code == 2
        assert policy("verify", repo.path / name, "--base", "main").code == 2
        assert policy("diff", repo.path / name, "--base", "main").code == 2
    assert policy("verify", file, "--base", "no-such-ref").code == 2
    assert policy("diff", file, "--base", "--output=x").code == 2
    assert not (repo.path / f"{FILE}.sig").exists()


def test_a_changed_limit_is_told_with_who_signed_it(repo: Repo, keys: Keys, policy: Run) -> None:
    file = repo.path / FILE
    policy("sign", file, "--key", keys.private("ada"))
    repo.commit(message="signed")
    repo.branch("change")
    file.write_text(POLICY.replace("180", "240").replace("min_requests: 5000", "min_requests: 9000"))
    said = policy("diff", file, "--base", "main", "--now", NOW)
    assert said.code == 0, said.err
    rows = said.out.splitlines()
    assert rows[:2] == [
        "/gates/0/min_requests: 5000 -> 9000 (tighter)",
        "/gates/0/max_p95_ms: 180 -> 240 (looser)",
    ]
    assert rows[2].startswith("before: signed by ada (SHA256:")
    assert rows[3].startswith("after: signed by nobody who counts: ")
    policy("sign", file, "--key", keys.private("bo"))
    assert policy("diff", file, "--base", "main", "--now", NOW).out.splitlines()[3].startswith("after: signed by bo (")


def test_a_comment_changes_no_limit_and_breaks_the_signature(repo: Repo, keys: Keys, policy: Run) -> None:
    file = repo.path / FILE
    assert policy("diff", file, "--base", "main", "--now", NOW).out.startswith("no limit changed\n")
    file.write_text("# harmless\n" + POLICY)
    assert policy("diff", file, "--base", "main", "--now", NOW).out.startswith("no limit changed; its bytes did")


def test_a_new_policy_is_all_new(repo: Repo, keys: Keys, policy: Run) -> None:
    new = repo.path / ".drillmaster/new-policy.yaml"
    new.write_text(POLICY)
    told = json.loads(policy("diff", new, "--base", "main", "--now", NOW, "--json").out)
    assert told["before"] == "not there"
    assert {"pointer": "/gates/0/max_p95_ms", "before": "(nothing)", "after": "180", "way": "tighter"} in told[
        "changes"
    ]
