"""Who may say so, in real repositories with real signatures."""

import json
from pathlib import Path

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.intake.authority import Authority
from drillmaster.intake.git import Repository
from drillmaster.signing import POLICY, sign
from tests.e2e.repolab import ADA, BO, BOT, ROSTER, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NOW_NS = parse_rfc3339("2026-11-30T12:00:00Z") or 0
POLICY_FILE = ".drillmaster/canary-policy.yaml"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    """A repository whose base knows its people, on a branch of a change."""
    made = Repo(tmp_path / "repo", keys)
    made.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo", "robot", "gone"),
            ".drillmaster/roster.yaml": ROSTER,
            POLICY_FILE: "limit: 1\n",
            "src/app.py": "x = 1\n",
            ".github/workflows/gate.yml": "run: drillmaster gate canary\n",
            ".github/workflows/other.yml": "run: make\n",
        }
    )
    made.branch("change")
    return made


def authority(repo: Repo, *, event: Path | None = None) -> Authority:
    return Authority(Repository.at(repo.path), "main", "HEAD", now_ns=NOW_NS, event=event)


def lane(repo: Repo, *, event: Path | None = None) -> tuple[str, str]:
    told = authority(repo, event=event).diff().lane
    return told.name, told.by


def signed(repo: Repo, path: str, who: str, *, second: bool = False) -> None:
    assert repo.keys is not None
    sign(repo.path / path, repo.keys.private(who), namespace=POLICY, second=second)


def self_status(repo: Repo, *own: str) -> tuple[str, str, tuple[str, ...]]:
    check, stamps = authority(repo).self_check(own)
    return check.status, check.why, stamps


def event(folder: Path, login: str, head: str, kind: str = "User") -> Path:
    path = folder / "event.json"
    path.write_text(json.dumps({"pull_request": {"user": {"login": login, "type": kind}, "head": {"sha": head}}}))
    return path


# -- lanes


def test_a_commit_that_a_person_signed_is_that_persons(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    assert lane(repo) == ("human", "signatures of ada")


def test_an_author_line_is_nobodys_word(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, by=ADA)
    name, by = lane(repo)
    assert name == "unknown" and "nobody signed it" in by


def test_one_unsigned_commit_among_signed_ones_leaves_it_unknown(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    repo.commit({"src/app.py": "x = 3\n"}, by=ADA)
    assert lane(repo)[0] == "unknown"


@pytest.mark.parametrize(
    ("by", "signer", "message"),
    [
        (BOT, None, "change"),
        (ADA, "robot", "change"),
        (ADA, "ada", f"change\n\nCo-authored-by: {BOT}"),
        ("dependabot <d@example.com>", "ada", "change"),
    ],
)
def test_a_bot_anywhere_makes_it_a_bots(repo: Repo, by: str, signer: str | None, message: str) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, by=by, signed=signer, message=message)
    assert lane(repo)[0] == "free"


@pytest.mark.parametrize("signer", ["gone", "stranger"])
def test_whoever_is_not_on_the_roster_any_more_or_never_was_is_nobody(repo: Repo, signer: str) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, signed=signer)
    assert lane(repo)[0] == "unknown"


def test_a_co_author_whom_nobody_knows_leaves_it_unknown(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada", message="x\n\nCo-Authored-By: Some Agent <a@agent.example>")
    assert lane(repo)[0] == "unknown"


def test_the_code_hosts_event_says_who_opened_it(repo: Repo, tmp_path: Path) -> None:
    head = repo.commit({"src/app.py": "x = 2\n"}, by=ADA)
    assert lane(repo, event=event(tmp_path, "ADA-L", head)) == (
        "human",
        "account ADA-L, by the event of the code host of ada",
    )
    assert lane(repo, event=event(tmp_path, "stranger", head))[0] == "unknown"
    assert lane(repo, event=event(tmp_path, "robot-l", head))[0] == "free"
    assert lane(repo, event=event(tmp_path, "ada-l", head, kind="Bot"))[0] == "free"


def test_an_event_of_another_change_is_refused(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"src/app.py": "x = 2\n"})
    with pytest.raises(Problem, match="the commit that is judged"):
        authority(repo, event=event(tmp_path, "ada-l", "0" * 40))


