"""Items from a file become turns, and come out again as they went in."""

import json
import socket
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


def as_lines(items):
    return "".join(json.dumps(item) + "\n" for item in items).encode()


def exported(server, session):
    ended = run("sessions", "export", session, "--store", server.store)
    assert ended.returncode == 0, ended
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_in_and_out_again(new_server, tmp_path):
    # A small window: what it takes of the import is computed, twice.
    server = new_server(engine_flags=["-c", "1536", "--window", "1024", "-np", "2", "-t", "2"])
    items = list(lines(60))
    file = write(tmp_path / "in.jsonl", items)
    ended = run("sessions", "import", "ada::old", file, "--store", server.store)
    assert ended.returncode == 0 and "120 items as 60 turns" in ended.stdout, ended
    out = exported(server, "ada::old")
    assert [(o["role"], o["content"]) for o in out] == [(i["role"], i["content"]) for i in items]
    assert [o["time"] for o in out[::2]] == [i["time"].replace("Z", ".000Z") for i in items[::2]]
    assert [o["id"] for o in out[::2]] == [i["id"] for i in items[::2]]
    # What was exported can be imported.
    copy = write(tmp_path / "copy.jsonl", out)
    assert run("sessions", "import", "ada::new", copy, "--store", server.store).returncode == 0
    again = exported(server, "ada::new")
    assert again == out
    over_http = server.get("/v1/sessions/ada::new/export")
    assert over_http.status == 200, over_http
    assert [json.loads(line) for line in over_http.body.splitlines()] == out

    answer = server.chat("ada::old", "Say hello.", 4)
    window = answer["tenuto"]["window"]
    assert window["turns"] + window["archived_turns"] == 61, answer
    server.kill9()
    server.start()
    assert server.session("ada::old")["turns"] == 61
    assert content(server.chat("ada::old", "And again.", 4))


def test_tools_and_zones_in_and_out_again(new_server):
    server = new_server(model=None)
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    items = [
        {"role": "user", "content": "What is it like in Uppsala?", "id": "m0"},
        {"role": "assistant", "content": "", "tool_calls": calls, "id": "m1"},
        {"role": "tool", "content": "drizzle", "tool_call_id": "c1", "id": "m2"},
        {"role": "assistant", "content": "It drizzles.", "id": "m3"},
    ]
    items = [{**item, "time": "2024-05-10T02:30:00.000+09:00"} for item in items]
    answer = server.post("/v1/sessions/s/import", as_lines(items))
    assert answer.status == 200 and answer.json["turns"] == 1, answer
    turn = server.get("/v1/sessions/s/turns").json["data"][0]
    assert [item["role"] for item in turn["items"]] == ["user", "assistant", "tool", "assistant"]
    assert turn["items"][1]["tool_calls"] == calls
    assert {item["zone"] for item in turn["items"]} == {"+09:00"}
    out = server.get("/v1/sessions/s/export")
    assert [json.loads(line) for line in out.body.splitlines()] == items
    assert exported(server, "s") == items
    found = server.post("/v1/memory/search", {"session_id": "s", "query": "drizzle"}).json["data"]
    assert "\ntool: " in found[0]["text"] and "\ndrizzle\n" in found[0]["text"], found


def test_yesterday_is_the_speakers(new_server):
    server = new_server(model=None)
    night = {"role": "user", "content": "Yesterday I planted a magnolia.", "id": "m"}
    night["time"] = "2024-05-10T02:30:00+09:00"
    noted = {"role": "assistant", "content": "Noted."}
    assert server.post("/v1/sessions/s/import", as_lines([night, noted])).status == 200

    def days(**more):
        found = []
        for day in ("2024-05-08", "2024-05-09"):
            asked = {"session_id": "s", "query": f"What did I plant on {day}?", **more}
            hits = server.post("/v1/memory/search", asked).json["data"]
            found += [day for hit in hits if any(day in term for term in hit["terms"])]
        return found

    assert days() == ["2024-05-09"]
    for bad in ("Nowhere", 9):
        asked = {"session_id": "s", "query": "x", "timezone": bad}
        refused = server.post("/v1/memory/search", asked)
        assert refused.status == 400 and refused.json["error"]["param"] == "timezone", refused
    changed = server.request("PATCH", "/v1/sessions/s", {"timezone": "Asia/Tokyo"})
    assert changed.status == 200 and changed.json["settings"]["timezone"] == "Asia/Tokyo", changed
    server.chat("s", "Today I water it.", 4)
    turns = server.get("/v1/sessions/s/turns?order=desc").json["data"]
    assert turns[0]["items"][0]["zone"] == "+09:00", turns[0]


