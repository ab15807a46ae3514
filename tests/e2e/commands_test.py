"""The other commands: beside a running server and without one."""

import json

import pytest

from harness import ENGINE_FLAGS, MODEL, Server, content, pieces_of, run


@pytest.fixture(scope="module")
def talked(tmp_path_factory):
    """A server with one session of two turns, its KV on disk."""
    folder = tmp_path_factory.mktemp("talked")
    server = Server(folder / "store", folder / "log").start()
    server.chat(
        "ada::trip",
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where is Lisbon?"},
        ],
        12,
    )
    server.chat("ada::trip", "And Porto?", 12)
    server.wait_stored("ada::trip")
    yield server
    if server.process is not None:
        server.kill9()


def verify(server, session="ada::trip"):
    return run("verify", session, "-m", MODEL, "--store", server.store, *ENGINE_FLAGS)


def test_sessions_beside_a_running_server(talked):
    listed = run("sessions", "list", "--store", talked.store)
    assert listed.returncode == 0, listed
    assert "ada::trip" in listed.stdout
    as_json = json.loads(run("sessions", "list", "--json", "--store", talked.store).stdout)
    assert "ada::trip" in json.dumps(as_json)
    shown = run("sessions", "show", "ada::trip", "--store", talked.store)
    assert shown.returncode == 0 and "And Porto?" in shown.stdout, shown
    exported = run("sessions", "export", "ada::trip", "--store", talked.store)
    messages = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert messages[3]["content"] == "And Porto?"
    missing = run("sessions", "show", "nobody", "--store", talked.store)
    assert missing.returncode == 1 and "nobody" in missing.stderr, missing


def test_delete_beside_a_running_server(talked):
    talked.chat("short-lived", "Hi.", 2)
    deleted = run("sessions", "delete", "short-lived", "--store", talked.store)
    assert deleted.returncode == 0, deleted
    assert talked.session("short-lived") is None
    again = run("sessions", "delete", "short-lived", "--store", talked.store)
    assert again.returncode == 1


def test_verify_beside_a_running_server(talked):
    checked = verify(talked)
    assert checked.returncode == 0, checked
    assert "bytes after import and export  equal\n" in checked.stdout, checked
    # The server's only session: the same cells and batches, so not a bit of difference.
    assert "restored - recomputed   0 (" in checked.stdout, checked


def test_chat_through_pipes(talked):
    spoken = run(
        "chat",
        "piped",
        "--url",
        talked.url,
        "--temperature",
        "0",
        "--max-tokens",
        "12",
        stdin="Say hello.\nSay it again.\n",
    )
    assert spoken.returncode == 0, spoken
    assert talked.session("piped")["turns"] == 2
    exported = run("sessions", "export", "piped", "--store", talked.store)
    answers = [
        m["content"]
        for m in map(json.loads, exported.stdout.splitlines())
        if m["role"] == "assistant"
    ]
    assert len(answers) == 2
    for answer in answers:
        assert answer.strip() in spoken.stdout, (answer, spoken.stdout)


def test_chat_without_a_server(tmp_path):
    spoken = run("chat", "x", "--url", "http://127.0.0.1:9", stdin="Hello\n")
    assert spoken.returncode == 1
    assert "127.0.0.1:9" in spoken.stderr, spoken


def test_without_a_server(talked):
    """Last user of the shared server."""
    assert talked.stop() == 0
    listed = run("sessions", "list", "--store", talked.store)
    assert listed.returncode == 0 and "ada::trip" in listed.stdout, listed
    assert verify(talked).returncode == 0
    assert verify(talked, "nobody").returncode == 1


def test_verify_finds_a_flipped_byte(talked):
    if talked.process is not None:
        talked.stop()
    path, offset, size = pieces_of(talked, "ada::trip")[0]
    data = bytearray(path.read_bytes())
    data[offset + size * 2 // 3] ^= 0x40
    sound = verify(talked)
    assert sound.returncode == 0 and sound.stdout.endswith("\nOK\n"), sound
    path.write_bytes(data)
    checked = verify(talked)
    assert checked.returncode == 1 and checked.stdout.endswith("\nNOT EQUAL\n"), checked
    assert "corrupt" in checked.stdout, checked


def test_verify_says_when_nothing_was_compared(talked):
    if talked.process is not None:
        talked.stop()
    path, offset, size = pieces_of(talked, "ada::trip")[0]
    good = path.read_bytes()
    data = bytearray(good)
    data[offset + size // 3] ^= 0x40
    path.write_bytes(data)
    checked = verify(talked)
    path.write_bytes(good)
    assert checked.returncode == 1 and checked.stdout.endswith("\nNOT EQUAL\n"), checked
    assert "nothing was compared" in checked.stdout, checked
    assert "logits" not in checked.stdout and "bound" not in checked.stdout, checked
    other = run("verify", "ada::trip", "-m", MODEL, "--store", talked.store, "-ctk", "q8_0")
    assert other.returncode == 1 and "fingerprint" in other.stdout, other
    assert "nothing was compared" in other.stdout, other


def test_verify_looks_for_the_session_first(talked):
    missing = verify(talked, "nobody")
    assert missing.returncode == 1 and "loading" not in missing.stderr, missing
    assert "there is no session 'nobody' in store" in missing.stderr, missing


def test_a_name_that_cannot_be_is_said(talked):
    for command in ("show", "delete", "export"):
        wrong = run("sessions", command, "a/b", "--store", talked.store)
        assert wrong.returncode == 1 and "session 'a/b': " in wrong.stderr, wrong
    wrong = verify(talked, "a/b")
    assert wrong.returncode == 1 and "session 'a/b': " in wrong.stderr, wrong


def test_sessions_without_a_store(tmp_path):
    listed = run("sessions", "list", "--store", tmp_path / "nothing")
    assert listed.returncode == 1, listed
    assert "nothing" in listed.stderr
    assert not (tmp_path / "nothing").exists()


def test_version():
    shown = run("--version")
    assert shown.returncode == 0
    assert "tenuto" in shown.stdout.lower() and "llama" in shown.stdout.lower(), shown.stdout


def test_content_is_not_empty(new_server):
    """The commands above compare answers; this proves that there is something to compare."""
    server = new_server()
    assert len(content(server.chat("x", "Where is Lisbon?", 12))) > 4
