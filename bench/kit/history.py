"""Sessions of a given length, made once and kept under bench/out/cache; each measurement works on
a copy. They are left as kill -9 leaves a store whose session was idle.
"""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import time

from kit.machine import need, say
from kit.server import Server, stream

SESSION = "bench::history"
TURN_TOKENS = 16
# Texts whose whole turn, template included, may come to 16 tokens; the tokenizer decides.
TURNS = [
    "What happened after that?",
    "And who was there?",
    "Go on with it.",
    "And then?",
    "Go on with the story.",
    "And what did they do next?",
    "Tell me a little more about that.",
]
WORDS = (
    "the river runs past an old mill where a clock maker kept his tools and wrote each day what "
    "the weather did how many boats went by which letters came and whom he met on the road"
).split()


def answer_fields(server, tokens):
    """Greedy, and no token without a text that a client could see: a time needs a chunk."""
    banned = {
        token
        for text in ("<|im_end|>", "<|im_start|>", "<|endoftext|>")
        for token in server.tokenize(text)
        if len(server.tokenize(text)) == 1
    }
    return {
        "temperature": 0,
        "max_tokens": tokens,
        "logit_bias": {str(token): -100 for token in sorted(banned)},
    }


def chat(text, fields, session=SESSION):
    body = {"messages": [{"role": "user", "content": text}], **fields}
    return {**body, "session_id": session} if session else body


def text_of_tokens(server, tokens):
    """Words that are about as many tokens; the same for the same number."""
    draw = random.Random(tokens)
    words = [draw.choice(WORDS) for _ in range(tokens * 2)]
    count = tokens
    for _ in range(8):
        got = len(server.tokenize(" ".join(words[:count])))
        if abs(got - tokens) <= 1:
            break
        count = max(1, count - (got - tokens) if abs(got - tokens) < 8 else count * tokens // got)
    return " ".join(words[:count])


def find_turn_text(server, fields):
    """A text whose turn adds exactly 16 tokens to a session, tried on a session of its own."""
    name = "bench::scratch"
    stream(server, "/v1/chat/completions", chat("Hello.", fields, name))
    for text in TURNS:
        before = server.call("GET", f"/v1/sessions/{name}")["tokens"]
        answer = stream(server, "/v1/chat/completions", chat(text, fields, name))
        if sum(answer.kv[k] for k in ("reused", "restored", "recomputed")) - before == TURN_TOKENS:
            server.call("DELETE", f"/v1/sessions/{name}")
            return text
    need(False, f"none of the turns in bench/kit/history.py has {TURN_TOKENS} tokens")
    return ""


class History:
    """A store with one session of about `tokens` tokens, and what is known of it."""

    def __init__(self, folder):
        self.folder = folder
        facts = json.loads((folder / "facts.json").read_text())
        self.tokens = facts["tokens"]
        self.stored_tokens = facts["stored_tokens"]
        self.stored_bytes = facts["stored_bytes"]
        self.turn_text = facts["turn_text"]
        self.fields = facts["fields"]

    def copy(self, to):
        """A fresh copy at `to`, on the disk, so that no writing back disturbs a measurement."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(
            self.folder / "store", to, ignore=shutil.ignore_patterns("control.sock", "lock")
        )
        for path in to.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        return to

    def turn(self):
        return chat(self.turn_text, self.fields)


def kv_files(store):
    return sorted(path for path in (store / "kv").rglob("*") if path.is_file())


def store_files(store):
    return sorted(path for path in store.rglob("*") if path.is_file())


def histories(setup, lengths):
    """Makes those that the cache lacks; {tokens: History}."""
    probe = setup.temp / "probe-store"
    with Server(setup, probe) as server:
        fingerprint = server.call("GET", "/props")["fingerprint"]
    log_format = sqlite3.connect(probe / "log.db").execute("PRAGMA user_version").fetchone()[0]
    shutil.rmtree(probe)
    made = {}
    for tokens in lengths:
        key = f"{fingerprint}/{tokens}/{setup.cells}/{setup.ubatch}/{log_format}"
        name = f"history-{tokens}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        folder = setup.cache / name
        if setup.fresh:
            shutil.rmtree(folder, ignore_errors=True)
        if not (folder / "facts.json").is_file():
            make(setup, folder, tokens)
        made[tokens] = History(folder)
    return made


def make(setup, folder, tokens):
    say(f"making a session of {tokens} tokens (once; kept in {folder.name})")
    begun = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Server(setup, folder / "store") as server:
        turn_fields = answer_fields(server, 2)
        turn_text = find_turn_text(server, turn_fields)
        # First turn, its answer of 8; then one small turn of 16 + 2.
        text = text_of_tokens(server, tokens - 60)
        stream(server, "/v1/chat/completions", chat(text, answer_fields(server, 8)))
        stream(server, "/v1/chat/completions", chat(turn_text, turn_fields))
        info = server.wait_stored(SESSION)
        need(
            abs(info["tokens"] - tokens) <= max(32, tokens // 50),
            f"the session has {info['tokens']} tokens, wanted about {tokens}",
        )
        server.kill9()
    facts = {
        "tokens": info["tokens"],
        "stored_tokens": info["kv"]["stored_tokens"],
        "stored_bytes": info["kv"]["stored_bytes"],
        "turn_text": turn_text,
        "fields": turn_fields,
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    say(f"  {info['tokens']} tokens in {time.monotonic() - begun:.0f} s")
