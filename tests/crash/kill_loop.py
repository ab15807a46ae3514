#!/usr/bin/env python3
"""kill -9 at random moments under load, judged by a record that is kept outside the server.

Clients of this process write down every turn whose answer they have read to its end: that is what
"acknowledged" means. After each death and start the record is compared with what the server says of
each session:

  - nothing acknowledged is missing, and it reads as it was acknowledged;
  - no turn is there twice: a turn asked for once appears once at most, acknowledged or not, also
    when the client asked again with the same Idempotency-Key;
  - each session goes on: its next turn is answered and follows the last one.

Everything is drawn from --seed; what the operating system adds is when exactly the signal lands.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # pylint: disable=wrong-import-position


@dataclasses.dataclass
class Asked:
    """One turn that a client asked for: its unique text, and what came of it."""

    session: str
    text: str
    key: str
    max_tokens: int
    turn: str = ""  # its id, once acknowledged
    answer: str = ""

    @property
    def acknowledged(self):
        return bool(self.turn)


class Client(threading.Thread):
    """Sends turns to sessions of its own until told to stop; drops out when the server dies."""

    def __init__(self, number, server, seed, settings):
        super().__init__(daemon=True)
        self.server = server
        self.random = random.Random(seed)
        self.name = f"client-{number}"
        self.sessions = [f"{self.name}::s{n}" for n in range(settings.sessions)]
        self.asked = []  # in order; read by the main thread only while this one is stopped
        self.settings = settings
        self.problems = []
        self.number = 0
        self.prefix = f"c{number}"
        self.running = threading.Event()
        self.busy = threading.Lock()  # held while a request is under way
        self.ended = False

    def run(self):
        while not self.ended:
            self.running.wait()
            with self.busy:
                if not self.running.is_set() or self.ended:
                    continue
                try:
                    self.one_turn()
                except (OSError, harness.http.client.HTTPException):
                    self.running.clear()  # the server died under it
                except (AssertionError, KeyError, ValueError) as error:
                    self.problems.append(f"{self.prefix}: {type(error).__name__}: {error}")
                    self.running.clear()

    def one_turn(self):
        last = self.asked[-1] if self.asked else None
        if last and not last.acknowledged and self.random.random() < 0.5:
            asked = last  # a retry after a lost acknowledgement
        else:
            self.number += 1
            text = f"{self.prefix} turn {self.number}"
            tokens = self.random.randint(1, self.settings.tokens)
            asked = Asked(self.random.choice(self.sessions), text, f"key-{self.number}", tokens)
            self.asked.append(asked)
        body = {
            "session_id": asked.session,
            "max_tokens": asked.max_tokens,
            "messages": [{"role": "user", "content": asked.text}],
        }
        headers = {"Idempotency-Key": asked.key}
        if self.random.random() < 0.5:
            self.streamed(asked, body, headers)
        else:
            self.whole(asked, body, headers)

    def whole(self, asked, body, headers):
        answer = self.server.post("/v1/chat/completions", body, headers)
        assert answer.status == 200, answer
        self.acknowledge(asked, answer.json["tenuto"]["turn"], harness.content(answer.json))

    def streamed(self, asked, body, headers):
        text, turn = "", ""
        stream = self.server.stream("/v1/chat/completions", body, headers)
        for event in stream:
            assert "error" not in event, event
            text += harness.text_of(event)
            turn = event.get("tenuto", {}).get("turn", turn)
        if stream.done:  # cut short: never acknowledged
            self.acknowledge(asked, turn, text)

    @staticmethod
    def acknowledge(asked, turn, answer):
        assert turn, "an answer without its turn's id"
        asked.turn, asked.answer = turn, answer


def exported(settings, session):
    """The session's messages as the command line exports them, beside the running server."""
    ended = harness.run("sessions", "export", session, "--store", settings.store)
    if ended.returncode != 0:
        return []
    return [json.loads(line) for line in ended.stdout.splitlines()]


def pairs(messages):
    """[(user text, answer)] of a session's messages."""
    roles = [m["role"] for m in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2), roles
    return [(q["content"], a["content"]) for q, a in zip(messages[::2], messages[1::2])]


