"""Finds answers that were given in a wrong context. Four things are compared, all after the run:

log     what the server has kept of each session is what this client said and was told there: each
        turn once, in order, nothing of anyone else, and nothing acknowledged is missing;
usage   the prompt's tokens are those of this session's turns in the window, and the parts reused,
        restored and recomputed make up the whole;
words   no answer has the code word of another session;
exact   with the fake executor an answer is a function of every token before it: a plain server that
        is sent the same conversation whole, alone and without a session must say the same. A real
        model's numbers depend on what shares a step, so there a sample is run again (replay), and
        of that most must begin alike.

An answer is right when it is complete and nothing was found against it.
"""

import collections
import dataclasses
import random
import re
import time

from kit.machine import say

TELL_SECONDS = 5
REPLAYS, REPLAYS_MIN = 8, 4
REPLAY_TOKENS_MAX = 20000  # of their prompts, which are computed for it
ALIKE_MIN = 0.5  # share of replays that begin as the answer did; a wrong context gives next to none
ALIKE_WORDS = 2
CLOSING_TOKENS_MAX = 4  # that end the answer before a turn: a window that begins with it lacks them


@dataclasses.dataclass
class Stored:
    """A turn as the server's log has it."""

    turn: str
    text: str
    answer: str
    incomplete: bool
    prompt_tokens: int
    answer_tokens: int


@dataclasses.dataclass
class Verdict:
    asked: int = 0
    right: set = dataclasses.field(default_factory=set)  # ids of outcomes
    faults: list = dataclasses.field(default_factory=list)  # sentences
    compared: int = 0  # answers with what a plain server or a replay says
    words_said: int = 0  # answers that have their own session's code word
    alike: str = ""

    def is_right(self, outcome):
        return id(outcome) in self.right


def content_of(item):
    content = item.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def stored_of(turn):
    said = [content_of(item) for item in turn["items"] if item["role"] == "user"]
    answers = [content_of(item) for item in turn["items"] if item["role"] == "assistant"]
    return Stored(
        turn["id"],
        "\n".join(said),
        "".join(answers),
        turn["incomplete"],
        turn["prompt_tokens"],
        turn["completion_tokens"],
    )


class Witness:
    """What can be asked about a run: the server that was under load, and a plain one where answers
    can be told exactly.
    """

    def __init__(self, server, plain=None):
        self.server, self.plain = server, plain

    def stored(self, session):
        """All turns of a session; none where there is no such session."""
        turns, after = [], ""
        while True:
            path = f"/v1/sessions/{session}/turns?limit=1000&after={after}"
            status, page = self.server.request("GET", path)
            if status == 404:
                return []
            turns += [stored_of(turn) for turn in page["data"]]
            if not page["has_more"]:
                return turns
            after = page["last_id"]

    def says(self, messages, fields):
        """(text, prompt's tokens) of the whole conversation without a session."""
        body = {"messages": messages, **fields}
        answer = self.plain.call("POST", "/v1/chat/completions", body)
        text = answer["choices"][0]["message"]["content"] or ""
        return text, answer["usage"]["prompt_tokens"]

    def window(self, session, turn):
        """Ids of the turns that were in that turn's prompt, itself included."""
        path = f"/v1/sessions/{session}/turns/{turn}/explain"
        return {span["turn"] for span in self.server.call("GET", path)["spans"]}

    def replay(self, session, turn):
        """(what the same tokens give now, what they gave then)"""
        answer = self.server.call("POST", f"/v1/sessions/{session}/turns/{turn}/replay", {})
        return answer["text"], answer["stored_text"]


def quoted(text, length=60):
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def apart(got, wanted):
    """Both texts from where they differ."""
    shorter = min(len(got), len(wanted))
    at = next((i for i in range(shorter) if got[i] != wanted[i]), shorter)
    start = max(0, at - 10)
    return f"from character {at}: {quoted(got[start:])}, wanted {quoted(wanted[start:])}"


