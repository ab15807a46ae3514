"""The rankers that evaluate.py can run: SQLite's FTS5 as the baseline, and any program that speaks
the protocol of README.md. A ranker has reset(), add(turns) and ask(question, limit, window_from).
"""

import json
import pathlib
import random
import re
import shlex
import sqlite3
import subprocess
import time

import words

TUNED = pathlib.Path(__file__).resolve().parent / "fts5_tuned.json"
DEFAULTS = {"user": 1.0, "assistant": 0.1, "threshold": 0.0}
QUERY_TERMS_MAX = 32
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def bigrams(text):
    """Runs of letters without spaces as overlapping pairs, the rest as it is."""

    def pairs(found):
        run = found[0]
        return " " + " ".join([run[at : at + 2] for at in range(max(1, len(run) - 1))]) + " "

    return UNSPACED.sub(pairs, text)


def stop_words():
    loaded = (language for name in words.LANGUAGES for language in words.load(name))
    return set().union(*(language.stop for language in loaded))


class Fts5:
    """One in-memory FTS5 table for each conversation: user and assistant columns, porter unicode61,
    tokens quoted and joined with OR, bm25 with tuned weights, a tuned threshold as the gate. With
    pairs, text without spaces is cut into bigrams first.
    """

    def __init__(self, pairs=False, settings=None):
        self.name = "fts5_bigram" if pairs else "fts5"
        self.pairs, self.prepare = pairs, bigrams if pairs else str
        stored = json.loads(TUNED.read_text()) if TUNED.exists() else {}
        self.settings = {**DEFAULTS, **stored.get(self.name, {}), **(settings or {})}
        self.stop = stop_words()
        self.base = None

    def reset(self):
        self.asked = ("", 0, [])
        if self.base:
            self.base.close()
        self.base = sqlite3.connect(":memory:")
        # Vowel signs and tone marks of Thai are letters of a pair, not ends of words.
        how = "porter unicode61" + (" categories ''L* N* Co Mn Mc''" if self.pairs else "")
        self.base.execute(f"CREATE VIRTUAL TABLE f USING fts5(user, assistant, tokenize='{how}')")
        self.weights(self.settings["user"], self.settings["assistant"])

    def weights(self, user, assistant):
        rank = f"bm25({user}, {assistant})"
        self.base.execute("INSERT INTO f(f, rank) VALUES('rank', ?)", [rank])

    def add(self, turns):
        prepare = self.prepare
        self.asked = ("", 0, [])
        rows = ((t["turn"], prepare(t["user"]), prepare(t["assistant"])) for t in turns)
        self.base.executemany("INSERT INTO f(rowid, user, assistant) VALUES(?, ?, ?)", rows)

    def query(self, text):
        tokens = re.findall(r"(?:[^\W_]|[\u0e31-\u0e4e])+", self.prepare(text.lower()))
        kept = [token for token in dict.fromkeys(tokens) if token not in self.stop]
        return " OR ".join(f'"{token}"' for token in kept[:QUERY_TERMS_MAX])

    def rank(self, text, limit, window_from):
        query = self.query(text)
        if not query:
            return []
        return self.base.execute(
            "SELECT rowid, -rank FROM f WHERE f MATCH ? AND rowid < ? ORDER BY rank LIMIT ?",
            (query, window_from, limit),
        ).fetchall()

    def ask(self, question, limit, window_from):
        started = time.perf_counter()
        if self.asked[:2] != (question["text"], window_from) or limit > 5:
            rows = self.rank(question["text"], max(5, limit), window_from)
            self.asked = (question["text"], window_from, rows)
        rows = self.asked[2][:limit]  # the same at a lower limit needs no second query
        injected = [turn for turn, score in rows if score >= self.settings["threshold"]]
        return {
            "ranked": [{"turn": turn, "score": score, "terms": []} for turn, score in rows],
            "decision": "injected" if injected else "gated" if rows else "empty",
            "injected": injected,
            "us": (time.perf_counter() - started) * 1e6,
        }

    def close(self):
        self.base.close()


class Chance:
    """Any turns at all, to compare with."""

    name = "chance"

    def reset(self):
        self.rng = random.Random(5)

    def add(self, turns):
        pass

    def ask(self, question, limit, window_from):
        count = min(limit, window_from - 1)
        turns = self.rng.sample(range(1, window_from), count)
        ranked = [{"turn": turn, "score": 0.0, "terms": []} for turn in turns]
        return {"ranked": ranked, "decision": "injected", "injected": turns, "us": 0.0}

    def close(self):
        pass


class Command:
    """A program on the other side of two pipes, one JSON object a line: COMMAND or NAME=COMMAND."""

    def __init__(self, command):
        named = re.match(r"([\w.-]+)=(.+)", command)
        argv = shlex.split(named[2] if named else command)
        self.name = named[1] if named else pathlib.Path(argv[0]).name
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")

    def reset(self):
        self.send({"op": "reset"})

    def add(self, turns):
        for turn in turns:
            self.send({"op": "add", "turn": turn})

    def ask(self, question, limit, window_from):
        asked = {key: question[key] for key in ("text", "time", "last_user", "last_answer")}
        self.send({"op": "ask", "question": asked, "limit": limit, "window_from": window_from})
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: status {self.process.wait()}")
        reply = json.loads(line)
        missing = {"ranked", "decision", "injected", "us"} - set(reply)
        if missing or reply["decision"] not in ("injected", "gated", "empty"):
            raise RuntimeError(f"{self.name}: not an answer of the protocol: {line[:200]}")
        turns = [hit["turn"] for hit in reply["ranked"]] + reply["injected"]
        if any(turn >= window_from for turn in turns):
            raise RuntimeError(f"{self.name}: a turn of the window in {line[:200]}")
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def make(spec):
    if spec in ("fts5", "fts5-bigram"):
        return Fts5(pairs=spec == "fts5-bigram")
    return Chance() if spec == "chance" else Command(spec)
