"""Rules about prose: links lead somewhere, no machine's own paths, and numbers in the docs are
those of the code.
"""

import ast
import operator
import posixpath
import re

# Split so that this file does not trip over itself.
PLACES = [
    "/wor" + "k/",
    "/ro" + "ot/",
    "/ho" + "me/",
    ".py" + "env",
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "debian" + ".org/",
    "proxy.golang" + ".org",
    "registry.npm" + "js",
    "shared/" + "design",
    "shared/" + "notes",
]
PLACES_ALLOWED = {"LICENSE"}


def anchor(heading):
    heading = re.sub(r"[`*]", "", heading.strip().lower())
    return re.sub(r"[^a-z0-9 _-]", "", heading).replace(" ", "-")


def check_links(tree):
    """Links between pages, and pages that the code points to, exist."""
    for name, text in tree.match(".md"):
        prose = re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.S)
        for found in re.finditer(r"\]\(([^)\s]+)\)", prose):
            target, _, fragment = found[1].partition("#")
            line = prose[: found.start()].count("\n") + 1
            if re.match(r"[a-z]+:", target):
                continue
            path = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                if target
                else name
            )
            if not (tree.root / path).exists():
                yield f"{name}:{line}: {found[1]} leads nowhere"
            elif fragment and path.endswith(".md"):
                headings = re.findall(r"^#+ (.*)$", tree.texts.get(path, ""), re.M)
                if fragment not in map(anchor, headings):
                    yield f"{name}:{line}: {path} has no heading #{fragment}"
    for name, text in tree.match(".cc", ".h", ".py", ".cmake", ".txt", ".toml"):
        if name.startswith("tools/tidy"):
            continue
        for found in re.finditer(r"\bdocs/[\w/.-]*\w\.md\b", text):
            if not (tree.root / found[0]).exists():
                yield f"{name}:{text[:found.start()].count(chr(10)) + 1}: {found[0]} does not exist"


def check_places(tree):
    """The repository names no machine's own folders and no package host."""
    pattern = re.compile("|".join(map(re.escape, PLACES)))
    for name, text in tree.texts.items():
        if name in PLACES_ALLOWED:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = pattern.search(line)
            # Tests may speak of somebody's home folder.
            if found and not (found[0] == PLACES[2] and name.endswith("_test.cc")):
                yield f"{name}:{number}: names a place of one machine: {found[0]}"


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.LShift: operator.lshift,
}


def evaluate(node, names):
    """An integer expression over known names, or None."""
    if isinstance(node, ast.Expression):
        return evaluate(node.body, names)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = evaluate(node.left, names), evaluate(node.right, names)
        return None if left is None or right is None else OPERATORS[type(node.op)](left, right)
    return None


def constants(tree):
    """All constexpr numbers of the headers and sources by name."""
    names = {}
    for _ in range(2):  # twice: a constant may use one of a later file
        for _, text in tree.cpp():
            for found in re.finditer(r"constexpr\s+[\w:]+\s+(k[A-Z]\w*)\s*=\s*([^;{}]+);", text):
                expression = re.sub(
                    r"(?<=[0-9a-fA-F])(u|ull|ul|ll|l|U|ULL|UL|LL|L)\b|'", "", found[2]
                )
                try:
                    value = evaluate(ast.parse(expression.strip(), mode="eval"), names)
                except SyntaxError:
                    continue
                if value is not None:
                    names[found[1]] = value
    return names


def check_format_page(tree, page, text, names):
    """A format's page says "version N" and names the code that has this N as a k...Version."""
    versions = set()
    for path in re.findall(r"\b(?:src|apps)/[\w/]+\.(?:h|cc)\b", text):
        versions.update(
            re.findall(r"constexpr\s+[\w:]+\s+(k\w*(?:Version|Format))\b", tree.texts.get(path, ""))
        )
    stated = re.search(r"\b(?:[Vv]ersion|[Ff]ormat) (\d+)\b", text)
    if not versions or not stated:
        yield f"{page}:1: a format's page says 'version N' and names the file of its k...Version"
    elif int(stated[1]) not in [names.get(version) for version in versions]:
        line = text[: stated.start()].count("\n") + 1
        yield f"{page}:{line}: version {stated[1]} here, not that of {', '.join(sorted(versions))}"


def check_numbers(tree):
    """`kName` = VALUE in the docs is what the code says; the newest change log entry is CMake's
    version.
    """
    names = constants(tree)
    for page, text in tree.match(".md"):
        for found in re.finditer(
            r"`(k[A-Z]\w*)`\s*(?:=|\()\s*`?(0x[0-9a-fA-F]+|[0-9][0-9,]*)", text
        ):
            line = text[: found.start()].count("\n") + 1
            value = int(found[2].replace(",", ""), 0)
            if found[1] not in names:
                yield f"{page}:{line}: the code has no number {found[1]}"
            elif names[found[1]] != value:
                yield f"{page}:{line}: {found[1]} is {names[found[1]]} in the code, {value} here"
        if page.startswith("docs/formats/"):
            yield from check_format_page(tree, page, text, names)
    project = re.search(r"project\([^)]*VERSION ([\d.]+)", tree.texts.get("CMakeLists.txt", ""))
    newest = re.search(r"^## ([\d.]+)", tree.texts.get("CHANGELOG.md", ""), re.M)
    if project and (not newest or newest[1] != project[1]):
        yield f"CHANGELOG.md:1: the newest entry is not version {project[1]}"
