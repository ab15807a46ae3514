"""docs/metrics.md names every metric that a server sends, with its kind, and no other."""

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def kinds_of_page():
    kinds = {}
    for row in re.findall(r"^\| (`.*?) \| ([a-z, ]+) \| ", PAGE.read_text(), re.MULTILINE):
        names = re.findall(r"`(\w+)`", row[0])
        row_kinds = row[1].split(", ")
        kinds.update(zip(names, row_kinds if len(row_kinds) > 1 else row_kinds * len(names)))
    return kinds


def test_the_page_has_what_the_server_sends(new_server):
    server = new_server(model=None)
    server.chat("s", "hello", 4)
    text = server.get("/metrics").body.decode()
    sent = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    assert sent == kinds_of_page()
