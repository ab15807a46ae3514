"""What can't be served: one clear sentence, exit status 1, nothing lost."""

import json
import os
import pathlib
import re
import socket

import pytest

from harness import (
    ENGINE_FLAGS,
    MODEL,
    ROOT,
    content,
    edit_log,
    free_port,
    plain_lines,
    read_log,
    run,
    wait_for,
)


def refuse(*flags, model=MODEL, prefix=(), store):
    """Starts a server that must not start; returns what it said to people."""
    source = ["--fake-executor"] if model is None else ["-m", model]
    ended = run(
        "serve",
        *source,
        "--store",
        store,
        "--port",
        free_port(),
        *ENGINE_FLAGS,
        *flags,
        prefix=prefix,
    )
    assert ended.returncode == 1, ended
    said = plain_lines(ended.stderr)
    assert len(said) == 1, ended.stderr
    assert len(said[0]) > 20
    return said[0]


def test_port_taken(tmp_path, new_server):
    (tmp_path / "empty").mkdir()
    holder = new_server(model=None)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = str(s.getsockname()[1])
        for name in ("new", "empty"):
            said = refuse("--port", port, model=None, store=tmp_path / name)
            assert port in said and ("in use" in said or "taken" in said), said
        # A store that is there is what is said first.
        assert "another process" in refuse("--port", port, model=None, store=holder.store)
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_beyond_loopback_needs_a_key(tmp_path):
    ended = run("serve", "--fake-executor", "--store", tmp_path / "s", "--host", "0.0.0.0")
    assert ended.returncode != 0
    assert "key" in ended.stderr, ended.stderr


def test_model_missing(tmp_path):
    said = refuse(model=tmp_path / "no.gguf", store=tmp_path / "s")
    assert "no.gguf" in said


def test_a_model_that_cannot_be_served_makes_no_store(tmp_path, new_server):
    refuse(model=tmp_path / "no.gguf", store=tmp_path / "s")
    data = MODEL.read_bytes()
    at = data.index(b"llama", data.index(b"general.architecture"))
    (tmp_path / "other.gguf").write_bytes(data[:at] + b"lhama" + data[at + 5 :])
    refuse(model=tmp_path / "other.gguf", store=tmp_path / "s")
    assert not (tmp_path / "s").exists()
    # The model is what is wrong, whoever holds the store.
    holder = new_server(model=None)
    assert "no.gguf" in refuse(model=tmp_path / "no.gguf", store=holder.store)


def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    said = refuse(model=tmp_path / "pipe.gguf", store=tmp_path / "s")
    assert "not a regular file" in said and ": :" not in said, said


def check(*flags, prefix=()):
    return run("serve", "--check", *ENGINE_FLAGS, *flags, prefix=prefix)