def judge(client, settings, sessions):
    """Compares the record with the store; yields what is wrong."""
    for session in sessions:
        asked = [a for a in client.asked if a.session == session]
        stored = pairs(exported(settings, session))
        texts = [text for text, _ in stored]
        known = {a.text: a for a in asked}
        for text in set(texts):
            if texts.count(text) > 1:
                yield f"{session}: turn {text!r} is there {texts.count(text)} times"
            if text not in known:
                yield f"{session}: turn {text!r} was never asked for"
        for one in asked:
            if one.acknowledged and (one.text, one.answer) not in stored:
                yield f"{session}: {one.text!r} was acknowledged as {one.turn} and is missing"
        order = [a.text for a in asked]
        if [order.index(t) for t in texts if t in known] != sorted(
            order.index(t) for t in texts if t in known
        ):
            yield f"{session}: turns are out of order: {texts}"


def expect_all_go_on(server, clients):
    """Each session takes one more turn, which follows on its last. None is ever full: windows are
    trimmed.
    """
    problems = []
    gone_on = 0
    for client in clients:
        for session in list(client.sessions):
            before = server.session(session)
            client.number += 1
            text = f"{client.prefix} last {client.number}"
            asked = Asked(session, text, f"last-{client.number}", 2)
            client.asked.append(asked)
            answer = server.chat(session, text, asked.max_tokens)
            asked.turn, asked.answer = answer["tenuto"]["turn"], harness.content(answer)
            turns = (
                answer["tenuto"]["window"]["turns"] + answer["tenuto"]["window"]["archived_turns"]
            )
            if turns != (before["turns"] if before else 0) + 1:
                problems.append(f"{session}: turn {turns} after {before}")
            gone_on += before is not None
    print(f"{gone_on} sessions that were there went on", flush=True)
    if gone_on < len(clients):
        problems.append(f"only {gone_on} sessions were there to go on: the check shows nothing")
    return problems


def round_of(number, server, clients, settings, drawn):
    """Load, death, start, judgement. Returns what is wrong."""
    for client in clients:
        client.running.set()
    time.sleep(drawn.uniform(0.0, settings.load_s))
    server.kill9()
    for client in clients:
        client.running.clear()
    for client in clients:
        if not client.busy.acquire(timeout=120):
            return [f"round {number}: a client hangs"]
        client.busy.release()
    server.start()
    problems = [p for client in clients for p in client.problems]
    # One session of each client a round; at the end all of them are judged.
    for client in clients:
        problems += judge(client, settings, [drawn.choice(client.sessions)])
    return [f"round {number}: {p}" for p in problems]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--executor", choices=["fake", "llama"], default="fake")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--sessions", type=int, default=3, help="sessions of each client")
    settings = parser.parse_args()
    harness.BINARY = pathlib.Path(settings.binary)
    real = settings.executor == "llama"
    settings.tokens = 6 if real else 24
    settings.load_s = 3.0 if real else 0.5
    drawn = random.Random(settings.seed)
    print(f"seed {settings.seed}, {settings.rounds} rounds, {settings.executor}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tenuto-kill-") as folder:
        settings.store = pathlib.Path(folder) / "store"
        server = harness.Server(
            settings.store, pathlib.Path(folder) / "log", model=harness.MODEL if real else None
        )
        clients = [Client(n, server, drawn.random(), settings) for n in range(settings.clients)]
        server.start()
        problems = []
        try:
            for client in clients:
                client.start()
            for number in range(1, settings.rounds + 1):
                problems = round_of(number, server, clients, settings, drawn)
                if problems:
                    break
                if number % 20 == 0:
                    print(
                        f"  {number} rounds, {acknowledged(clients)} turns acknowledged", flush=True
                    )
            if not problems:
                problems = expect_all_go_on(server, clients)
                for client in clients:
                    problems += judge(client, settings, client.sessions)
                if server.stop() != 0:
                    problems.append("the last stop was not clean")
        finally:
            for client in clients:
                client.ended = True
                client.running.set()
            if server.process is not None:
                server.kill9()
        for problem in problems:
            print("WRONG", problem)
        if problems:
            print(server.log[-4000:])
    total = sum(len(c.asked) for c in clients)
    print(
        f"{total} turns asked for, {acknowledged(clients)} acknowledged, {len(problems)} problems"
    )
    return 1 if problems or acknowledged(clients) < settings.rounds else 0


def acknowledged(clients):
    return sum(a.acknowledged for client in clients for a in client.asked)


if __name__ == "__main__":
    sys.exit(main())
