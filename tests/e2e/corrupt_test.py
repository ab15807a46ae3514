"""Stored KV that is damaged, swapped or foreign is never imported: computed again, with the
reason, same answer.
"""

import sqlite3

import pytest

from harness import MODEL, Server, content, reason_codes

FIRST = "I have a dog called Rex and a cat called Tom. Say hello to them."
SECOND = "What are their names?"
TOKENS = 20


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a server that never died answers."""
    folder = tmp_path_factory.mktemp("expected")
    server = Server(folder / "store", folder / "log").start()
    first = content(server.chat("victim", FIRST, TOKENS))
    second = content(server.chat("victim", SECOND, TOKENS))
    server.kill9()
    return first, second


@pytest.fixture
def stopped(new_server, expected):
    """A server that was stopped after two sessions' first turns, their KV on disk."""
    server = new_server()
    assert content(server.chat("victim", FIRST, TOKENS)) == expected[0]
    server.chat("other", "Something else altogether, with a few more words.", TOKENS)
    server.wait_stored("victim")
    server.wait_stored("other")
    assert server.stop() == 0
    return server


def segments(server):
    """Segment files, the victim's first: sessions have files of their own, made in order."""
    return sorted((server.store / "kv").rglob("*.seg"), key=lambda p: p.stat().st_mtime_ns)


def expect_recompute(server, expected, codes):
    """The next turn: everything computed again, for one of these reasons, and the same answer."""
    server.start()
    answer = server.chat("victim", SECOND, TOKENS)
    assert answer["tenuto"]["kv"]["restored"] == 0, answer
    assert answer["tenuto"]["kv"]["recomputed"] == answer["usage"]["prompt_tokens"]
    assert reason_codes(answer) & codes, answer
    details = [r["detail"] for r in answer["tenuto"]["kv"]["reasons"] if r["code"] in codes]
    assert any(details), answer
    assert content(answer) == expected[1]
    # What was bad has been replaced: the turn after the next restart is restored again.
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
    assert content(answer) == expected[1]


@pytest.mark.parametrize("where", ["file header", "piece header", "payload", "last byte"])
def test_flipped_byte(stopped, expected, where):
    path = segments(stopped)[0]
    data = bytearray(path.read_bytes())
    at = {
        "file header": 20,
        "piece header": 4096 + 60,
        "payload": 4096 + 1024 + 5000,
        "last byte": len(data) - 1,
    }
    data[at[where]] ^= 0x01
    path.write_bytes(data)
    expect_recompute(stopped, expected, {"corrupt"})


@pytest.mark.parametrize("size", [0, 30, 4096, 4096 + 1024, -1])
def test_cut_short(stopped, expected, size):
    path = segments(stopped)[0]
    data = path.read_bytes()
    path.write_bytes(data[:size])
    expect_recompute(stopped, expected, {"corrupt"})


def test_file_gone(stopped, expected):
    segments(stopped)[0].unlink()
    expect_recompute(stopped, expected, {"missing"})


def test_all_kv_gone(stopped, expected):
    for path in segments(stopped):
        path.unlink()
    expect_recompute(stopped, expected, {"missing"})


def test_two_sessions_files_swapped(stopped, expected):
    mine, other = segments(stopped)[:2]
    a, b = mine.read_bytes(), other.read_bytes()
    mine.write_bytes(b)
    other.write_bytes(a)
    expect_recompute(stopped, expected, {"corrupt", "owner"})


def test_swapped_behind_the_checksums(stopped, expected):
    """Rows that point to the other session's pieces: every byte is intact, only the owner is
    wrong.
    """
    database = sqlite3.connect(stopped.store / "log.db")
    table, column = piece_table(database)
    rows = database.execute(f"SELECT rowid, {', '.join(column)} FROM {table}").fetchall()
    assert len(rows) == 2, rows
    for source, target in ((rows[0], rows[1]), (rows[1], rows[0])):
        places = ", ".join(f"{name} = ?" for name in column)
        database.execute(f"UPDATE {table} SET {places} WHERE rowid = ?", (*source[1:], target[0]))
    database.commit()
    database.close()
    expect_recompute(stopped, expected, {"owner"})


def piece_table(database):
    """The table of piece rows and its columns that say where the bytes lie."""
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        where = [
            c
            for c in columns
            if c in ("file", "offset", "bytes", "file_id", "byte_offset", "byte_count")
        ]
        if len(where) == 3:
            return name, where
    raise AssertionError("no table of pieces")


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
    assert content(answer) == expected[1]
