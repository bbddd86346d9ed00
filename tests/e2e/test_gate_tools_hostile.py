"""A server that is asked live and means harm: it takes no more time, memory, processes or words than it is given."""

import os
from pathlib import Path

import pytest

from tests.e2e.test_gate_tools import HEAD, SAY, gate, hand_made

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


HOSTILE = {
    "says empty lines without end": ("while True:\n    sys.stdout.write('\\n' * 65536)", "5,000 messages"),
    "never pauses": ("while True:\n    sys.stdout.write(json.dumps({'x': 'y' * 60000}) + '\\n')", "bytes in all"),
    "leaves folders deeper than a path can be": (
        "os.chdir(os.environ['HOME'])\nfor _ in range(3000):\n    os.mkdir('d' * 50)\n    os.chdir('d' * 50)",
        "it ended before",
    ),
    "leaves a folder that nobody may read": ("os.mkdir('x')\nos.mkdir('x/y')\nos.chmod('x', 0)", "it ended before"),
}


@pytest.mark.parametrize(("body", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_server_that_means_harm_is_refused_in_time(tmp_path: Path, state: Path, body: str, said: str) -> None:
    code, out, err = gate(hand_made(tmp_path, HEAD + SAY + body), "--live", "notes", state=state)
    assert code == 2, out + err
    assert said in err, err


def test_what_a_server_complains_of_is_screened(tmp_path: Path, state: Path) -> None:
    body = "raise SystemExit('no answer from postgres://app:' + 's3cr3tpw' + '@db/x, pass' + 'word=hunter2xyz')"
    code, out, err = gate(hand_made(tmp_path, HEAD + SAY + body), "--live", "notes", state=state)
    assert code == 2
    assert "no answer from" in err
    assert "s3cr3tpw" not in out + err and "hunter2xyz" not in out + err


def test_a_process_that_leaves_the_servers_session_ends_with_it(tmp_path: Path, state: Path) -> None:
    mark = tmp_path / "pid"
    body = (
        f"if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        open({str(mark)!r}, 'w').write(str(os.getpid()))\n"
        "        os.closerange(0, 3)\n        time.sleep(60)\n    os._exit(0)\nos.wait()\n"
        f"while not os.path.exists({str(mark)!r}) or not open({str(mark)!r}).read():\n    pass\n"
    )
    code, out, err = gate(hand_made(tmp_path, HEAD + SAY + body), "--live", "notes", state=state)
    assert code == 2, out + err
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