def test_check_says_what_serve_would(tmp_path, new_server):
    good = check("-m", MODEL, "--store", tmp_path / "s")
    assert good.returncode == 0 and "(new)" in good.stdout, good
    assert not (tmp_path / "s").exists()
    (tmp_path / "text.gguf").write_text("This is a letter to my aunt.\n" * 1000)
    data = MODEL.read_bytes()
    at = data.index(b"llama", data.index(b"general.architecture"))
    (tmp_path / "other.gguf").write_bytes(data[:at] + b"lhama" + data[at + 5 :])
    for name in ("no.gguf", "text.gguf", "other.gguf"):
        checked = check("-m", tmp_path / name, "--store", tmp_path / "s")
        assert checked.returncode == 1, checked
        served = refuse(model=tmp_path / name, store=tmp_path / "s")
        assert plain_lines(checked.stderr) == [served]
    server = new_server(model=None)
    held = check("--fake-executor", "--store", server.store)
    assert held.returncode == 1 and "in use by another process" in held.stderr, held
    server.chat("kept", "Hello.", 4)
    server.stop()
    free = check("--fake-executor", "--store", server.store)
    assert free.returncode == 0 and "(new)" not in free.stdout, free
    version = read_log(server, "PRAGMA user_version")[0][0]
    edit_log(server, f"PRAGMA user_version = {version + 41}")
    newer = check("--fake-executor", "--store", server.store)
    assert newer.returncode == 1 and str(version + 41) in newer.stderr, newer
    edit_log(server, f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_check_finds_a_log_that_cannot_be_written(new_server, name):
    server = new_server(model=None)
    server.chat("kept", "Hello.", 4)
    server.kill9()  # leaves the write-ahead log
    # Root may write what nobody may, unless it gives that right up.
    bound = "--bounding-set=-dac_override,-dac_read_search"
    prefix = ["setpriv", bound] if os.geteuid() == 0 else []
    path = server.store / name
    path.chmod(0o400)
    checked = check("--fake-executor", "--store", server.store, prefix=prefix)
    assert checked.returncode == 1, checked
    said = refuse(model=None, store=server.store, prefix=prefix)
    assert plain_lines(checked.stderr) == [said] and f"{path}: " in said, said
    path.chmod(0o600)
    assert check("--fake-executor", "--store", server.store).returncode == 0
    assert sorted(p.name for p in server.store.glob("log.db*")) == [
        "log.db",
        "log.db-shm",
        "log.db-wal",
    ]


def test_a_lost_log_is_not_replaced_by_an_empty_one(new_server):
    server = new_server(model=None)
    server.chat("kept", "Hello.", 40)
    server.wait_stored("kept")
    server.stop()
    kept = {path: path.read_bytes() for path in server.store.glob("log.db*")}
    pieces = sorted((server.store / "kv").rglob("*.seg"))
    assert pieces
    for path in kept:
        path.unlink()
    assert "log.db is missing" in refuse(model=None, store=server.store)
    (server.store / "log.db").touch()
    assert "log.db is empty" in refuse(model=None, store=server.store)
    assert sorted((server.store / "kv").rglob("*.seg")) == pieces
    for path, data in kept.items():
        path.write_bytes(data)
    server.start()
    assert server.session("kept")["turns"] == 1


def test_a_log_that_lost_its_newest_commits_is_warned_of(new_server):
    server = new_server(model=None)
    for name in ("one", "two"):
        server.chat(name, "Hello.", 40)
        server.wait_stored(name)
    server.kill9()
    server.start()
    assert "store.unknown_sessions" not in server.log
    server.chat("three", "Hello.", 40)
    server.wait_stored("three")
    server.kill9()
    for suffix in ("-wal", "-shm"):
        (server.store / f"log.db{suffix}").unlink()
    server.start()
    line = next(line for line in server.log.splitlines() if "store.unknown_sessions" in line)
    lost = sum(server.session(name) is None for name in ("one", "two", "three"))
    told = json.loads(line)
    assert lost > 0 and told["level"] == "warn" and told["sessions"] == lost, told
    assert f"tenuto_kv_unknown_sessions {lost}\n" in server.get("/metrics").body.decode()


@pytest.mark.parametrize("cells", ["1", "2"])
def test_few_cells_are_rounded_up(new_server, cells):
    server = new_server(engine_flags=["-c", cells, "-t", "2"])
    assert content(server.chat(None, "Hi.", 4)) is not None


def test_a_window_beyond_the_models_is_said_to_be_lowered(new_server):
    server = new_server(engine_flags=["--window", "90000", "-t", "2"])
    wait_for("the line", lambda: "serve.window_lowered" in server.log, 10)
    assert server.get("/props").json["default_generation_settings"]["n_ctx"] < 90000


def test_settings_that_hold_otherwise_are_warned_of(new_server):
    server = new_server(engine_flags=["-c", "10", "-t", "2", "-ngl", "10"])
    wait_for("the line", lambda: "serve.listening" in server.log, 10)
    assert '"event":"serve.cells_raised","asked":10,"cells":256,"window":170' in server.log
    assert '"event":"serve.no_gpu","n_gpu_layers":10' in server.log


def test_a_variable_that_nobody_knows_is_warned_of(tmp_path):
    flags = ["serve", "--check", "--fake-executor", "--store", tmp_path / "s"]
    checked = run(*flags, environment={"TENUTO_PROT": "1"})
    assert checked.returncode == 0, checked
    assert '"variable":"TENUTO_PROT","did_you_mean":"TENUTO_PORT"' in checked.stderr, checked


def test_ready_line(new_server):
    server = new_server(model=None)
    line = f"Ready on http://127.0.0.1:{server.port}, store {server.store}, model "
    wait_for("the line", lambda: line in server.log, 10)
    assert '"event":"model.loading"' in server.log
    assert "http.answered" not in server.log


def test_not_a_gguf(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("This is a letter to my aunt.\n" * 1000)
    assert "text.gguf" in refuse(model=path, store=tmp_path / "s")


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_cut_gguf(tmp_path, share):
    path = tmp_path / "cut.gguf"
    with open(MODEL, "rb") as source:
        path.write_bytes(source.read(int(os.path.getsize(MODEL) * share)))
    assert "cut.gguf" in refuse(model=path, store=tmp_path / "s")


def test_unknown_architecture(tmp_path):
    data = MODEL.read_bytes()
    at = data.index(b"llama", data.index(b"general.architecture"))
    path = tmp_path / "other.gguf"
    path.write_bytes(data[:at] + b"lhama" + data[at + 5 :])
    said = refuse(model=path, store=tmp_path / "s")
    assert "other.gguf" in said and "lhama" in said, said


@pytest.mark.parametrize("fake", [True, False], ids=["fake", "real"])
def test_two_servers_on_one_store(new_server, fake):
    first = new_server(model=None if fake else MODEL)
    answer = first.chat("kept", "Hello.", 4)
    said = refuse(model=None if fake else MODEL, store=first.store)
    assert str(first.process.pid) in said and str(first.store) in said, said
    assert first.chat("kept", "Again.", 4)["tenuto"]["window"]["turns"] == 2
    first.kill9()
    first.start()  # a lock is never stale
    assert first.session("kept")["turns"] == 2
    assert content(answer)


@pytest.mark.parametrize("text", ["tenuto-store 2\n", "tenuto-store 17\n"])
def test_store_of_another_version(new_server, text):
    server = new_server(model=None)
    server.chat("kept", "Hello.", 4)
    server.stop()
    marker = server.store / "format"
    good = marker.read_text()
    marker.write_text(text)
    said = refuse(model=None, store=server.store)
    numbers = re.findall(r"\b\d+\b", said)
    assert text.split()[1] in numbers and "1" in numbers, said
    marker.write_text(good)
    server.start()
    assert server.session("kept")["turns"] == 1


def test_log_of_another_version(new_server):
    server = new_server(model=None)
    server.chat("kept", "Hello.", 4)
    server.stop()
    version = read_log(server, "PRAGMA user_version")[0][0]
    assert version > 0
    edit_log(server, f"PRAGMA user_version = {version + 41}")
    said = refuse(model=None, store=server.store)
    assert re.findall(r"format (\d+)", said) == [str(version + 41), str(version)], said
    edit_log(server, f"PRAGMA user_version = {version}")
    server.start()
    assert server.session("kept")["turns"] == 1


def test_log_that_is_no_database(new_server):
    server = new_server(model=None)
    server.chat("kept", "Hello.", 4)
    server.stop()
    for suffix in ("-wal", "-shm"):
        (server.store / f"log.db{suffix}").unlink(missing_ok=True)
    (server.store / "log.db").write_bytes(os.urandom(8192))
    said = refuse(model=None, store=server.store)
    assert "log.db" in said, said


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "letters.txt").write_text("keep me")
    said = refuse(model=None, store=tmp_path)
    assert str(tmp_path) in said
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "lock") == ["letters.txt"]


