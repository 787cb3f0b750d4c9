"""What a peer prints."""

import sys
from io import StringIO
from pathlib import Path

from peerclust.cli.peer_printer import PeerPrinter


class Pieces(StringIO):
    """A stream that keeps what is written to it, call by call."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, text):
        self.pieces.append(text)
        return super().write(text)


def test_a_line_is_written_in_one_piece_as_several_threads_print(monkeypatch):
    stream = Pieces()
    monkeypatch.setattr(sys, "stderr", stream)
    for log_format in ("text", "json"):
        PeerPrinter("a", Path("out"), log_format, quiet=False).log("b is here.")
    assert [piece[-1] for piece in stream.pieces] == ["\n"] * 2
    assert [piece.count("b is here.") for piece in stream.pieces] == [1, 1]
