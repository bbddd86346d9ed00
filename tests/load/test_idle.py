"""Who was connected, read from lists as the kernel prints them."""

from pathlib import Path

from drillmaster.load.idle import Neighbours

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LISTEN = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n"
THERE = "   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 2\n"
OTHER_SIDE = "   2: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 3\n"
ELSEWHERE = "   3: 0100007F:1F91 0100007F:C002 01 00000000:00000000 00:00000000 00000000     0        0 4\n"
OVER = "   4: 0100007F:C009 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0\n"
MAPPED = (
    "   5: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:C00A 01 "
    "00000000:00000000 00:00000000 00000000     0        0 5\n"
)


class Kernel:
    def __init__(self, folder: Path, four: str = LISTEN, six: str = "") -> None:
        self.paths = [folder / "tcp", folder / "tcp6"]
        self.say(four, six)

    def say(self, four: str, six: str = "") -> None:
        for path, text in zip(self.paths, (four, six), strict=True):
            path.write_text(HEAD + text)


def neighbours(kernel: Kernel, address: str = "127.0.0.1") -> Neighbours:
    return Neighbours(address, 8080, tables=kernel.paths, here=address == "127.0.0.1")


def test_nobody_is_proven(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, LISTEN + ELSEWHERE)
    one = neighbours(kernel)
    one.look()
    assert (one.seen().proven, one.seen().new, one.seen().standing) == (True, 0, 0)


def test_a_connection_that_comes_is_seen_also_when_it_is_over(tmp_path: Path) -> None:
    for line, six in ((THERE + OTHER_SIDE, ""), (OVER, ""), ("", MAPPED)):
        kernel = Kernel(tmp_path)
        one = neighbours(kernel)
        kernel.say(LISTEN + line, six)
        one.look()
        kernel.say(LISTEN)
        one.look()
        assert (one.seen().proven, one.seen().new) == (False, 1)


def test_what_was_over_before_is_nobody(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, LISTEN + OVER)
    one = neighbours(kernel)
    one.look()
    assert one.seen().proven is True


def test_a_connection_of_our_own_is_nobody(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, LISTEN + THERE + OTHER_SIDE)
    one = Neighbours("127.0.0.1", 8080, ours=0xC001, tables=kernel.paths, here=True)
    one.look()
    assert (one.seen().proven, one.seen().standing) == (True, 0)


def test_of_one_that_was_there_already_nothing_can_be_told(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, LISTEN + THERE + OTHER_SIDE)
    one = neighbours(kernel)
    one.look()
    assert (one.seen().proven, one.seen().standing) == (None, 1)
    kernel.say(LISTEN)
    one.look()
    assert (one.seen().proven, one.seen().standing) == (None, 1)


def test_of_another_machine_nothing_is_proven(tmp_path: Path) -> None:
    one = neighbours(Kernel(tmp_path), "192.0.2.7")
    assert one.seen().proven is None


def test_a_list_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.paths[0].unlink()
    assert neighbours(kernel).seen().proven is None
