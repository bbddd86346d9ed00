"""The oracle gate over real repositories: signatures, lanes, names that git quotes, links, and the command line."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.repolab import ADA, BOT, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

ROSTER = """kind: roster
version: 1
people:
  - {identity: ada, emails: [ada@example.com], logins: [ada-l], teams: [qa-lead, payments-oncall]}
  - {identity: bo, emails: [bo@example.com], logins: [bo-l], teams: [maintainers]}
  - {identity: robot, emails: [robot@example.com], logins: [robot-l], kind: bot}
"""
OWNERS = (
    "# glob<TAB>owner<TAB>source\ncontracts/*.json\tpayments-oncall\tgit-pin\n"
    "fixtures/http/*.json\tpayments-oncall\tstaging-record\n"
)
TEST = "from pay import charge\n\n\ndef test_a():\n    assert charge(1) == 3\n    assert charge(2) == 4\n"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    made = Repo(tmp_path / "repo", keys)
    made.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo", "robot"),
            ".drillmaster/roster.yaml": ROSTER,
            ".oracle-owners": OWNERS,
            "contracts/pay.json": "{}\n",
            "fixtures/http/a.json": "{}\n",
            "src/pay.py": "x = 1\n",
            "tests/test_pay.py": TEST,
        }
    )
    made.branch("change")
    return made


def gate(repo: Repo, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "AGENT_", "ORACLE_"))}
    base |= {"XDG_STATE_HOME": str(repo.path.parent / "state"), **(env or {})}
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "oracle", "--repo", str(repo.path), *args],
        capture_output=True,
        text=True,
        env=base,
        timeout=120,
        cwd=repo.path,
    )


def mapped(repo: Repo, *args: str, env: dict[str, str] | None = None) -> int:
    done = gate(repo, "--base", "main", "--exit-map", "articles", *args, env=env)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def test_a_person_s_signed_change_of_product_passes(repo: Repo) -> None:
    repo.commit({"src/pay.py": "x = 2\n"}, signed="ada")
    assert mapped(repo) == 0


def test_nobody_s_change_of_an_oracle_fails(repo: Repo) -> None:
    repo.commit({"contracts/pay.json": "[]\n"})  # unsigned: the author line is anybody's
    done = gate(repo, "--base", "main", "--exit-map", "articles")
    assert done.returncode == 12, done.stdout + done.stderr
    assert "refuse: free lane touched an oracle file" in done.stdout
    assert "lane=unknown oracles=['contracts/pay.json'] product=[]" in done.stdout


@pytest.mark.parametrize("lane", ["free", "Free", "free ", "free-tier", "unknown"])
def test_the_environment_lowers_a_lane(repo: Repo, lane: str) -> None:
    repo.commit({"contracts/pay.json": "[]\n"}, signed="ada")
    assert mapped(repo, env={"AGENT_LANE": lane}) == 12


@pytest.mark.parametrize("lane", ["human", "", "HUMAN"])
def test_the_environment_raises_no_lane(repo: Repo, lane: str) -> None:
    repo.commit({"contracts/pay.json": "[]\n"}, by=BOT)
    assert mapped(repo, env={"AGENT_LANE": lane}) == 12


def test_an_oracle_alone_and_signed_passes(repo: Repo) -> None:
    repo.commit({"contracts/pay.json": "[]\n"}, signed="ada")
    assert mapped(repo) == 0


@pytest.mark.parametrize(
    "name", ["fixtures/http/é.json", 'fixtures/http/a "b".json', "fixtures/http/a\nb.json", "fixtures/http/a\tb.json"]
)
def test_names_that_git_quotes_are_names(repo: Repo, name: str) -> None:
    repo.commit({name: "{}\n"}, by=BOT)
    assert mapped(repo) == 12


def test_an_oracle_that_is_renamed_away_was_touched(repo: Repo) -> None:
    repo.git("mv", "contracts/pay.json", "src/pay.json")
    repo.commit({}, by=BOT)
    assert mapped(repo) == 12


def test_an_oracle_and_product_in_one_commit_fails_for_a_person_too(repo: Repo) -> None:
    repo.commit({"contracts/pay.json": "[]\n", "src/pay.ts": "x\n"}, signed="ada")
    done = gate(repo, "--base", "main", "--json")
    assert done.returncode == 1
    status = {one["id"]: one["status"] for one in json.loads(done.stdout)["checks"]}
    assert (status["mixed"], status["mixed-commit"]) == ("fail", "fail")


def test_the_list_of_the_change_is_not_asked(repo: Repo) -> None:
    repo.commit({".oracle-owners": "gone/*\tqa-lead\tgit-pin\n", "contracts/pay.json": "[]\n"}, by=BOT)
    assert mapped(repo) == 12


def test_a_list_that_the_change_deletes_still_judges_it(repo: Repo) -> None:
    repo.commit({".oracle-owners": None}, by=BOT)
    assert mapped(repo) == 12


def test_a_base_without_a_list_is_refused_with_the_line_to_write(repo: Repo) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({".oracle-owners": None})
    repo.git("checkout", "-q", "change")
    repo.commit({"src/pay.py": "x = 2\n"}, signed="ada")
    done = gate(repo, "--base", "main", "--exit-map", "articles")
    assert done.returncode == 2
    assert "printf" in done.stdout and ">> .oracle-owners" in done.stdout
    assert "globs" not in done.stdout


def test_a_change_that_brings_the_first_list_is_told_to_merge_it_and_not_to_write_it_again(repo: Repo) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({".oracle-owners": None})
    repo.git("checkout", "-q", "-B", "change")
    repo.commit({".oracle-owners": OWNERS}, signed="ada")
    done = gate(repo, "--base", "main")
    assert done.returncode == 2
    assert "mend owners: merge the .oracle-owners that this change brings" in done.stdout
    assert "printf" not in done.stdout


def test_nothing_that_differs_is_refused(repo: Repo) -> None:
    assert mapped(repo) == 2


@pytest.mark.parametrize("said", ["origin/main...HEAD", "main..HEAD", "nonsense", "...", "-x...HEAD"])
def test_a_range_that_is_none_is_refused(repo: Repo, said: str) -> None:
    done = gate(repo, "--exit-map", "articles", env={"ORACLE_DIFF": said})
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


def test_the_article_s_range_is_taken(repo: Repo) -> None:
    repo.commit({"contracts/pay.json": "[]\n"}, by=BOT)
    assert gate(repo, "--exit-map", "articles", env={"ORACLE_DIFF": "main...HEAD"}).returncode == 12


def test_without_a_range_the_refusal_names_the_option(repo: Repo) -> None:
    done = gate(repo)
    assert done.returncode == 2
    assert "--base origin/main" in done.stderr


def test_a_folder_of_fixtures_that_becomes_a_link_fails(repo: Repo) -> None:
    repo.write({"fixtures/http/a.json": None})
    (repo.path / "fixtures/http").rmdir()
    (repo.path / "fixtures/http").symlink_to("../src")
    repo.commit({}, signed="ada")
    assert mapped(repo) == 12


def test_a_weakened_test_of_a_person_fails(repo: Repo) -> None:
    repo.commit({"tests/test_pay.py": TEST.replace("charge(2) == 4", "charge(2)")}, signed="ada")
    done = gate(repo, "--base", "main")
    assert done.returncode == 1
    assert "tests/test_pay.py:6" in done.stdout


def test_the_event_of_the_code_host_says_who_made_it(repo: Repo, tmp_path: Path) -> None:
    head = repo.commit({"contracts/pay.json": "[]\n"}, by=ADA)
    event = tmp_path / "event.json"
    for login, code in (("ada-l", 0), ("robot-l", 12), ("who", 12)):
        event.write_text(
            json.dumps({"pull_request": {"user": {"login": login, "type": "User"}, "head": {"sha": head}}})
        )
        assert mapped(repo, "--event", str(event)) == code


def test_a_runner_with_a_deploy_key_fails_an_agent_s_change(repo: Repo) -> None:
    repo.commit({"src/pay.py": "x = 2\n"}, by=BOT)
    assert mapped(repo) == 0
    assert mapped(repo, env={"DEPLOY_KEY": "x"}) == 12


@pytest.mark.parametrize(
    ("files", "lane", "code"),
    [
        ({"contracts/pay.json": "[]\n"}, "free", 12),
        ({"contracts/pay.json": "[]\n"}, "", 12),  # nobody's, which the script lets through
        ({"contracts/pay.json": "[]\n"}, "human", 12),  # nobody's but for a word
        ({"contracts/pay.json": "[]\n", "src/pay.py": "x = 2\n"}, "human", 12),
        (
            {
                "src/pay.py": "x = 2\n",
                "tests/test_new.py": "from pay import charge\n\n\ndef test_n():\n    assert charge(1)\n",
            },
            "free",
            12,
        ),
        ({"src/pay.py": "x = 2\n"}, "free", 0),
        ({"src/pay.py": "x = 2\n"}, "", 0),
        ({"tests/scratch/test_sketch.py": "def test_sketch():\n    assert True\n"}, "free", 0),
        ({}, "free", 2),
    ],
)
def test_a_repository_with_the_article_s_list_alone(
    tmp_path: Path, files: dict[str, str], lane: str, code: int
) -> None:
    bare = Repo(tmp_path / "bare")
    bare.commit({".oracle-owners": OWNERS, "contracts/pay.json": "{}\n", "src/pay.py": "x = 1\n"})
    bare.branch("change")
    if files:
        bare.commit(files)
    assert mapped(bare, env={"AGENT_LANE": lane}) == code


def test_five_thousand_files_take_seconds(repo: Repo) -> None:
    repo.commit({f"src/a{n % 50}/b{n}.py": f"x = {n}\n" for n in range(4_600)}, signed="ada")
    repo.commit({f"tests/t{n % 20}/test_b{n}.py": TEST for n in range(400)}, signed="ada")
    begun = time.monotonic()
    assert mapped(repo) == 0
    assert time.monotonic() - begun < 30