class Session:
    """The log of one session beside what was said and heard in it."""

    def __init__(self, name, outcomes, witness, before=()):
        self.name, self.outcomes, self.witness = name, outcomes, witness
        self.stored = witness.stored(name)
        self.before = list(before)  # (user, assistant) that was imported before the run
        self.faults = []  # (outcome or None, sentence)
        self.asked = {outcome.turn.text: outcome for outcome in outcomes}

    def fault(self, outcome, what):
        self.faults.append((outcome, f"{self.name}: {what}"))

    def doubted(self):
        """Outcomes that something was found against; all, where it is against the session."""
        found = [outcome for outcome, _ in self.faults]
        return self.outcomes if None in found else found

    def check_log(self):
        imported = [(turn.text, turn.answer) for turn in self.stored[: len(self.before)]]
        if imported != self.before:
            self.fault(None, "the history that was imported reads otherwise now")
        seen, last = set(), None
        for turn in self.stored[len(self.before) :]:
            outcome = self.asked.get(turn.text)
            if outcome is None:
                self.fault(None, f"the log has a turn that nobody sent here: {quoted(turn.text)}")
                continue
            if turn.text in seen:
                self.fault(outcome, f"the log has a turn twice: {quoted(turn.text)}")
            seen.add(turn.text)
            self._check_answer(outcome, turn)
            if last is not None and outcome.ended <= last.sent:
                self.fault(outcome, f"a turn lies before its predecessor: {quoted(turn.text)}")
            last = outcome
        for text, outcome in self.asked.items():
            if outcome.end == "done" and text not in seen:
                self.fault(outcome, f"an answer that was acknowledged is not there: {quoted(text)}")

    def _check_answer(self, outcome, turn):
        if outcome.end == "done" and outcome.text != turn.answer:
            self.fault(outcome, f"heard and kept differ {apart(outcome.text, turn.answer)}")
        elif outcome.end in ("left", "broken") and not turn.answer.startswith(outcome.text):
            self.fault(outcome, f"begun and kept differ {apart(outcome.text, turn.answer)}")
        elif outcome.end in ("refused", "failed"):
            self.fault(outcome, f"a turn that was refused ({outcome.error}) is in the log")

    def in_window(self, outcome):
        """(turns before it in its window, itself) as the log has them; (None, None) without it."""
        for number, turn in enumerate(self.stored):
            if turn.text == outcome.turn.text and number >= len(self.before):
                return self.stored[self._archived(outcome, turn) : number], turn
        return None, None

    def _archived(self, outcome, turn):
        """How many turns were outside of a turn's window: so the answer says, where it ended."""
        if outcome.tenuto:
            return outcome.tenuto["window"]["archived_turns"]
        inside = self.witness.window(self.name, turn.turn)
        return next(at for at, one in enumerate(self.stored) if one.turn in inside)

    def check_usage(self):
        for outcome in self.outcomes:
            history, turn = self.in_window(outcome)
            if outcome.end != "done" or turn is None:
                continue
            kv, usage = outcome.tenuto["kv"], outcome.usage
            parts = kv["reused"] + kv["restored"] + kv["recomputed"]
            if parts != usage["prompt_tokens"]:
                self.fault(outcome, f"{usage['prompt_tokens']} tokens of a prompt, but parts {kv}")
            wanted = sum(one.prompt_tokens + one.answer_tokens for one in history)
            wanted += turn.prompt_tokens
            cut = outcome.tenuto["window"]["archived_turns"] > 0
            lacking = wanted - usage["prompt_tokens"]
            if not 0 <= lacking <= (CLOSING_TOKENS_MAX if cut else 0):
                told = f"a prompt of {usage['prompt_tokens']} tokens, its turns have {wanted}"
                self.fault(outcome, told)
            if outcome.tenuto["session"] != self.name:
                self.fault(outcome, f"the answer says it is of {outcome.tenuto['session']}")

    def check_words(self, of_number):
        said = 0
        for outcome in self.outcomes:
            for number in re.findall(r"(?<!\d)\d{6}(?!\d)", outcome.text):
                owner = of_number.get(number)
                if owner == self.name:
                    said += 1
                elif owner:
                    told = f"the code word of {owner} in an answer: {quoted(outcome.text)}"
                    self.fault(outcome, told)
        return said

    def check_exact(self, chosen):
        compared = 0
        for outcome in self.outcomes:
            history, turn = self.in_window(outcome)
            if turn is None or id(outcome) not in chosen:
                continue
            messages = []
            for one in history:
                messages.append({"role": "user", "content": one.text})
                messages.append({"role": "assistant", "content": one.answer})
            messages.append({"role": "user", "content": turn.text})
            text, tokens = self.witness.says(messages, outcome.turn.fields())
            compared += 1
            if outcome.end == "done" and turn.answer != text:
                self.fault(outcome, f"in another context {apart(turn.answer, text)}")
            elif not text.startswith(turn.answer):
                self.fault(outcome, f"an answer cut short {apart(turn.answer, text)}")
            if outcome.end == "done" and outcome.usage["prompt_tokens"] != tokens:
                told = f"{outcome.usage['prompt_tokens']} tokens where a plain server has {tokens}"
                self.fault(outcome, told)
        return compared