def test_window_over_the_cells(tmp_path):
    ended = run("serve", "-m", MODEL, "--store", tmp_path / "s", "-c", "512", "--window", "2048")
    assert ended.returncode != 0
    assert "window" in ended.stderr, ended.stderr


def test_unknown_flags_and_keys(tmp_path):
    wrong = run("serve", "--modle", "x")
    assert wrong.returncode == 2 and "--model" in wrong.stderr, wrong
    config = tmp_path / "t.toml"
    config.write_text('modle = "x"\n')
    wrong = run("serve", "--config", config)
    assert wrong.returncode == 2 and "modle" in wrong.stderr, wrong


def test_example_file_is_the_manual():
    shown = run("serve", "--config", ROOT / "examples/tenuto.toml", "--print-config")
    assert shown.returncode == 0, shown
    assert "ctx-size" in shown.stdout and "port" in shown.stdout


def environment_of(server):
    data = pathlib.Path(f"/proc/{server.process.pid}/environ").read_bytes()
    return dict(entry.split(b"=", 1) for entry in data.split(b"\0") if b"=" in entry)


def test_waiting_threads_spin_briefly(new_server, monkeypatch):
    """docs/decisions/0008: unless the user has said how OpenMP should wait."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert environment_of(new_server(model=None))[b"GOMP_SPINCOUNT"] == b"1000"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert b"GOMP_SPINCOUNT" not in environment_of(new_server(model=None))
