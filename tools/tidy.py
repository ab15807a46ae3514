#!/usr/bin/env python3
"""The rules of this repository that no compiler checks. Each rule is one function that yields
what breaks it.

    tools/tidy.py [--root DIR] [CHECK...]     all checks when none is named; exit status 1 when
    one fails
    tools/tidy.py --list

Rules about C++ text are in tidy_cpp.py, rules about prose and links in tidy_docs.py, this file
holds the architecture,
sizes and tests. tidy_test.py shows each of them failing on a planted fault.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import tidy_cpp
import tidy_docs

SKIPPED_FOLDERS = {".git", "build", ".deps", "__pycache__", ".pytest_cache", "out"}
LINES_MAX = {".cc": 500, ".h": 250, ".py": 500}
COLUMNS_MAX = 100

# Interfaces with pure virtual functions, all of them. A new one needs a record in docs/decisions.
SEAMS = {
    "src/io/file.h",
    "src/io/clock.h",
    "src/io/runner.h",
    "src/tokenlog/log.h",
    "src/payload/store.h",
    "src/engine/engine.h",
    "src/engine/executor.h",
}

# Tests that may skip themselves: file -> why. Empty on purpose.
SKIPS_ALLOWED = {}

OS_HEADERS = re.compile(
    r"(sys|netinet|arpa|linux)/\w+\.h|(unistd|fcntl|dirent|netdb|signal|pthread|sched|termios|time"
    r"|errno|poll|stdlib|string|stdio|immintrin)\.h"
)
TEST_HEADERS = ("gtest/", "gmock/", "rapidcheck")


class Tree:
    """The files of a working tree, read once."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.texts = {}
        for path in sorted(self.root.rglob("*")):
            relative = path.relative_to(self.root)
            if SKIPPED_FOLDERS.intersection(relative.parts) or not path.is_file():
                continue
            try:
                self.texts[relative.as_posix()] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # binary test data
        layers = self.texts.get("layers.json")
        self.layers = json.loads(layers) if layers else {"layers": {}, "shared_foreign": {}}

    def match(self, *suffixes):
        return [(n, t) for n, t in self.texts.items() if n.endswith(suffixes)]

    def cpp(self):
        return self.match(".cc", ".h")


