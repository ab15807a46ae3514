"""Stored KV that is damaged, swapped or foreign is never imported: computed again, with the
reason, same answer.
"""

import shutil

import pytest

from harness import MODEL, Server, content, edit_log, pieces_of, read_log, reason_codes

FIRST = "I have a dog called Rex and a cat called Tom. Say hello to them."
SECOND = "What are their names?"
TOKENS = 20


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A store with two sessions of one turn, and what a live server said next to the first."""
    folder = tmp_path_factory.mktemp("original")
    server = Server(folder / "store", folder / "log").start()
    server.chat("victim", FIRST, TOKENS)
    server.chat("other", "Something else altogether, with a few more words.", TOKENS)
    server.wait_stored("victim")
    server.wait_stored("other")
    assert server.stop() == 0
    shutil.copytree(server.store, folder / "copy")
    steady = Server(folder / "steady", folder / "log").start()
    steady.chat("victim", FIRST, TOKENS)
    expected = content(steady.chat("victim", SECOND, TOKENS))
    steady.kill9()
    return folder / "copy", expected


@pytest.fixture
def expected(original):
    return original[1]


@pytest.fixture
def stopped(new_server, original, tmp_path):
    """A server over a copy of that store, not started yet."""
    shutil.copytree(original[0], tmp_path / "store")
    return new_server(store=tmp_path / "store", start=False)


def spoil(place, change):
    """Replaces a file by what `change` makes of its bytes."""
    data = bytearray(place.read_bytes())
    place.write_bytes(change(data))


def flip(at):
    def change(data):
        data[at] ^= 0x01
        return data

    return change


def expect_recompute(server, expected, codes):
    """The next turn: everything computed again, for one of these reasons, and the same answer."""
    server.start()
    answer = server.chat("victim", SECOND, TOKENS)
    assert answer["tenuto"]["kv"]["restored"] == 0, answer
    assert answer["tenuto"]["kv"]["recomputed"] == answer["usage"]["prompt_tokens"]
    assert reason_codes(answer) & codes, answer
    details = [r["detail"] for r in answer["tenuto"]["kv"]["reasons"] if r["code"] in codes]
    assert any(details), answer
    assert str(server.store.parent) not in str(details)  # clients learn no folders of this machine
    assert content(answer) == expected


def expect_healed(server):
    """What was bad has been replaced: after another death the session is restored again."""
    server.wait_stored("victim")
    server.kill9()
    server.start()
    third = server.chat("victim", "Thank you.", 4)
    assert third["tenuto"]["kv"]["restored"] > 0, third
    assert server.stop() == 0


def test_undamaged_is_restored(stopped, expected):
    """Proves that the damage below is what makes the difference."""
    stopped.start()
    answer = stopped.chat("victim", SECOND, TOKENS)
    assert answer["tenuto"]["kv"]["restored"] > 0
    assert content(answer) == expected


@pytest.mark.parametrize("where", ["file header", "piece header", "payload", "last byte"])
def test_flipped_byte(stopped, expected, where):
    path, offset, size = pieces_of(stopped, "me::victim")[0]
    at = {"file header": 20, "piece header": offset + 60, "payload": offset + size // 2}
    spoil(path, flip(at.get(where, offset + size - 1)))
    expect_recompute(stopped, expected, {"corrupt"})
    expect_healed(stopped)


@pytest.mark.parametrize("where", ["empty", "no piece", "one byte"])
def test_cut_short(stopped, expected, where):
    path, offset, size = pieces_of(stopped, "me::victim")[0]
    end = {"empty": 0, "no piece": offset, "one byte": offset + size - 1}[where]
    spoil(path, lambda data: data[:end])
    expect_recompute(stopped, expected, {"corrupt"})


def test_file_gone(stopped, expected):
    pieces_of(stopped, "me::victim")[0][0].unlink()
    expect_recompute(stopped, expected, {"missing"})
    expect_healed(stopped)


def test_all_kv_gone(stopped, expected):
    shutil.rmtree(stopped.store / "kv")
    expect_recompute(stopped, expected, {"missing"})


def test_two_sessions_files_swapped(stopped, expected):
    mine, other = (pieces_of(stopped, f"me::{name}")[0][0] for name in ("victim", "other"))
    a, b = mine.read_bytes(), other.read_bytes()
    mine.write_bytes(b)
    other.write_bytes(a)
    expect_recompute(stopped, expected, {"corrupt", "owner"})


def test_swapped_behind_the_checksums(stopped, expected):
    """Rows that point to the other session's piece: all is intact but the owner."""
    rows = read_log(stopped, "SELECT id, file, offset, bytes FROM pieces")
    assert len(rows) == 2, rows
    update = "UPDATE pieces SET file = ?, offset = ?, bytes = ? WHERE id = ?"
    edit_log(stopped, (update, (*rows[1][1:], rows[0][0])), (update, (*rows[0][1:], rows[1][0])))
    expect_recompute(stopped, expected, {"owner"})


def test_other_kv_type(stopped):
    stopped.flags += ["-ctk", "f32"]
    stopped.start()
    answer = stopped.chat("victim", SECOND, TOKENS)
    assert answer["tenuto"]["kv"]["restored"] == 0, answer
    assert "fingerprint" in reason_codes(answer) or "config" in reason_codes(answer), answer
    assert content(answer)


def test_other_weights(stopped, tmp_path):
    """The same vocabulary, one weight changed: the log goes on, the KV does not."""
    data = bytearray(MODEL.read_bytes())
    data[-1000] ^= 0x10
    other = tmp_path / "other.gguf"
    other.write_bytes(data)
    stopped.flags[stopped.flags.index("-m") + 1] = str(other)
    stopped.start()
    answer = stopped.chat("victim", SECOND, TOKENS)
    assert answer["tenuto"]["kv"]["restored"] == 0, answer
    assert "fingerprint" in reason_codes(answer), answer
    assert content(answer)


def test_model_file_touched_only(stopped, expected, tmp_path):
    """A copy of the model under another name is the same model: content counts, not the path."""
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(MODEL.read_bytes())
    stopped.flags[stopped.flags.index("-m") + 1] = str(copy)
    stopped.start()
    answer = stopped.chat("victim", SECOND, TOKENS)
    assert answer["tenuto"]["kv"]["restored"] > 0, answer
    assert content(answer) == expected


def test_a_log_damaged_while_it_is_served(new_server):
    """Each answer is an error that names the file without its folders; the log has the whole."""
    server = new_server(model=None)
    server.chat("s", FIRST, 4)
    server.wait_stored("s")
    server.kill9()
    server.start()  # has copied its pages from the WAL
    log = server.store / "log.db"
    data = bytearray(log.read_bytes())
    log.write_bytes(data[:4096] + bytes(byte ^ 0x55 for byte in data[4096:]))
    turn = {"session_id": "s", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    for answer in (
        server.get("/v1/sessions"),
        server.get("/v1/sessions/s"),
        server.get("/v1/sessions/s/turns"),
        server.post("/v1/chat/completions", turn),
        server.post("/v1/chat/completions", {**turn, "session_id": "new"}),
        server.request("DELETE", "/v1/sessions/s"),
    ):
        assert answer.status == 500, answer
        message = answer.json["error"]["message"]
        assert "log.db" in message and str(log.parent) not in message, message
        assert "restore the log from a backup" in message, message
    assert f"token log {log}: " in server.log
    assert server.get("/metrics").status == 200
