"""Figures of recall: a conversation of hundreds of turns beside a client that truncates, the first
token of a turn that quotes, and the session of 20,000 turns that is asked again.
"""

import json
import sys
import time

from kit import story
from kit.history import answer_fields, text_of_tokens
from kit.machine import ROOT, median, need, say
from kit.report import Figure, spread
from kit.server import Server, stream

SESSION = "bench::story"
ANSWER_TOKENS = 16
WINDOW = 1024
ROOM = 48  # tokens that a truncating client keeps free beside the answer
BLOCK = 4  # the baseline is asked four turns in a row, then rests
IMPORT_ITEMS = 20000


def chat_body(messages, **fields):
    return {"messages": messages, "max_tokens": ANSWER_TOKENS, "temperature": 0, **fields}


def user(text):
    return {"role": "user", "content": text}


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


def import_turns(server, session, items):
    for at in range(0, len(items), IMPORT_ITEMS):
        part = items[at : at + IMPORT_ITEMS]
        body = "".join(json.dumps(item) + "\n" for item in part).encode()
        connection = server.connect()
        connection.request("POST", f"/v1/sessions/{session}/import", body)
        answer = connection.getresponse()
        need(answer.status == 200, f"import: {answer.status} {answer.read()[:300]!r}")
        connection.close()


def ids_of(server, session):
    ids, after = [], ""
    while True:
        page = server.call("GET", f"/v1/sessions/{session}/turns?limit=1000&after={after}")
        ids += [turn["id"] for turn in page["data"]]
        after = page["last_id"]
        if not page["has_more"]:
            return ids


def in_prompt(server, session, turn):
    """Turns that are in that turn's prompt, whole or quoted."""
    spans = server.call("GET", f"/v1/sessions/{session}/turns/{turn}/explain")["spans"]
    whole = {span["turn"] for span in spans if span["kind"] in ("turn", "pinned")}
    return whole | {one for span in spans for one in span["quoted"]}


class Truncating:
    """A client without sessions: it sends the last turns that fit. They are those of the session,
    so that both have the same conversation."""

    def __init__(self, server):
        self.server = server
        self.turns = []  # (tokens, user, answer)
        self.template = 10  # tokens around the two messages of a turn, more or less

    def add(self, said, answer):
        tokens = len(self.server.tokenize(said)) + len(self.server.tokenize(answer))
        self.turns.append((tokens + self.template, said, answer))

    def messages(self, text):
        room = WINDOW - ANSWER_TOKENS - ROOM - len(self.server.tokenize(text))
        kept = []
        for tokens, said, answer in reversed(self.turns):
            room -= tokens
            if room < 0:
                break
            kept.append((said, answer))
        messages = []
        for said, answer in reversed(kept):
            messages += [user(said), {"role": "assistant", "content": answer or "-"}]
        return [*messages, user(text)]

    def ask(self, text):
        """(answer, seconds)"""
        body = chat_body(self.messages(text))
        begin = time.perf_counter()
        answer = self.server.call("POST", "/v1/chat/completions", body)
        return text_of(answer), time.perf_counter() - begin


class Conversation:
    def __init__(self, setup, server, turns):
        self.server, self.baseline = server, Truncating(server)
        self.said = story.told(turns)
        self.imported = max(0, turns - setup.live) if setup.live else 0
        self.baseline_questions = setup.baseline_questions
        self.baseline_every = setup.baseline_every
        self.pairs = []  # seconds with the session, seconds of the baseline; past the window
        self.seconds = []
        self.cut = False

    def say(self, text, **fields):
        body = chat_body([user(text)], session_id=SESSION, **fields)
        begin = time.perf_counter()
        answer = self.server.call("POST", "/v1/chat/completions", body)
        return answer, time.perf_counter() - begin

    def begin(self):
        """What is not talked but imported."""
        items = []
        for number, text in enumerate(self.said[: self.imported]):
            answer = story.reply(number)
            items += [user(text), {"role": "assistant", "content": answer}]
            self.baseline.add(text, answer)
        if items:
            import_turns(self.server, SESSION, items)
            self.say("Let us go on.")  # what is left of the window is computed
            self.said.insert(self.imported, "Let us go on.")
            self.cut = True

    def talk(self):
        self.begin()
        for number, text in enumerate(self.said):
            if number <= self.imported and self.imported:
                continue
            compared = self.cut and number % self.baseline_every < BLOCK
            theirs = self.baseline.ask(text)[1] if compared else None
            answer, seconds = self.say(text)
            self.baseline.add(text, text_of(answer))
            self.cut = self.cut or answer["tenuto"]["window"]["archived_turns"] > 0
            if self.cut:
                self.seconds.append(seconds)
            if compared and number % self.baseline_every > 0:
                self.pairs.append((seconds, theirs))
            if number % 50 == 49:
                say(f"turn {number + 1}: {seconds:.2f} s")

    def questions(self):
        """A record of each question: answers, whether they are right, and what the prompts held."""
        place = {text: number for number, text in enumerate(self.said)}
        ids = ids_of(self.server, SESSION)
        asked = []
        for number, (fact, question, expected) in enumerate(story.FACTS):
            # Every n-th, so that as many are asked as wanted.
            wanted = number * self.baseline_questions % len(story.FACTS) < self.baseline_questions
            theirs = self.baseline.ask(question)[0] if wanted else None
            answer, _ = self.say(question)
            turn = answer["tenuto"]["turn"]
            evidence = ids[place[fact]] in in_prompt(self.server, SESSION, turn)
            messages = self.baseline.messages(question)
            kept = any(fact == message["content"] for message in messages)
            self.baseline.add(question, text_of(answer))
            asked.append(
                {
                    "question": question,
                    "expected": expected,
                    "answer": text_of(answer),
                    "right": story.is_right(text_of(answer), expected),
                    "evidence": evidence,
                    "decision": answer["tenuto"]["recall"]["decision"],
                    "tokens": answer["tenuto"]["recall"]["tokens"],
                    "baseline": theirs,
                    "baseline_right": wanted and story.is_right(theirs, expected),
                    "baseline_asked": wanted,
                    "baseline_evidence": kept,
                }
            )
        return asked