def test_a_key_is_taken_once(new_server):
    server = new_server(model=None)
    body, key = as_lines(lines(3)), {"Idempotency-Key": "k1"}
    first = server.post("/v1/sessions/s/import", body, key)
    server.kill9()
    server.start()
    again = server.post("/v1/sessions/s/import", body, key)
    assert first.status == again.status == 200, again
    assert again.json == {**first.json, "replayed": True}
    assert server.session("s")["turns"] == 3
    assert server.post("/v1/sessions/s/import", as_lines(lines(2)), key).status == 409


def test_an_export_is_as_fast_as_its_client(new_server):
    """Larger than what the server keeps for a slow client."""
    server = new_server(model=None)
    text = "lorem ipsum " * 10_000
    items = [{"role": "user", "content": f"{n} {text}"} for n in range(60)]
    items = [item for user in items for item in (user, {"role": "assistant", "content": "ok"})]
    assert server.post("/v1/sessions/s/import", as_lines(items)).status == 200
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        # Smaller than a segment of the loopback device, each would wait for a timer of 200 ms.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.sendall(b"GET /v1/sessions/s/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        time.sleep(1)
        got = b""
        while part := client.recv(1 << 20):
            got += part
            if got.endswith(b"\r\n0\r\n\r\n"):
                break
    assert got.count(b'"role":"user"') >= 59, got[:500]  # one may lie across two chunks
    whole = server.get("/v1/sessions/s/export").body
    assert [json.loads(line)["content"] for line in whole.splitlines()] == [
        item["content"] for item in items
    ]


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
    refused = server.get("/v1/sessions/s/turns?before=x")
    assert refused.status == 400 and refused.json["error"]["param"] == "before", refused


def test_a_deleted_turn_supersedes_nothing(new_server):
    server = new_server(model=None)
    assert server.post("/v1/sessions/s/import", as_lines(lines(3))).status == 200
    ids = [turn["id"] for turn in server.get("/v1/sessions/s/turns").json["data"]]
    marked = f"/v1/sessions/s/turns/{ids[0]}"
    for bad, named in (("off", "true or false"), (0, "true or false")):
        refused = server.request("PATCH", marked, {"recall": bad})
        assert refused.status == 400 and named in refused.json["error"]["message"], refused
    assert server.request("PATCH", marked, {"superseded_by": ids[2]}).status == 200

    def superseded():
        page = server.get("/v1/sessions/s/turns").json["data"]
        return [turn["superseded_by"] for turn in page if "superseded_by" in turn]

    assert superseded() == [ids[2]]
    assert server.request("DELETE", f"/v1/sessions/s/turns/{ids[2]}").status == 200
    assert superseded() == []


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


def test_a_second_run_adds_what_the_first_did_not_come_to(new_server, tmp_path):
    """The file's first request was taken, then the line to the server was lost."""
    server = new_server(model=None)
    whole = list(lines(6000))  # 12,000 items: two requests
    first = write(tmp_path / "first.jsonl", whole[:10_000])
    both = write(tmp_path / "both.jsonl", whole)
    assert run("sessions", "import", "s", first, "--store", server.store).returncode == 0
    ended = run("sessions", "import", "s", both, "--store", server.store)
    assert ended.returncode == 0 and "2,000 items as 1,000 turns" in ended.stdout, ended
    assert "10,000 items more of this file were there" in ended.stdout, ended
    assert server.session("s")["turns"] == 6000
    ended = run("sessions", "import", "s", both, "--store", server.store, "--json")
    assert json.loads(ended.stdout)["items_known"] == 12_000, ended
    assert server.session("s")["turns"] == 6000


def test_bad_lines_are_named_and_nothing_is_stored(new_server, tmp_path):
    server = new_server(model=None)
    good = list(lines(2))
    for bad, named in (
        ({"role": "robot", "content": "x"}, "user, assistant or tool"),
        ({"role": "tool", "content": "x"}, "tool_call_id"),
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
