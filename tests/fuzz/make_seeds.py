#!/usr/bin/env python3
"""Turns the vectors of a format into one binary file each, as seeds for a fuzz target.

Usage: make_seeds.py VECTORS OUT
"""

import pathlib
import sys


def main():
    vectors, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    for path in sorted(vectors.glob("v*/*.txt")):
        text = path.read_text().split("bytes:\n", 1)[1]
        (out / (path.parent.name + "_" + path.stem)).write_bytes(bytes.fromhex(text))
        count += 1
    if count == 0:
        sys.exit("no vectors in %s" % vectors)


if __name__ == "__main__":
    main()
