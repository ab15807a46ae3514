"""Figures of a single turn: what it writes, how long its commit holds the answer back, and what a
session costs over the same prompt without one.
"""

import json
import pathlib
import random
import sqlite3
import time

from kit.history import answer_fields, chat, kv_files
from kit.machine import median, need, say
from kit.report import Figure, over, spread
from kit.server import Server, stream

ALLOWED_BYTES = 64 * 1024
ROW_BYTES = 4096


class CommitBaseline:
    """What one durable commit costs on the store's volume: SQLite, WAL, synchronous=FULL, a row of
    4 KiB.
    """

    def __init__(self, folder):
        self.log = sqlite3.connect(folder / "commit-baseline.db", isolation_level=None)
        self.log.execute("PRAGMA journal_mode=WAL")
        self.log.execute("PRAGMA synchronous=FULL")
        self.log.execute("PRAGMA wal_autocheckpoint=0")
        self.log.execute("CREATE TABLE IF NOT EXISTS turns(id INTEGER PRIMARY KEY, data BLOB)")
        self.row = random.Random(1).randbytes(ROW_BYTES)
        self.times = []

    def commit(self):
        begun = time.perf_counter()
        self.log.execute("BEGIN IMMEDIATE")
        self.log.execute("INSERT INTO turns(data) VALUES(?)", (self.row,))
        self.log.execute("COMMIT")
        self.times.append((time.perf_counter() - begun) * 1e3)

    @property
    def median_ms(self):
        return median(self.times)


def tokens_for(setup, count, seed):
    """Token ids that a text could have."""
    draw = random.Random(seed)
    return [draw.randrange(1000, setup.facts["vocabulary"]) for _ in range(count)]


def raw(tokens, new, session=None):
    body = {"prompt": tokens, "n_predict": new, "temperature": 0, "ignore_eos": True}
    body["return_tokens"] = True
    return {**body, "session_id": session} if session else body


def write_bytes(pid):
    text = pathlib.Path(f"/proc/{pid}/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["write_bytes"])


def file_bytes(store):
    log = sum(path.stat().st_size for path in store.glob("log.db*") if "shm" not in path.name)
    return log + sum(path.stat().st_size for path in kv_files(store))


def bytes_written_per_turn(setup):
    say("bytes_written_per_turn")
    session, prompt, new = "bench::bytes", 100, 100
    rounds = []
    store = setup.temp / "bytes-store"
    with Server(setup, store) as server:
        for i in range(2 if setup.quick else 6):
            before = write_bytes(server.pid), file_bytes(store)
            answer = server.call(
                "POST", "/completion", raw(tokens_for(setup, prompt, i), new, session)
            )
            server.wait_stored(session)
            time.sleep(0.3)
            need(answer["tokens_predicted"] == new, f"{answer['tokens_predicted']} new tokens")
            rounds.append(
                {
                    "io": write_bytes(server.pid) - before[0],
                    "growth": file_bytes(store) - before[1],
                    "tokens": prompt + new,
                }
            )
    # The first turn makes files and the session; what is asked for is a turn.
    rounds = rounds[1:]
    # What the kernel counted holds rewritten pages too; it is 0 where the volume is not a disk.
    written = median([max(r["io"], r["growth"]) for r in rounds])
    size = (prompt + new) * setup.kv_bytes_per_token
    yield Figure(
        "bytes_written_per_turn",
        f"{prompt + new} new tokens",
        (written - ALLOWED_BYTES) / size,
        "<= 1.05",
        f"{written / 1e6:.3f} MB written - 64 KiB",
        f"{prompt + new} x {setup.kv_bytes_per_token} bytes of KV",
        {"rounds": rounds, "kv_bytes_per_token": setup.kv_bytes_per_token},
    )


def commit_to_end(setup):
    say("commit_to_end")
    turns = 5 if setup.quick else 50
    session = "bench::commit"
    tails, commits = [], []
    baseline = CommitBaseline(setup.temp)
    with Server(setup, setup.temp / "commit-store") as server:
        fields = answer_fields(server, 8)
        for _ in range(turns):
            answer = stream(
                server, "/v1/chat/completions", chat("And what came then?", fields, session)
            )
            tails.append(answer.tail_ms)
            commits.append(answer.last["tenuto"]["timing_ms"]["commit"])
            server.wait_stored(session)
            baseline.commit()
            baseline.commit()
    tail, commit = median(tails), baseline.median_ms
    yield Figure(
        "commit_to_end",
        f"{turns} turns",
        over(tails, baseline.times),
        "<= 2",
        f"last token to [DONE], p50: {tail:.2f} ms",
        f"one SQLite FULL commit, p50: {commit:.2f} ms",
        {
            "tail_ms": tails,
            "server_commit_ms": median(commits),
            "baseline_ms": baseline.times,
        },
        spread=spread(over, tails, baseline.times),
    )


class Whole:
    """Requests answered in one piece over one connection, timed."""

    def __init__(self, server):
        self.connection = server.connect()
        self.connection.connect()

    def post(self, body):
        data = json.dumps(body)
        begun = time.perf_counter()
        self.connection.request("POST", "/completion", data, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        ms = (time.perf_counter() - begun) * 1e3
        need(answer.status == 200, f"/completion: {text[:400]!r}")
        return ms, json.loads(text)


def added(with_session, without, commits):
    return median(with_session) - median(without) - median(commits)


def session_overhead(setup):
    say("session_overhead")
    pairs = 5 if setup.quick else 60
    session = "bench::overhead"
    baseline = CommitBaseline(setup.temp)
    with_session, without = [], []
    with Server(setup, setup.temp / "overhead-store") as server:
        whole = Whole(server)

        def ask(tokens, history, name):
            """One turn with the session or its whole window without: the same forward pass."""
            ms, answer = whole.post(raw(tokens, 1, name))
            kv = answer["tenuto"]["kv"]
            if history:
                need(kv["reused"] == len(history) - 1, f"not warm ({name}): {kv}")
            return ms, answer["tokens"]

        history = []
        for i in range(pairs + 1):
            suffix = tokens_for(setup, 6, 1000 + i)
            window = history + suffix
            times = {}
            # Alternating order: a drift of the machine hits both.
            for name in (session, None) if i % 2 else (None, session):
                times[name], answer = ask(suffix if name else window, history, name)
                if name:
                    server.wait_stored(session)
            history = window + answer
            baseline.commit()
            baseline.commit()
            if i > 0:
                with_session.append(times[session])
                without.append(times[None])
    commit = baseline.median_ms
    times = (with_session, without, baseline.times)
    paired = median([a - b for a, b in zip(with_session, without)]) - commit
    yield Figure(
        "session_overhead",
        f"{pairs} pairs",
        added(*times),
        "<= 1 ms",
        f"with {median(with_session):.2f} ms, without {median(without):.2f} ms, p50",
        f"one SQLite FULL commit, p50: {commit:.2f} ms",
        {
            "paired_difference_ms": paired,
            "with_ms": with_session,
            "without_ms": without,
            "baseline_ms": baseline.times,
        },
        unit="ms",
        spread=spread(added, *times),
    )
