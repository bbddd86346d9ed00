"""A lab host's own file, routing tables as kernels and iproute2 print them, images, and the repository's paths."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.gates._cases.leases import LIMITS
from drillmaster.gates._leases_evidence import Environment, Route
from drillmaster.intake.image_environment import of_dockerfile, of_inspection, open_image
from drillmaster.intake.lease_lab import environment_of, open_lab
from drillmaster.intake.lease_paths import lying
from drillmaster.intake.routes import of_ip, of_proc_ipv4, of_proc_ipv6

FILE: dict[str, Any] = {
    "kind": "lease-lab",
    "version": 1,
    "subject": {"host": "lab-7"},
    "produced_by": {"by": "drillmaster 0.1.0", "revision": ""},
    "produced_at": "2026-11-30T15:00:00Z",
    "data": {
        "environments": [{"of": "the shell that asked", "names": ["HOME", "PATH"]}],
        "tables": "main",
        "routes": [
            {"to": "0.0.0.0/0", "via": "192.0.2.1", "dev": "eth0", "metric": 0, "rejects": False, "table": "main"}
        ],
    },
}


def opened(folder: Path, document: object) -> Any:
    path = folder / "lease-lab.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return open_lab(path)[0]


def with_(pointer: str, value: object) -> dict[str, Any]:
    """The good file with another value at one place."""
    copy: dict[str, Any] = json.loads(json.dumps(FILE))
    at: Any = copy
    *way, last = pointer.split("/")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = value
    return copy


def test_a_host_s_file_is_read(tmp_path: Path) -> None:
    lab = opened(tmp_path, FILE)
    assert (lab.host, lab.tables, lab.environments[0].names) == ("lab-7", "main", ("HOME", "PATH"))
    assert lab.routes == (Route(to="0.0.0.0/0", via="192.0.2.1", dev="eth0"),)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{}",
        "HOME=/root\nETCD_PASSWORD=hunter2\n",  # what env printed
        with_("kind", "canary-metrics"),
        with_("version", 2),
        with_("subject/host", ""),
        with_("produced_at", "yesterday"),
        with_("produced_at", "2026-11-30T15:00:00"),
        with_("produced_by/revision", "main"),
        with_("data/environments", []),
        with_("data/environments/0/names", ["ETCD_PASSWORD=hunter2"]),
        with_("data/environments/0/names", [""]),
        with_("data/environments/0/names", ["A\0B"]),
        with_("data/tables", "some"),
        with_("data/routes/0/to", "default"),
        with_("data/routes/0/to", "prod.example"),
        with_("data/routes/0/via", "gateway"),
        with_("data/routes/0/metric", "0"),
        with_("data/values", {"ETCD_PASSWORD": "hunter2"}),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, document: object) -> None:
    with pytest.raises(Problem) as told:
        opened(tmp_path, document)
    assert told.value.remedy


def test_of_an_environment_the_names_are_kept_and_no_value() -> None:
    found = environment_of({"FOO": "xLOCKx", "BLOCKSIZE": "512", "A\udcff": "1"}, None)
    assert found == Environment(of="the shell that asked", names=("A\\udcff", "BLOCKSIZE", "FOO"))
    assert "xLOCKx" not in repr(found)


PROC = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
*\t0000140A\t00000000\t0200\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0700090A\t010200C0\t0007\t0\t0\t0\tFFFFFFFF\t0\t0\t0
eth2\t0000000A\t00000000\t0000\t0\t0\t0\t000000FF\t0\t0\t0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is of a little-endian machine")
def test_the_kernels_table_of_ipv4() -> None:
    assert of_proc_ipv4(PROC) == (
        Route(to="0.0.0.0/0", via="192.0.2.1", dev="eth0", metric=100),
        Route(to="192.0.2.0/24", dev="eth0"),
        Route(to="10.20.0.0/24", dev="*", rejects=True),
        Route(to="10.9.0.7/32", via="192.0.2.1", dev="eth1"),
    )  # the last is of an interface that is down


PROC6 = """\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
"""  # noqa: E501 - as the kernel prints it


def test_the_kernels_table_of_ipv6() -> None:
    assert of_proc_ipv6(PROC6) == (
        Route(to="fd00::/64", dev="eth0", metric=256),
        Route(to="::/0", via="fd00::1", dev="eth0", metric=1024),
        Route(to="::/0", dev="lo", metric=2**32 - 1, rejects=True),
    )


IP = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0", "metric": 100, "flags": []},
    {"dst": "192.0.2.0/24", "dev": "eth0", "scope": "link", "flags": []},
    {"type": "blackhole", "dst": "10.20.0.0/24", "flags": []},
    {"type": "unreachable", "dst": "10.9.0.7", "metric": 7, "flags": []},
    {"type": "throw", "dst": "10.1.0.0/16", "flags": []},
    # These throw away what has this mark, or comes from there; anything else goes on.
    {"type": "blackhole", "dst": "10.21.0.0/24", "tos": "0x10", "flags": []},
    {"type": "blackhole", "dst": "10.22.0.0/24", "from": "10.9.0.0/16", "flags": []},
    {"type": "local", "dst": "127.0.0.0/8", "dev": "lo", "table": "local", "flags": []},
    {"type": "local", "dst": "10.20.0.7", "dev": "lo", "table": "local", "flags": []},
    {"type": "broadcast", "dst": "192.0.2.255", "dev": "eth0", "table": "local", "flags": []},
    {"dst": "default", "dev": "wg0", "table": "51820", "scope": "link", "flags": []},
    {
        "dst": "10.2.0.0/16",
        "flags": [],
        "nexthops": [{"gateway": "192.0.2.9", "dev": "eth0", "weight": 1}, {"dev": "eth1"}],
    },
    {"dst": "10.3.0.0/16", "via": {"family": "inet6", "host": "fe80::1"}, "dev": "eth0", "flags": []},
]


def test_the_tables_that_iproute2_prints() -> None:
    assert of_ip(json.dumps(IP), 4) == (
        Route(to="0.0.0.0/0", via="192.0.2.1", dev="eth0", metric=100),
        Route(to="192.0.2.0/24", dev="eth0"),
        Route(to="10.20.0.0/24", rejects=True),
        Route(to="10.9.0.7/32", metric=7, rejects=True),
        Route(to="127.0.0.0/8", dev="lo", table="local"),  # who holds a lock host's address is that host
        Route(to="10.20.0.7/32", dev="lo", table="local"),
        Route(to="0.0.0.0/0", dev="wg0", table="51820"),
        Route(to="10.2.0.0/16", via="192.0.2.9", dev="eth0"),
        Route(to="10.3.0.0/16", via="fe80::1", dev="eth0"),
    )
    assert of_ip("", 6) == () and of_ip("[]", 6) == ()
    assert of_ip('[{"dst": "default", "gateway": "fe80::1", "dev": "eth0"}]', 6)[0].to == "::/0"


@pytest.mark.parametrize(
    "text", ["default via 192.0.2.1", "{}", "[7]", '[{"dst": "x"}]', '[{"dst": null}]', "[" * 100_000]
)
def test_a_table_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        of_ip(text, 4)


@given(st.text(max_size=200))
def test_no_text_crashes_a_reader_of_tables(text: str) -> None:
    for read in (of_proc_ipv4, of_proc_ipv6, lambda said: of_ip(said, 4)):
        try:
            read(f"head\n{text}")
        except Problem as problem:
            assert problem.wanted


# Images


def test_what_docker_and_oci_say_of_an_image(tmp_path: Path) -> None:
    docker = [
        {"Id": "sha256:1", "Config": {"Env": ["PATH=/bin", "ETCD_PASSWORD=hunter2", "EMPTY=", "BARE"], "Cmd": ["sh"]}}
    ]
    assert of_inspection(docker, "image.json") == ("PATH", "ETCD_PASSWORD", "EMPTY", "BARE")
    assert of_inspection({"config": {"Env": ["A=b=c"]}, "rootfs": {}}, "image.json") == ("A",)
    assert of_inspection([{"Config": {"Env": None, "Cmd": None}}], "image.json") == ()
    (tmp_path / "image.json").write_text(json.dumps(docker))
    image, _ = open_image(tmp_path / "image.json")
    assert image.kind == "inspected" and "hunter2" not in repr(image)


@pytest.mark.parametrize(
    "value", [[], {}, [{}], None, "x", [{"Config": {}}], [{"Config": {"Env": {"A": "b"}}}], [{"Config": {"Env": [7]}}]]
)
def test_an_inspection_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(Problem):
        of_inspection(value, "image.json")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("FROM x\nENV A=b", ["A"]),
        ("FROM x\nENV A=b C=\"d e\" F='g h' I=j\\ k", ["A", "C", "F", "I"]),
        ("FROM x\nENV A b=c LOCK_X=1", ["A"]),  # the old form: all that follows is the value
        ("FROM x\nenv A=b \\\n    # a comment\n    DLM_TOKEN=c\n", ["A", "DLM_TOKEN"]),
        ("FROM x\nARG ETCD_PASSWORD\nARG B=c D", ["ETCD_PASSWORD", "B", "D"]),
        ("FROM a AS one\nENV EARLY=1\nFROM b\nENV LATE=2", ["EARLY", "LATE"]),
        ("# escape=`\nFROM x\nENV A=b `\n C=d", ["A", "C"]),
        ("FROM x\nRUN <<EOF\nENV NOT=this\nEOF\nENV A=b", ["A"]),
        ("FROM x\nRUN export LOCK_TOKEN=1\n# ENV NO=1\nLABEL ENV=1", []),
        ('FROM x\nENV "A"=b', ["A"]),
        ("FROM x\nONBUILD ENV DLM_TOKEN=b\nONBUILD ARG C", ["DLM_TOKEN", "C"]),
        ("FROM x\nARG \"ETCD_PASSWORD=a b\" 'C'", ["ETCD_PASSWORD", "C"]),
        ('FROM x\nRUN echo "<<EOF"\nENV DLM_TOKEN=1\n#\nRUN true # EOF\nEOF', ["DLM_TOKEN"]),
        ("FROM x\nRUN cat <<<EOF\nENV DLM_TOKEN=1\nEOF", ["DLM_TOKEN"]),
        ("FROM x\nRUN x=$((1<<EOF))\nENV DLM_TOKEN=1\nEOF", ["DLM_TOKEN"]),
        ("FROM x\nRUN cat <<EOF\nENV A=1\n", ["A"]),  # it never ends: what follows counts
        ("FROM x\nCOPY <<-'EOF' /x\nENV NOT=1\n\tEOF\nENV A=1", ["A"]),
        ("\ufeffFROM x\nENV A=1", ["A"]),
    ],
)
def test_what_a_dockerfile_sets(text: str, names: list[str]) -> None:
    assert list(of_dockerfile(text, "Dockerfile")) == names


@pytest.mark.parametrize("data", [b"", b"ENV A=b\n", b"\xff\xfe", b'{"Config": {}}'])
def test_a_file_that_is_no_dockerfile_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "Dockerfile").write_bytes(data)
    with pytest.raises(Problem):
        open_image(tmp_path / "Dockerfile")


# Paths


def tree(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def test_paths_are_searched_as_they_lie_and_no_text_is_kept(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "app/locks/client.py": "def renew(lock): ...\n",
            "app/prompts/a.md": "Hello hunter2,\nplease give me the fencing_token.\n",
            "app/prompts/deep/b.md": "renew it\n",
            "app/other/c.md": "renew\n",
        },
    )
    locks, prompts = lying(LIMITS, tmp_path)
    assert (locks.files, [hit.word for hit in locks.hits]) == (1, ["renew"])
    assert [(hit.file, hit.line, hit.kind) for hit in prompts.hits] == [
        ("app/prompts/a.md", 2, "token"),
        ("app/prompts/deep/b.md", 1, "verb"),
    ]
    assert prompts.files == 2 and "hunter2" not in repr(prompts)


def test_a_path_that_is_not_there_and_files_that_are_no_text_are_told(tmp_path: Path) -> None:
    tree(tmp_path, {"app/prompts/a.bin": b"\xff\xfe", "app/prompts/zero.md": b"a\0b", "app/prompts/good.md": "fine\n"})
    (tmp_path / "app/prompts/link.md").symlink_to("/etc/hostname")
    (tmp_path / "app/prompts/folder").symlink_to(tmp_path)
    locks, prompts = lying(LIMITS, tmp_path)
    assert locks.missing == "not there"
    assert prompts.files == 1
    assert set(prompts.unread) == {
        "app/prompts/a.bin",
        "app/prompts/zero.md",
        "app/prompts/link.md",
        "app/prompts/folder",
    }


def test_a_file_that_lies_elsewhere_and_left_its_pointer_here_was_not_read(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 12\n"
    tree(tmp_path, {"app/locks/x.py": "renew\n", "app/prompts/a.md": pointer, "app/prompts/b.md": "fine\n"})
    _, prompts = lying(LIMITS, tmp_path)
    assert (prompts.unread, prompts.files) == (("app/prompts/a.md",), 1)


def test_one_file_may_be_named_as_a_path(tmp_path: Path) -> None:
    import msgspec

    tree(tmp_path, {"app/locks/x.py": "renew\n", "prompts.md": "steal the lock\n"})
    gate = msgspec.structs.replace(LIMITS, prompt_paths=("prompts.md",))
    _, prompts = lying(gate, tmp_path)
    assert [(hit.file, hit.line) for hit in prompts.hits] == [("prompts.md", 1)]
