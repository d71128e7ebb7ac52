"""What a container says: numbered lines of 100 bytes, as fast as it can. Runs as the container's program, by its path.

`python3 writer.py LINES FOLDER`: says the first line, the others once FOLDER has `go`, and ends once it has `end`.
"""

from __future__ import annotations

import os
import sys
import time

LINE_BYTES = 100
FILLER = " epoch 3/10 batch 1234/5678 loss 0.123456 lr 0.00030000 grad 1.2345 812.5 samples/s gpu 87%"[:89]
TEXT = f"%010d{FILLER}"
"""The text of a line by its number, without the line's end."""
FIRST_DIGIT, DIGITS = -(LINE_BYTES - 1), 10
GO, END = "go", "end"
_BLOCK_LINES = 1000
_POLL_S = 0.01


def main(lines: int, folder: str) -> None:
    _say(0, 1)
    _wait_for(os.path.join(folder, GO))
    for first in range(1, lines, _BLOCK_LINES):
        _say(first, min(first + _BLOCK_LINES, lines))
    _wait_for(os.path.join(folder, END))


def _say(first: int, end: int) -> None:
    data = "".join([TEXT % number + "\n" for number in range(first, end)]).encode()
    while data:
        data = data[os.write(1, data) :]


def _wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(_POLL_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