def conversation(setup):
    turns = 110 if setup.quick else setup.turns
    say(f"conversation of {turns} turns")
    flags = ("-c", "4096", "--window", str(WINDOW), "-np", "2", *setup.recall_flags)
    with Server(setup, setup.temp / "story", flags) as server:
        talk = Conversation(setup, server, turns)
        talk.talk()
        asked = talk.questions()
    ours, theirs = zip(*talk.pairs)
    ratio = lambda mine, other: sum(other) / len(other) / (sum(mine) / len(mine))
    count = len(asked)
    number = lambda key: sum(one[key] for one in asked)
    at = f"{turns} turns, window {WINDOW}"
    if talk.imported:
        at += f", {talk.imported} imported"
    return [
        Figure(
            "turns_per_second",
            at,
            ratio(ours, theirs),
            ">= 0.9",
            f"{len(talk.seconds) / sum(talk.seconds):.2f} turns/s past the window; paired: "
            f"{sum(ours) / len(ours):.2f} s a turn",
            f"without sessions, the last turns that fit: {sum(theirs) / len(theirs):.2f} s a turn, "
            f"{len(theirs)} pairs",
            {"seconds": talk.seconds, "pairs": talk.pairs},
            spread=spread(ratio, ours, theirs),
        ),
        Figure(
            "evidence_in_prompt",
            at,
            number("evidence"),
            "",
            f"of {count} facts told in the first 80 turns",
            f"truncating client: {number('baseline_evidence')} of {count}",
            {"asked": asked},
            unit=f"of {count}",
        ),
        Figure(
            "answered_correctly",
            at,
            number("right"),
            "",
            f"of {count}, by a model of 135M parameters",
            f"truncating client: {number('baseline_right')} of {number('baseline_asked')}",
            unit=f"of {count}",
        ),
    ]


# --- The first token of a turn that quotes 512 tokens.

LIVE_TURNS = 6
SUBJECTS = ("aqueduct", "lighthouse", "observatory", "tannery", "brewery")
QUESTION = f"What did the surveyor write about the {', the '.join(SUBJECTS)}?"


def long_turns(server):
    """Some 100 tokens each, about a thing each, so that force quotes all five."""
    items = []
    for number, subject in enumerate(SUBJECTS):
        text = text_of_tokens(server, 80 + number)
        said = f"Of the {subject}: {text}"
        items += [user(said), {"role": "assistant", "content": "Kept."}]
    return items


def live_turns(server):
    items = []
    for number in range(LIVE_TURNS):
        text = text_of_tokens(server, 40 + number)
        items += [user(text), {"role": "assistant", "content": "So."}]
    return items