def includes(text):
    """Yields (line number, '"' or '<' or '?', name)."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(?:(["<])([^">]+)[">]|(\S+))', line)
        if found:
            yield number, found[1] or "?", found[2] or found[3]


def home_of(name):
    """The folder whose rights a file has: a layer, "apps", "tests" or "bench"."""
    parts = name.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def check_layers(tree):
    """A folder of src/ includes only the folders that layers.json gives it."""
    layers = tree.layers["layers"]
    for layer, entry in layers.items():
        for dep in entry["deps"]:
            if layer in layers.get(dep, {"deps": []})["deps"]:
                yield f"layers.json: {layer} and {dep} may include each other"
    for name, text in tree.cpp():
        if not name.startswith(("src/", "apps/")):
            continue
        home = home_of(name)
        if name.startswith("src/") and home not in layers:
            yield f"{name}:1: folder {home} is not in layers.json"
            continue
        for number, kind, included in includes(text):
            if kind == "?":
                yield f"{name}:{number}: includes a macro, which hides what is included"
            if kind != '"':
                continue
            if f"src/{included}" not in tree.texts and not included.startswith("tenuto/"):
                if f"{name.rsplit('/', 1)[0]}/{included}" in tree.texts and home == "apps":
                    continue
                yield f"{name}:{number}: {included} is not a file below src/"
                continue
            layer = included.split("/")[0]
            if home in layers and layer != home and layer not in layers[home]["deps"]:
                yield f"{name}:{number}: {home} may not include {layer} ({included})"


def files_of_tests(tree):
    """Tests, and the headers that nothing but tests includes."""
    users = {}
    for name, text in tree.cpp():
        for _, kind, included in includes(text):
            if kind == '"':
                users.setdefault(included.rsplit("/", 1)[-1], set()).add(name)

    def only_for_tests(name, depth=0):
        if name.endswith("_test.cc") or name.startswith(("tests/", "bench/")):
            return True
        by = users.get(name.rsplit("/", 1)[-1], set()) if name.endswith(".h") and depth < 5 else ()
        return bool(by) and all(only_for_tests(user, depth + 1) for user in by)

    return {name for name, _ in tree.cpp() if only_for_tests(name)}


def check_foreign(tree):
    """Headers of other projects are seen only by their homes, and each has one."""
    layers, shared = tree.layers["layers"], tree.layers["shared_foreign"]
    homes = {}
    for layer, entry in layers.items():
        for prefix in entry["foreign"]:
            homes.setdefault(prefix, set()).add(layer)
    for prefix, folders in shared.items():
        if prefix != "about":
            homes.setdefault(prefix, set()).update(folders)
    test_files = files_of_tests(tree)
    for name, text in tree.cpp():
        if not name.startswith(("src/", "apps/")):
            continue
        for number, kind, included in includes(text):
            ours = kind != "<" or re.fullmatch(r"[a-z_0-9]+", included)
            if ours or OS_HEADERS.fullmatch(included):
                continue
            if included.startswith(TEST_HEADERS) and name in test_files:
                continue
            allowed = [folders for prefix, folders in homes.items() if included.startswith(prefix)]
            if not allowed:
                yield f"{name}:{number}: <{included}> has no home in layers.json"
            elif not any(home_of(name) in folders for folders in allowed):
                where = ", ".join(sorted(set().union(*allowed)))
                yield f"{name}:{number}: <{included}> belongs to {where} only"


def check_seams(tree):
    """Pure virtual functions only at the seams."""
    for name, text in tree.cpp():
        if name.startswith("src/") and name not in SEAMS and not name.endswith("_test.cc"):
            for number, line in enumerate(tidy_cpp.blank(text).splitlines(), 1):
                if re.search(r"\)[^;{]*=\s*0\s*;", line) and "virtual" in line:
                    yield f"{name}:{number}: a virtual interface that is no seam of tools/tidy.py"


def check_sizes(tree):
    """Files and lines stay short."""
    for name, text in tree.texts.items():
        suffix = pathlib.PurePosixPath(name).suffix
        lines = text.splitlines()
        limit = LINES_MAX.get(suffix)
        if limit and len(lines) > limit:
            yield f"{name}:{limit + 1}: {len(lines)} lines, at most {limit}"
        if suffix in LINES_MAX:
            for number, line in enumerate(lines, 1):
                if len(line) > COLUMNS_MAX and "http" not in line:
                    yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"


def check_ascii(tree):
    """Text is ASCII with newlines at the ends of lines; tests write other characters as escapes."""
    for name, text in tree.texts.items():
        if name == "LICENSE":
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not line.isascii():
                yield f"{name}:{number}: not ASCII: {ascii(line.strip())[:60]}"
            if line.endswith((" ", "\t")) and not name.endswith(".md"):
                yield f"{name}:{number}: space at the end of the line"
        if "\r" in text:
            yield f"{name}:1: carriage returns"
        if text and not text.endswith("\n"):
            yield f"{name}:{len(text.splitlines())}: no newline at the end"


def check_disabled(tree):
    """No test is off, commented out or skips itself."""
    cpp = re.compile(
        r"DISABLED_\w|GTEST_SKIP|//\s*(TEST(_[FP])?|RC_GTEST_PROP|add_test)\s*\(|#\s*if\s+0\b"
    )
    python = re.compile(r"pytest\.(mark\.)?(skip|xfail)|importorskip|unittest\.skip|#\s*def test_")
    cmake = re.compile(
        r"#\s*(add_test|add_executable|gtest_discover_tests)\s*\(|DISABLED\s+(TRUE|ON|1)"
    )
    for name, text in tree.texts.items():
        rule = {".cc": cpp, ".h": cpp, ".py": python, ".cmake": cmake, ".txt": cmake}.get(
            pathlib.PurePosixPath(name).suffix
        )
        if rule is None or name in SKIPS_ALLOWED or name.startswith("tools/tidy"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if rule.search(line):
                yield f"{name}:{number}: a test that is off: {line.strip()[:60]}"


# What libllama offers and src/ must not touch: the reason of each (docs/decisions/0002).
FORBIDDEN = {
    r"llama_memory_seq_(add|div)": "shifted KV is approximate, and multi-dimensional RoPE aborts",
    r"LLAMA_STATE_SEQ_FLAGS_ON_DEVICE": "a wrong state aborts, and the bytes outlive no process",
    r"kv_unified\s*=\s*false": "copying a part of a sequence across streams aborts",
}


def check_forbidden(tree):
    """Calls of libllama that abort or approximate appear nowhere in src/."""
    for name, text in tree.cpp():
        if not name.startswith("src/"):
            continue
        for number, line in enumerate(tidy_cpp.blank(text).splitlines(), 1):
            for pattern, reason in FORBIDDEN.items():
                if re.search(pattern, line):
                    yield f"{name}:{number}: {reason}"


def check_assertions(tree):
    """Every test asserts something."""
    asserting = re.compile(
        r"\b(EXPECT|ASSERT|RC|ADD_FAILURE|FAIL)(_\w+)?\(|\bcheck\("
        r"|\b(Expect|Check|Assert|Verify|Must)\w*\("
    )
    for name, text in tree.match("_test.cc"):
        if not re.search(r"^(TEST|TYPED_TEST|RC_GTEST)", text, re.M):
            yield f"{name}:1: no test in a test file"
        for line, head, body in tidy_cpp.functions(text):
            if re.match(r"\s*(TEST|TYPED_TEST|RC_GTEST)\w*\s*\(", head) and not asserting.search(
                body
            ):
                yield f"{name}:{line}: a test without an assertion"
    for name, text in tree.match(".py"):
        if not name.startswith("tests/"):
            continue
        for found in re.finditer(r"^( *)def (test_\w+)\(.*?(?=^\1\S|\Z)", text, re.M | re.S):
            if not re.search(
                r"\bassert\b|pytest\.raises|self\.assert|\b(expect|check)_\w+\(", found[0]
            ):
                line = text[: found.start()].count("\n") + 1
                yield f"{name}:{line}: {found[2]} asserts nothing"


def check_todo(tree):
    """A note of unfinished work carries the number of its issue."""
    words = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"))
    for name, text in tree.texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(rf"\b({words})\b(?!\s*\(#\d+\))", line):
                yield f"{name}:{number}: unfinished work without an issue number"


def check_format(tree):
    """clang-format has nothing to change."""
    if not shutil.which("clang-format"):
        yield "clang-format is missing: scripts/test installs it"
        return
    files = [str(tree.root / name) for name, _ in tree.cpp()]
    for start in range(0, len(files), 20):
        run = subprocess.run(
            ["clang-format", "--dry-run", *files[start : start + 20]],
            capture_output=True,
            text=True,
            check=False,
        )
        seen = set()
        for line in (run.stdout + run.stderr).splitlines():
            found = re.match(r"(.*?):(\d+):\d+: warning: code should be clang-formatted", line)
            if found and found[1] not in seen:
                seen.add(found[1])
                name = pathlib.Path(found[1]).relative_to(tree.root)
                yield f"{name}:{found[2]}: run clang-format -i"


CHECKS = {
    "layers": check_layers,
    "foreign": check_foreign,
    "seams": check_seams,
    "sizes": check_sizes,
    "functions": tidy_cpp.check_functions,
    "ascii": check_ascii,
    "disabled": check_disabled,
    "forbidden": check_forbidden,
    "assertions": check_assertions,
    "todo": check_todo,
    "format": check_format,
    "links": tidy_docs.check_links,
    "places": tidy_docs.check_places,
    "numbers": tidy_docs.check_numbers,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    arguments = parser.parse_args()
    if arguments.list:
        for name, check in CHECKS.items():
            print(f"{name:12} {check.__doc__}")
        return 0
    unknown = set(arguments.checks) - set(CHECKS)
    if unknown:
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    tree = Tree(arguments.root)
    if not tree.texts:
        parser.error(f"no files in {arguments.root}")
    problems = 0
    for name in arguments.checks or CHECKS:
        for problem in CHECKS[name](tree):
            print(f"{problem}  [{name}]")
            problems += 1
    print(f"{problems} problems" if problems else "clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
