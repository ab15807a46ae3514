"""Disks that are full or read-only. Each server runs in a mount namespace of its own, so that
nothing stays mounted.
"""

import functools
import os
import shutil
import subprocess
import warnings

from harness import Server, content, free_port, plain_lines, run, wait_for

# unshare needs root, or makes this user root inside a namespace of its own.
UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
ENGINE = ["-c", "4096", "--window", "2048", "-np", "4", "-t", "2"]


def in_namespace(setup):
    """A command prefix: runs `setup` (shell, with $0 as the first argument after it) in a private
    mount namespace.
    """
    return [*UNSHARE, "sh", "-c", f'{setup} && exec "$@"']


def tmpfs(folder, size):
    """A prefix whose command sees an empty memory disk at `folder`."""
    return in_namespace(f'mount -t tmpfs -o size={size},mode=0700 none "$0"') + [str(folder)]


def ext4(folder, size):
    """As tmpfs(), with a real file system in a file beside `folder`: its blocks come late, its
    journal takes some, and a full one shows where memory does not.
    """
    image = folder.parent / f"{folder.name}.img"
    with open(image, "wb") as file:
        file.truncate(size)
    run_quietly(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
    # The loop device goes away with the namespace's last process.
    return in_namespace(f'mount -o loop {image} "$0"') + [str(folder)]


@functools.cache
def why_no_ext4(folder):
    """Empty where ext4() works: it takes root and loop devices, which containers often lack."""
    folder.mkdir()
    try:
        tried = run_quietly([*ext4(folder, 8 << 20), "true"])
        if tried.returncode == 0:
            return ""
        return last_line(tried.stderr) or f"exit {tried.returncode}"
    except subprocess.CalledProcessError as error:
        return last_line(error.stderr) or str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def run_quietly(command, check=False):
    return subprocess.run(command, check=check, timeout=60, capture_output=True, text=True)


def last_line(text):
    return "".join(text.strip().splitlines()[-1:])


def full_disk(tmp_path):
    """ext4(), else tmpfs(), which is less of a test and therefore said."""
    why = why_no_ext4(tmp_path / "probe")
    if not why:
        return ext4
    warnings.warn(f"no loop-back ext4 here ({why}): the disk that fills is a tmpfs", stacklevel=2)
    return tmpfs


def inside(server):
    """The server's own view of its store, from outside its namespace."""
    return type(server.store)(f"/proc/{server.process.pid}/root{server.store}")


def fill(folder):
    """Takes all the space there is, which KV leaves to the log; returns the file that holds it."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as out:
        for size in (1 << 20, 4096, 512):
            try:
                while True:
                    out.write(b"\0" * size)
            except OSError:
                pass
    return filler


def test_disk_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    store = disk / "store"
    prefix = full_disk(tmp_path)(disk, 96 << 20)
    server = Server(store, tmp_path / "log", engine_flags=ENGINE, prefix=prefix).start()
    try:
        acknowledged = [server.chat("full", "Say hello.", 4)["tenuto"]["turn"]]
        server.wait_stored("full")
        filler = fill(inside(server))
        refused = 0
        for number in range(4):
            answer = server.post(
                "/v1/chat/completions",
                {
                    "session_id": "full",
                    "max_tokens": 4,
                    "temperature": 0,
                    "messages": [{"role": "user", "content": f"{number}: " + "and so on " * 60}],
                },
            )
            if answer.status == 200:
                acknowledged.append(answer.json["tenuto"]["turn"])
                continue
            refused += 1
            assert answer.status in (500, 503, 507), answer
            message = answer.json["error"]["message"]
            assert "disk" in message or "space" in message or "full" in message, message
            # Clients learn which file, people at the machine where it is.
            assert "log.db" in message and str(disk) not in message, message
            assert f"{store}/log.db: " in server.log
        assert refused > 0, "the disk was never full: the test proves nothing"
        assert server.get("/health").status in (200, 503)
        assert server.session("full")["turns"] == len(acknowledged)
        filler.unlink()
        after = wait_for("turns to be taken again", lambda: _try(server), 30)
        acknowledged.append(after["tenuto"]["turn"])
        assert server.session("full")["turns"] == len(acknowledged)
        assert len(set(acknowledged)) == len(acknowledged)
        assert server.stop() == 0
    finally:
        if server.process is not None:
            server.kill9()
        disk.with_suffix(".img").unlink(missing_ok=True)  # pytest keeps the folders of three runs


class Disk:
    """A memory disk in a namespace that stays: several commands see the same one. Use `with`."""

    def __init__(self, folder, size):
        self.holder = subprocess.Popen([*tmpfs(folder, size), "sleep", "600"])
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        self.prefix = ["nsenter", "-t", str(self.holder.pid), *user, "-m"]
        self.folder = type(folder)(f"/proc/{self.holder.pid}/root{folder}")

    def __enter__(self):
        wait_for("the disk", lambda: os.path.ismount(self.folder), 10)
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()


def names(store):
    """What lies in a store, but for what SQLite makes and removes as it likes."""
    return sorted(path.name for path in store.iterdir() if not path.name.startswith("log.db-"))


def test_a_start_on_a_full_disk_names_the_way_out(tmp_path):
    store = tmp_path / "disk" / "store"
    store.parent.mkdir()
    with Disk(store.parent, "80m") as disk:
        server = Server(store, tmp_path / "log", model=None, engine_flags=ENGINE)
        server.prefix = disk.prefix
        server.start()
        server.chat("kept", "some words " * 150, 4)
        server.wait_stored("kept")
        fill(disk.folder)
        served = run("sessions", "delete", "kept", "--store", store, prefix=disk.prefix)
        assert served.returncode == 1 and f"store {store}: " in served.stderr, served
        (disk.folder / "filler").unlink()
        assert server.stop() == 0
        flags = ["--fake-executor", "--store", store, "--port", server.port]
        assert run("serve", "--check", *flags, prefix=disk.prefix).returncode == 0
        fill(disk.folder)
        before = names(disk.folder / "store")
        said = []
        for command in (["serve", "--check"], ["serve"]):
            ended = run(*command, *flags, prefix=disk.prefix)
            assert ended.returncode == 1, ended
            said.append(plain_lines(ended.stderr))
        assert said[0] == said[1] and len(said[0]) == 1, said
        assert f"store {store}: " in said[0][0] and f"{store}/kv" in said[0][0], said
        deleted = run("sessions", "delete", "kept", "--store", store, prefix=disk.prefix)
        assert deleted.returncode == 1 and plain_lines(deleted.stderr) == said[0], deleted
        new = run("serve", "--check", *flags[:2], f"{store}-2", prefix=disk.prefix)
        assert new.returncode == 1 and f"store {store}-2: " in new.stderr, new
        assert "kv" not in new.stderr, new
        assert names(disk.folder / "store") == before
        shutil.rmtree(disk.folder / "store/kv")
        assert run("serve", "--check", *flags, prefix=disk.prefix).returncode == 0
        server.start()
        assert server.session("kept")["turns"] == 1
        server.kill9()


def _try(server):
    answer = server.post(
        "/v1/chat/completions",
        {
            "session_id": "full",
            "max_tokens": 4,
            "messages": [{"role": "user", "content": "There is room again."}],
        },
    )
    return answer.status == 200 and answer.json


def test_kv_does_not_fit_but_the_log_does(tmp_path):
    """KV never fails a request: with no room for it, turns go on and are computed again after a
    restart.
    """
    store = tmp_path / "store"
    store.mkdir()
    prefix = tmpfs(store, "6m")
    server = Server(store, tmp_path / "log", engine_flags=ENGINE, prefix=prefix).start()
    try:
        for number in range(3):
            answer = server.chat("big", f"{number}: " + "a few more words " * 40, 4)
            assert content(answer) is not None
        assert server.session("big")["turns"] == 3
        assert server.session("big")["kv"]["stored_tokens"] < server.session("big")["tokens"] - 1
        assert server.stop() == 0
    finally:
        if server.process is not None:
            server.kill9()


def test_read_only_store(tmp_path, new_server):
    writable = new_server(model=None)
    writable.chat("kept", "Hello.", 4)
    writable.stop()
    store = writable.store
    prefix = in_namespace('mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"') + [str(store)]
    ended = run("serve", "--fake-executor", "--store", store, "--port", free_port(), prefix=prefix)
    assert ended.returncode == 1, ended
    said = plain_lines(ended.stderr)
    assert len(said) == 1 and str(store) in said[0], ended.stderr
    assert "read-only" in said[0].lower() or "write" in said[0], said
    listed = run("sessions", "list", "--store", store, prefix=prefix)
    assert listed.returncode == 0 and "kept" in listed.stdout, listed
    writable.start()
    assert writable.session("kept")["turns"] == 1