def replayed(witness, sessions, draw):
    """(sentence, fault or "") of a sample of answers, of a real model."""
    pairs = []
    for session in sessions:
        for outcome in session.outcomes:
            _, turn = session.in_window(outcome)
            if turn is not None and outcome.end == "done" and turn.answer.strip():
                pairs.append((session.name, turn.turn, outcome.usage["prompt_tokens"]))
    draw.shuffle(pairs)
    texts, tokens = [], 0
    for name, turn, prompt_tokens in pairs[:REPLAYS]:
        tokens += prompt_tokens
        if texts and tokens > REPLAY_TOKENS_MAX:
            break
        say(f"  running an answer to {prompt_tokens} tokens again")
        texts.append(witness.replay(name, turn))
    equal = sum(now == then for now, then in texts)
    alike = sum(now.split()[:ALIKE_WORDS] == then.split()[:ALIKE_WORDS] for now, then in texts)
    told = f"of {len(texts)} answers run again {equal} are equal and {alike} begin alike"
    few = len(texts) >= REPLAYS_MIN and alike < ALIKE_MIN * len(texts)
    return len(texts), told, f"answers do not belong to their prompts: {told}" if few else ""


def judge(witness, outcomes, of_number, before=None, exact_max=2000):
    """Everything above. `before`: {session: [(user, assistant)]} that was imported. At most
    `exact_max` answers, drawn at random, are compared with a plain server's.
    """
    by_session = collections.defaultdict(list)
    for outcome in outcomes:
        by_session[outcome.turn.session].append(outcome)
    sessions = [
        Session(name, of_one, witness, (before or {}).get(name, ()))
        for name, of_one in sorted(by_session.items())
    ]
    draw, verdict = random.Random(len(outcomes)), Verdict(asked=len(outcomes))
    chosen = set(map(id, draw.sample(outcomes, min(exact_max, len(outcomes)))))
    spoken = time.monotonic()
    for place, session in enumerate(sessions):
        if time.monotonic() - spoken > TELL_SECONDS:
            spoken = time.monotonic()
            say(f"  {place} of {len(sessions)} sessions")
        session.check_log()
        session.check_usage()
        verdict.words_said += session.check_words(of_number)
        if witness.plain:
            verdict.compared += session.check_exact(chosen)
    faults = [fault for session in sessions for fault in session.faults]
    if not witness.plain:
        verdict.compared, verdict.alike, told = replayed(witness, sessions, draw)
        faults += [(None, told)] if told else []
    verdict.faults = [told for _, told in faults]
    bad = {id(one) for session in sessions for one in session.doubted()}
    verdict.right = {id(one) for one in outcomes if one.end == "done" and id(one) not in bad}
    return verdict
