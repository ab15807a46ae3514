"""Items from a file become turns, and come out again as they went in."""

import json
import time

from harness import content, run


def lines(turns):
    for number in range(turns):
        yield {
            "role": "user",
            "content": f"Note {number}: the \u00e9tage is {number % 7} \u2603",
            "time": f"2024-05-{number % 28 + 1:02d}T12:00:00Z",
            "id": f"m{number}",
        }
        yield {"role": "assistant", "content": f"Noted, number {number}."}


def write(path, items):
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def exported(server, session):
    ended = run("sessions", "export", session, "--store", server.store)
    assert ended.returncode == 0, ended
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_in_and_out_again(new_server, tmp_path):
    server = new_server()
    items = list(lines(60))
    file = write(tmp_path / "in.jsonl", items)
    ended = run("sessions", "import", "ada::old", file, "--store", server.store)
    assert ended.returncode == 0 and "120 items as 60 turns" in ended.stdout, ended
    out = exported(server, "ada::old")
    assert [(o["role"], o["content"]) for o in out] == [(i["role"], i["content"]) for i in items]
    assert [o["time"] for o in out[::2]] == [i["time"].replace("Z", ".000Z") for i in items[::2]]
    # What was exported can be imported.
    copy = write(tmp_path / "copy.jsonl", out)
    assert run("sessions", "import", "ada::new", copy, "--store", server.store).returncode == 0
    again = exported(server, "ada::new")
    assert [o["content"] for o in again] == [o["content"] for o in out]

    answer = server.chat("ada::old", "Say hello.", 4)
    window = answer["tenuto"]["window"]
    assert window["turns"] + window["archived_turns"] == 61, answer
    server.kill9()
    server.start()
    assert server.session("ada::old")["turns"] == 61
    assert content(server.chat("ada::old", "And again.", 4))


def test_turns_in_pages(new_server, tmp_path):
    server = new_server(model=None)
    file = write(tmp_path / "in.jsonl", lines(50))
    assert run("sessions", "import", "s", file, "--store", server.store).returncode == 0
    for order in ("asc", "desc"):
        seen, after = [], ""
        while True:
            page = server.get(f"/v1/sessions/s/turns?limit=7&order={order}&after={after}").json
            seen += [turn["items"][0]["client_id"] for turn in page["data"]]
            after = page["last_id"]
            if not page["has_more"]:
                break
        expected = [f"m{n}" for n in range(50)]
        assert seen == (expected if order == "asc" else expected[::-1])
    for query, field in (("limit=0", "limit"), ("limit=2000", "limit"), ("order=up", "order")):
        refused = server.get(f"/v1/sessions/s/turns?{query}")
        assert refused.status == 400 and refused.json["error"]["param"] == field, refused
    assert server.get("/v1/sessions/s/turns?after=nothing").status == 404


def test_ten_thousand_items(new_server, tmp_path):
    """Not a measurement: bounded loosely, so that a square law would show."""
    server = new_server(model=None)
    file = write(tmp_path / "in.jsonl", lines(5000))
    begin = time.monotonic()
    ended = run("sessions", "import", "many", file, "--store", server.store)
    assert ended.returncode == 0 and "10,000 items as 5,000 turns" in ended.stdout, ended
    assert time.monotonic() - begin < 60
    answer = server.chat("many", "Hello.", 4)
    assert answer["tenuto"]["window"]["archived_turns"] > 4000, answer


def test_bad_lines_are_named_and_nothing_is_stored(new_server, tmp_path):
    server = new_server(model=None)
    good = list(lines(2))
    for bad, named in (
        ({"role": "tool", "content": "x"}, "user or assistant"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": "x", "time": "soon"}, "2024-05-03"),
        ([1], "JSON"),
    ):
        file = write(tmp_path / "bad.jsonl", [*good, bad])
        ended = run("sessions", "import", "s", file, "--store", server.store)
        assert ended.returncode == 1 and named in ended.stderr, ended
    assert server.session("s") is None
    missing = run("sessions", "import", "s", tmp_path / "no", "--store", server.store)
    assert missing.returncode == 1 and "no" in missing.stderr
    huge = server.post("/v1/sessions/s/import", "x" * 17_000_000)
    assert huge.status in (400, 413)


def test_without_a_server(new_server, tmp_path):
    server = new_server(model=None)
    server.stop()
    file = write(tmp_path / "in.jsonl", lines(1))
    ended = run("sessions", "import", "s", file, "--store", server.store)
    assert ended.returncode == 1 and "tenuto serve" in ended.stderr, ended
