"""Ways to bring a file that judges the change past the people of the base: old signatures, two names, no signers yet."""

import json
from pathlib import Path

import pytest

from drillmaster.errors import Problem
from drillmaster.intake.authority import Authority
from drillmaster.intake.git import Repository
from drillmaster.signing import EVIDENCE, POLICY, sign
from tests.e2e.repolab import ADA, BO, BOT, ROSTER, Keys, Repo
from tests.e2e.test_authority import NOW_NS, POLICY_FILE

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    """A repository whose policy was loose once, signed, and is strict now."""
    made = Repo(tmp_path / "repo", keys)
    lists = {".drillmaster/allowed_signers": keys.allowed("ada", "bo", "robot"), ".drillmaster/roster.yaml": ROSTER}
    made.write({**lists, POLICY_FILE: "limit: 9\n", "src/app.py": "x = 1\n"})
    signed(made, "bo")
    made.commit()
    made.write({POLICY_FILE: "limit: 1\n"})
    signed(made, "bo")
    made.commit()
    made.branch("change")
    return made


def signed(repo: Repo, who: str, *, namespace: str = POLICY, file: str = POLICY_FILE) -> None:
    assert repo.keys is not None
    (repo.path / f"{file}.sig").unlink(missing_ok=True)
    sign(repo.path / file, repo.keys.private(who), namespace=namespace)


def status(repo: Repo, *own: str, event: Path | None = None) -> tuple[str, str]:
    told = Authority(Repository.at(repo.path), "main", "HEAD", now_ns=NOW_NS, event=event)
    check, _ = told.self_check(own)
    return check.status, check.why


def test_an_old_policy_with_its_old_signature_is_not_brought_back_by_nobody(repo: Repo) -> None:
    """The signature of bo holds for ever; that the loose policy should hold again is nobody's word."""
    repo.git("checkout", "-q", "main~1", "--", POLICY_FILE, f"{POLICY_FILE}.sig")
    repo.commit(by="Eve <eve@example.com>")
    verdict, why = status(repo)
    assert verdict == "fail"
    assert "bo" in why and "lane unknown" in why


def test_nor_by_a_bot(repo: Repo) -> None:
    repo.git("checkout", "-q", "main~1", "--", POLICY_FILE, f"{POLICY_FILE}.sig")
    repo.commit(by=BOT, signed="robot")
    assert status(repo)[0] == "fail"


def test_a_person_may_bring_it_back(repo: Repo) -> None:
    repo.git("checkout", "-q", "main~1", "--", POLICY_FILE, f"{POLICY_FILE}.sig")
    repo.commit(by=ADA, signed="ada")
    assert status(repo)[0] == "pass"


def test_what_an_agent_drafted_counts_once_the_signer_commits_the_signature(repo: Repo) -> None:
    repo.commit({POLICY_FILE: "limit: 2\n"}, by=BOT)
    signed(repo, "bo")
    repo.commit(by=BO, signed="bo")
    assert status(repo) == ("pass", f"{POLICY_FILE} by bo")


def test_the_signers_other_commits_say_nothing_of_the_policy(repo: Repo) -> None:
    repo.commit({"src/app.py": "x = 3\n"}, by=BO, signed="bo")
    repo.git("checkout", "-q", "main~1", "--", POLICY_FILE, f"{POLICY_FILE}.sig")
    repo.commit(by="Eve <eve@example.com>")
    assert status(repo)[0] == "fail"


def test_a_signature_for_evidence_or_for_git_signs_no_policy(repo: Repo) -> None:
    for namespace in (EVIDENCE, "git", "file"):
        repo.write({POLICY_FILE: f"limit: 9 # {namespace}\n"})
        signed(repo, "bo", namespace=namespace)
        repo.commit(by=ADA, signed="ada")
        assert status(repo)[0] == "fail"


@pytest.mark.parametrize(
    "entry",
    [
        "{identity: ada2, emails: [ada@example.com]}",
        "{identity: ada2, emails: [ADA@example.com]}",
        "{identity: ada, emails: [other@example.com]}",
        "{identity: ADA, emails: [other@example.com]}",
        "{identity: ada2, emails: [other@example.com], logins: [Ada-L]}",
        "{identity: ada2, emails: [robot@example.com]}",
        "{identity: ada2, emails: [' ada@example.com']}",
        "{identity: '', emails: [other@example.com]}",
        "{identity: other, emails: ['']}",
    ],
)
def test_a_roster_in_which_one_person_is_two_is_refused(repo: Repo, entry: str) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({".drillmaster/roster.yaml": f"{ROSTER}  - {entry}\n"})
    repo.git("checkout", "-q", "-b", "later")
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    with pytest.raises(Problem, match="roster"):
        status(repo)


