"""Reads C++ in this project's formatting well enough to find where functions begin and end. No
compiler.
"""

import re

FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 5


def blank(text):
    """The text with comments, strings and characters replaced by spaces; every newline stays."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.S,
    )
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def _kind(head):
    """What a brace opens, from the text before it back to the last ; or brace."""
    if re.search(r"\b(namespace|extern)\b[^()]*$", head):
        return "scope"
    if (
        re.search(r"\b(class|struct|union|enum)\b", head)
        and not head.rstrip().endswith(")")
        and (not re.search(r"\)\s*(const|noexcept|override|->.*)?\s*$", head))
    ):
        return "scope"
    if re.search(r"=\s*$", head) or "(" not in head:
        return "value"
    return "function"


def functions(text):
    """Yields (first line, head, body) of each outermost function, bodies with comments and strings
    blanked.
    """
    clean = blank(text)
    clean = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), clean, flags=re.M
    )
    stack = []
    last = 0
    for found in re.finditer(r"[{};]", clean):
        at = found.start()
        inside = any(kind == "function" for kind, _, _ in stack)
        if found[0] == "{":
            head = clean[last:at]
            kind = "block" if inside or (stack and stack[-1][0] == "value") else _kind(head)
            stack.append((kind, at, head))
        elif found[0] == "}" and stack:
            kind, start, head = stack.pop()
            if kind == "function":
                first = start - len(head) + len(head) - len(head.lstrip())
                yield clean[:first].count("\n") + 1, head.strip(), clean[start : at + 1]
        if not inside or found[0] != ";":
            last = at + 1


def parameter_count(head):
    """Parameters of the last top-level (...) group that looks like a parameter list."""
    depth = angle = count = 0
    start = head.find("(")
    if start < 0:
        return 0
    for at in range(start, len(head)):
        c = head[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                inner = head[start + 1 : at].strip()
                return count + 1 if inner and inner != "void" else 0
        elif c == "<" and head[at - 1] not in " <":
            angle += 1
        elif c == ">" and angle:
            angle -= 1
        elif c == "," and depth == 1 and not angle:
            count += 1
    return 0


def check_functions(tree):
    """Functions are at most 70 lines long and take at most 5 parameters."""
    for name, text in tree.cpp():
        for line, head, body in functions(text):
            lines = body.count("\n") + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{name}:{line}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}"
            count = 0 if re.match(r"(TEST|RC_)", head) else parameter_count(head)
            if count > PARAMETERS_MAX:
                yield f"{name}:{line}: {count} parameters, at most {PARAMETERS_MAX}"
