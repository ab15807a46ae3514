#!/usr/bin/env python3
"""Adds up a JUnit file that ctest wrote: prints "PASSED FAILED", or with --failed the names of
what failed.

Whatever did not pass counts as failed: not built, timed out, crashed, not found, and skipped too,
because this project has no tests that skip.
"""

import sys
import xml.etree.ElementTree as ElementTree


def read(path):
    """Returns (names that passed, names that did not)."""
    passed, failed = [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        bad = bad or case.get("status", "run") != "run"
        (failed if bad else passed).append(case.get("name"))
    return passed, failed


def main(arguments):
    names_only = arguments[:1] == ["--failed"]
    try:
        passed, failed = read(arguments[-1])
    except (OSError, ElementTree.ParseError) as error:
        print(f"{arguments[-1]}: {error}", file=sys.stderr)
        return 1
    if not passed and not failed:
        print(f"{arguments[-1]}: no test in it", file=sys.stderr)
        return 1
    if names_only:
        print("\n".join(failed))
    else:
        print(len(passed), len(failed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