def test_one_person_with_several_addresses_and_one_twice_in_an_entry_is_one(repo: Repo) -> None:
    entry = "{identity: cy@example.com, emails: [cy@example.com, cy@example.com, c@example.com], logins: [cy, CY]}"
    repo.git("checkout", "-q", "main")
    repo.commit({".drillmaster/roster.yaml": f"{ROSTER}  - {entry}\n"})
    repo.git("checkout", "-q", "-b", "later")
    repo.commit({"src/app.py": "x = 2\n"}, signed="ada")
    assert status(repo)[0] == "pass"


def test_where_people_are_known_and_signers_are_not_nobody_adds_signers(tmp_path: Path, keys: Keys) -> None:
    made = Repo(tmp_path / "repo", keys)
    made.commit({".drillmaster/roster.yaml": ROSTER, POLICY_FILE: "limit: 1\n"})
    made.branch("change")
    head = made.commit({".drillmaster/allowed_signers": keys.allowed("ada")}, by="Eve <eve@example.com>")
    verdict, why = status(made)
    assert verdict == "fail" and "lane unknown" in why
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"user": {"login": "ada-l", "type": "User"}, "head": {"sha": head}}}))
    assert status(made, event=event)[0] == "pass"


@pytest.mark.parametrize(
    "path",
    [
        ".github/scripts/gate.sh", ".gitlab/ci/gate.yml", ".buildkite/pipeline.yml", "azure-pipelines.yml",
        "bitbucket-pipelines.yml", ".ci/run", ".tekton/gate.yaml", ".forgejo/workflows/gate.yml",
        ".gitea/workflows/gate.yml", ".githooks/pre-push", ".travis.yml", ".drone.yml", "Jenkinsfile", "lefthook.yml",
        "Makefile", "scripts/gate.sh", "tox.ini", "noxfile.py", "package.json", "justfile",
    ],
)  # fmt: skip  # words
def test_what_calls_a_gate_is_not_silenced(repo: Repo, path: str) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({path: "a:\n\tdrillmaster gate canary\n\tmake\n"})
    repo.git("checkout", "-q", "-b", "later")
    repo.commit({path: "a:\n\ttrue\n\tmake\n"}, signed="ada")
    verdict, why = status(repo)
    assert verdict == "fail" and path in why


@pytest.mark.parametrize("path", ["Makefile", "scripts/gate.sh", "package.json", "docs/gates.md", ".github/README.md"])
def test_another_line_of_a_file_that_calls_a_gate_is_everyday(repo: Repo, path: str) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({path: "a:\n\tdrillmaster gate canary\n\tmake\n"})
    repo.git("checkout", "-q", "-b", "later")
    repo.commit({path: "a:\n\tdrillmaster gate canary\n\tmake all\n"}, signed="ada")
    assert status(repo)[0] == "pass"


def test_a_merge_by_nobody_brings_no_old_state_back(repo: Repo) -> None:
    """Both parents are the base's own commits: there is no commit that a signature could be missing from, but for the merge."""
    who = {f"GIT_{role}_{part}": "eve" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    over = ("-p", "main~1", "-p", "main")
    name = repo.git("commit-tree", "main~1^{tree}", *over, "-m", "merge", env=who)
    repo.git("update-ref", "refs/heads/change", name)
    told = Authority(Repository.at(repo.path), "main", "change", now_ns=NOW_NS, event=None)
    assert told.diff().lane.name == "unknown"
    check, _ = told.self_check(())
    assert check.status == "fail"


@pytest.mark.parametrize(
    ("action", "sender", "lane"),
    [
        ("synchronize", {"login": "helper[bot]", "type": "Bot"}, "free"),
        ("synchronize", {"login": "helper", "type": "Bot"}, "free"),
        ("synchronize", {"login": "dependabot", "type": "User"}, "free"),
        ("synchronize", {"login": "bo-l", "type": "User"}, "human"),
        ("synchronize", {"login": "Ada-L", "type": "User"}, "human"),
        ("synchronize", {"login": 7, "type": "Bot"}, "human"),
        ("synchronize", [], "human"),
        ("labeled", {"login": "helper[bot]", "type": "Bot"}, "human"),
        ("opened", None, "human"),
    ],
)
def test_what_a_bot_pushed_to_a_persons_change_is_not_that_persons(
    repo: Repo, tmp_path: Path, action: str, sender: object, lane: str
) -> None:
    head = repo.commit({"src/app.py": "x = 4\n"}, by=ADA)
    event = tmp_path / "event.json"
    user = {"login": "ada-l", "type": "User"}
    said = {"action": action, "sender": sender, "pull_request": {"user": user, "head": {"sha": head}}}
    event.write_text(json.dumps(said))
    told = Authority(Repository.at(repo.path), "main", "HEAD", now_ns=NOW_NS, event=event)
    assert told.diff().lane.name == lane
