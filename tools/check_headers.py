#!/usr/bin/env python3
"""Compiles each header below src/ alone: a header includes what it needs.

    tools/check_headers.py --work FOLDER [--root DIR] COMPILER [FLAGS...]

FLAGS come from the build (include folders). Headers that see a library the build lacks are left
out by --without.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys


def compile_alone(header, work, command):
    """Returns what the compiler said, "" when all is well."""
    source = work / (header.replace("/", "__") + ".cc")
    text = f'#include "{header}"\n#include "{header}"\n'
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    run = subprocess.run(
        [*command, "-c", str(source), "-o", str(source) + ".o"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr if run.returncode else ""


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--work", required=True)
    parser.add_argument("--without", default="", help="leave out headers whose path holds this")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    source = pathlib.Path(options.root) / "src"
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    headers = sorted(h.relative_to(source).as_posix() for h in source.rglob("*.h"))
    # What only tests see gets its definitions from the test's own target.
    headers = [h for h in headers if "<gtest/" not in (source / h).read_text()]
    if options.without:
        headers = [h for h in headers if options.without not in h]
    # Through ccache an unchanged header costs a preprocessor run and no more.
    cached = ["ccache"] if shutil.which("ccache") else []
    command = [*cached, *options.command, "-std=c++20", "-O0", f"-I{source}"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda h: compile_alone(h, work, command), headers))
    bad = [(h, text) for h, text in zip(headers, said) if text]
    for header, text in bad:
        print(f"{header} does not compile alone:\n{text}")
    print(f"{len(headers) - len(bad)} of {len(headers)} headers compile alone")
    return 1 if bad or not headers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
