"""The fault `split-utf8`, played by hand."""

import pytest

from tests.faults.streamlab import PATHS, body_of, play, streamed

WORDS = ("Grüße", " aus", " 東京", " 🙂", " é")


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("size", [1, 2, 7, 64, 65_536])
def test_the_same_bytes_come_in_other_pieces(dialect: str, size: int) -> None:
    upstream = streamed(dialect, words=WORDS)
    played = play("split-utf8", upstream, dialect=dialect, bytes=size, max_actions=30_000)
    assert (played.body, played.end, played.met) == (body_of(upstream), "end", True)
    assert all(len(piece) == size for piece in played.pieces[:-1])
    assert 0 < len(played.pieces[-1]) <= size


def test_characters_are_cut_in_two() -> None:
    played = play("split-utf8", streamed("openai_chat", words=WORDS), bytes=1, max_actions=30_000)
    with pytest.raises(UnicodeDecodeError):
        for piece in played.pieces:
            piece.decode()