def test_an_environment_lowers_a_lane_and_never_raises_one(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    monkeypatch.setenv("AGENT_LANE", "free")
    assert lane(repo)[0] == "free"
    monkeypatch.setenv("AGENT_LANE", "human")
    assert lane(repo)[0] == "human"
    repo.commit({"src/app.py": "x = 3\n"}, by=BO)
    assert lane(repo)[0] == "unknown"


def test_a_merge_that_wrote_nothing_of_its_own_is_nobodys_work(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    repo.git("checkout", "-q", "main")
    repo.commit({"README": "r\n"}, by=BO)
    repo.git("checkout", "-q", "change")
    repo.git("-c", "user.name=x", "-c", "user.email=x@example.com", "merge", "-q", "--no-edit", "main")
    assert lane(repo)[0] == "human"


# -- what judges the change


def test_a_change_of_code_touches_nothing_that_judges(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 2\n", ".github/workflows/other.yml": "run: make all\n"})
    assert self_status(repo) == ("pass", "", ())


@pytest.mark.parametrize(
    "files",
    [
        {POLICY_FILE: "limit: 9\n"},
        {POLICY_FILE: None},
        {".drillmaster/allowed_signers": "ada ssh-ed25519 AAAA\n"},
        {".drillmaster/roster.yaml": ROSTER.replace("kind: bot", "kind: human")},
        {".drillmaster/new.json": "{}"},
        {".Drillmaster/canary-policy.yaml": "limit: 9\n"},
        {".github/workflows/gate.yml": "run: true\n"},
        {".github/workflows/gate.yml": None},
        {".github/workflows/gate2.yml": "run: drillmaster gate canary || true\n"},
        {".pre-commit-config.yaml": "repos: [drillmaster]\n"},
        {"CODEOWNERS": "* @nobody\n"},
        {"contracts/lock.json": "{}"},
    ],
)
def test_a_change_of_what_judges_it_fails(repo: Repo, files: dict[str, str | None]) -> None:
    repo.commit({**files, "src/app.py": "x = 2\n"}, signed="ada")
    status, why, stamps = self_status(repo, "contracts/lock.json")
    assert status == "fail" and stamps == ()
    assert next(iter(files)) in why


def test_a_file_that_moved_away_is_gone(repo: Repo) -> None:
    repo.git("mv", POLICY_FILE, "notes.yaml")
    repo.commit(signed="ada")
    status, why, _ = self_status(repo)
    assert status == "fail" and "deleted, or moved away" in why


def test_what_was_changed_and_changed_back_was_changed(repo: Repo) -> None:
    repo.commit({POLICY_FILE: "limit: 9\n"}, signed="ada")
    repo.commit({POLICY_FILE: "limit: 1\n", "src/app.py": "x = 2\n"}, signed="ada")
    status, why, _ = self_status(repo)
    assert status == "fail" and "changed back" in why


def test_a_link_in_its_place_is_no_policy(repo: Repo) -> None:
    (repo.path / POLICY_FILE).unlink()
    (repo.path / POLICY_FILE).symlink_to("../src/app.py")
    repo.commit(signed="ada")
    assert self_status(repo)[0] == "fail"


def test_somebody_else_of_the_roster_can_sign_it(repo: Repo) -> None:
    repo.write({POLICY_FILE: "limit: 9\n"})
    signed(repo, POLICY_FILE, "bo")
    repo.commit(by=ADA, signed="ada")
    status, why, stamps = self_status(repo)
    assert (status, stamps) == ("pass", ())
    assert why == f"{POLICY_FILE} by bo"


@pytest.mark.parametrize("who", ["ada", "robot", "gone", "stranger"])
def test_the_author_a_bot_and_nobody_cannot(repo: Repo, who: str) -> None:
    repo.write({POLICY_FILE: "limit: 9\n"})
    signed(repo, POLICY_FILE, who)
    repo.commit(by=ADA, signed="ada")
    assert self_status(repo)[0] == "fail"


def test_a_signature_of_what_it_was_before_is_none_of_what_it_is(repo: Repo) -> None:
    repo.write({POLICY_FILE: "limit: 5\n"})
    signed(repo, POLICY_FILE, "bo")
    repo.commit({POLICY_FILE: "limit: 9\n"}, signed="ada")
    assert self_status(repo)[0] == "fail"


def test_a_change_cannot_bring_its_own_signers(repo: Repo, keys: Keys) -> None:
    repo.write({POLICY_FILE: "limit: 9\n", ".drillmaster/allowed_signers": keys.allowed("mallory")})
    signed(repo, POLICY_FILE, "mallory")
    repo.commit(by=ADA)
    status, why, _ = self_status(repo)
    assert status == "fail" and "allowed_signers" in why and POLICY_FILE in why


def test_the_first_lists_are_the_bootstrap_and_say_so(tmp_path: Path, keys: Keys) -> None:
    made = Repo(tmp_path / "repo", keys)
    made.commit({"src/app.py": "x = 1\n", "CODEOWNERS": "* @ada\n"})
    made.branch("change")
    made.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada"),
            ".drillmaster/roster.yaml": ROSTER,
            POLICY_FILE: "limit: 1\n",
            ".github/workflows/gate.yml": "run: drillmaster gate canary\n",
        }
    )
    assert self_status(made)[::2] == ("pass", ("BOOTSTRAP",))
    made.commit({"CODEOWNERS": "* @nobody\n"})
    assert self_status(made)[0] == "fail"


def test_without_signers_at_the_base_a_policy_that_is_there_cannot_be_changed(tmp_path: Path) -> None:
    made = Repo(tmp_path / "repo")
    made.commit({POLICY_FILE: "limit: 1\n"})
    made.branch("change")
    made.commit({POLICY_FILE: "limit: 9\n"})
    status, why, stamps = self_status(made)
    assert (status, stamps) == ("fail", ()) and "no allowed_signers" in why


def test_a_policy_of_the_base_is_signed_where_the_base_knows_signers(repo: Repo) -> None:
    base = authority(repo)
    data = base.repo.read(base.base, POLICY_FILE)
    assert data is not None
    unsigned = base.policy_check(POLICY_FILE, data, base.signatures(base.base, POLICY_FILE))
    assert unsigned is not None and unsigned.status == "refused" and "policy sign" in unsigned.remedy
    repo.git("checkout", "-q", "main")
    signed(repo, POLICY_FILE, "bo")
    repo.commit()
    told = authority(repo)
    check = told.policy_check(POLICY_FILE, data, told.signatures(told.base, POLICY_FILE))
    assert check is not None and check.status == "pass" and check.title.endswith("by bo")


def test_a_withdrawn_key_signs_nothing(repo: Repo, keys: Keys) -> None:
    repo.git("checkout", "-q", "main")
    repo.write({".drillmaster/revoked_keys": keys.private("bo").with_suffix(".pub").read_text()})
    signed(repo, POLICY_FILE, "bo")
    repo.commit()
    told = authority(repo)
    data = told.repo.read(told.base, POLICY_FILE)
    check = told.policy_check(POLICY_FILE, data or b"", told.signatures(told.base, POLICY_FILE))
    assert check is not None and check.status == "refused"