def first_token(setup):
    say("injected_first_token")
    flags = ("-c", "8192", "--window", "2048", "-np", "2", "--recall-tokens", "600")
    flags += ("--recall-share", "50", "--window-low", "15", "--window-high", "70")
    flags += tuple(setup.recall_flags)
    times = {"quoted": [], "plain": [], "short": []}
    tokens, details = [], []
    with Server(setup, setup.temp / "first", flags) as server:
        fields = answer_fields(server, 4)
        archive = [*long_turns(server), *live_turns(server), *live_turns(server)]
        for number in range(2 if setup.quick else setup.repeat):
            text = QUESTION
            order = ["quoted", "plain", "short"]
            if number % 2:
                order = ["quoted", "short", "plain"]
            for kind in order:
                session = f"bench::{kind}-{number}"
                import_turns(server, session, archive)
                warm = {"messages": [user("Go on.")], "session_id": session, "recall": "off"}
                server.call("POST", "/v1/chat/completions", {**warm, **fields})
                server.wait_stored(session)
                time.sleep(0.3)
                said = text if kind != "plain" else f"{plain} {text}"
                body = {"messages": [user(said)], "session_id": session, **fields}
                body["recall"] = "force" if kind == "quoted" else "off"
                answer = stream(server, "/v1/chat/completions", body)
                recall, kv = answer.last["tenuto"]["recall"], answer.kv
                need(kv["reused"] > 0, f"the session was not live: {kv}")
                if kind == "quoted":
                    need(recall["tokens"] >= 400, f"only {recall['tokens']} tokens were quoted")
                    plain = text_of_tokens(server, recall["tokens"] - 1)
                    tokens.append(recall["tokens"])
                times[kind].append(answer.first_ms)
                details.append((kind, kv["recomputed"], answer.first_ms))
                server.call("DELETE", f"/v1/sessions/{session}")
            say(" ".join(f"{kind} {values[-1]:.0f} ms" for kind, values in times.items()))
    computed = {kind: median([n for k, n, _ in details if k == kind]) for kind in times}
    need(abs(computed["quoted"] - computed["plain"]) <= 16, f"not the same work: {computed}")
    extra = lambda quoted, plain, short: (median(quoted) - median(short)) / (
        median(plain) - median(short)
    )
    values = list(times.values())
    return [
        Figure(
            "injected_first_token",
            f"{median(tokens):.0f} tokens quoted",
            extra(*values),
            "<= 1.05",
            f"first token {median(times['quoted']):.0f} ms with quotes, "
            f"{median(times['short']):.0f} ms without",
            f"the same number of tokens in the message: {median(times['plain']):.0f} ms",
            {"times_ms": times, "computed_tokens": computed},
            spread=spread(extra, *values),
        )
    ]


# --- 20,000 turns, asked again.


def items_of(turns):
    items = []
    for turn in turns:
        name = {"name": turn["name"]} if "name" in turn else {}
        items.append({**user(turn["user"]), "time": turn["time"], **name})
        items.append({"role": "assistant", "content": turn["assistant"], "time": turn["time"]})
    return items


def ask_all(server, session, ids, questions, recall):
    """How many had all their evidence in the prompt, and milliseconds of each answer."""
    found, times = 0, []
    for question in questions:
        body = chat_body([user(question["text"])], session_id=session, recall=recall)
        body["max_tokens"] = 8
        begin = time.perf_counter()
        answer = server.call("POST", "/v1/chat/completions", body)
        times.append((time.perf_counter() - begin) * 1e3)
        there = in_prompt(server, session, answer["tenuto"]["turn"])
        found += {ids[turn] for turn in question["gold"]} <= there
    return found, times


def asked_again(setup):
    """With the fake executor: what is in the prompt does not depend on the model."""
    sys.path.insert(0, str(ROOT / "tests/recall_data"))
    import asked_again as data  # pylint: disable=import-outside-toplevel

    facts = 40 if setup.quick else data.FACTS
    told = data.build("dev")
    questions = told["questions"][:facts]
    asked = {turn for question in questions for turn in question["earlier"]}
    middle = len(told["turns"]) // 2
    rest = [turn for turn in told["turns"][middle:] if turn["turn"] not in asked]
    # A token of the fake executor is a byte: room for what 512 real tokens are.
    flags = ("-c", "12288", "--window", "8192", "-np", "2", "--recall-share", "50")
    flags += ("--recall-tokens", "2048")
    figures = []
    for first in ("auto", "force"):
        say(f"asked_again, first {first}")
        with Server(setup.fake(), setup.temp / f"again-{first}", flags) as server:
            import_turns(server, SESSION, items_of(told["turns"][:middle]))
            ids = dict(enumerate(ids_of(server, SESSION), 1))
            early, _ = ask_all(server, SESSION, ids, questions, first)
            import_turns(server, SESSION, items_of(rest))
            late, times = ask_all(server, SESSION, ids, questions, "auto")
        times.sort()
        speed = f"answers p50 {median(times):.1f} ms, p99 {times[len(times) * 99 // 100]:.1f} ms"
        what = f"of {facts} questions, evidence in the prompt"
        goal = f">= {facts}" if first == "force" else ""
        unit = f"of {facts}"
        figures += [
            Figure("asked_again", f"first asked, {first}", early, "", what, "", unit=unit),
            Figure("asked_again", f"again, first {first}", late, goal, what, speed, unit=unit),
        ]
    return figures
