#!/usr/bin/env python3
"""Every check of tidy.py is registered as a test in tools/CMakeLists.txt."""

import pathlib
import re
import sys

import tidy


def main():
    text = (pathlib.Path(__file__).parent / "CMakeLists.txt").read_text()
    registered = set(re.search(r"foreach\(check ([^)]*)\)", text)[1].split())
    missing = set(tidy.CHECKS) ^ registered
    for name in sorted(missing):
        print(f"{name}: in only one of tidy.py and tools/CMakeLists.txt")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
