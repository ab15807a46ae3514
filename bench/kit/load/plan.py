"""Who says what and when, all of it from one seed: what a user does next never depends on how fast
the server was, so the same seed asks the same again.
"""

import dataclasses
import itertools
import random

from kit.load.client import Turn
from kit.story import THINGS

ADJECTIVES = (
    "amber bold calm crisp dusty eager faint grand hazel ivory jolly keen lunar mellow noble opal "
    "proud quiet rapid solar tidal umber vivid wary young zesty"
).split()
ASKING = "What is the code word of this conversation?"


@dataclasses.dataclass
class Shape:
    """How a crowd behaves; tokens and seconds."""

    tenants: int = 4
    think: float = 0.5  # mean pause of a user between two turns
    short_tokens: int = 24
    long_tokens: int = 400
    long_share: float = 0.2
    answer_tokens: tuple = (8, 40)
    leave_share: float = 0.0  # of answers that the client does not wait for
    session_tokens: int = 2400  # then the user begins a new conversation
    sessions_at_once: int = 2  # that a user goes back and forth between


class Words:
    """Code words: each belongs to one session. The number in it is in no other text."""

    def __init__(self, seed):
        self.seed = seed
        self.of_number = {}  # number: its session

    def plant(self, session):
        draw = random.Random(f"{self.seed} word of {session}")
        number = str(draw.randrange(100000, 1000000))
        while number in self.of_number:
            number = str(draw.randrange(100000, 1000000))
        self.of_number[number] = session
        return f"{draw.choice(ADJECTIVES)}-{number}"


class Texts:
    """Texts of about so many tokens. `tokens_per_word` is the model's, asked for once."""

    def __init__(self, tokens_per_word):
        self.tokens_per_word = tokens_per_word

    def filler(self, draw, tokens):
        count = max(1, round(tokens / self.tokens_per_word))
        return " ".join(draw.choice(THINGS) for _ in range(count))

    def message(self, draw, number, tokens, word=""):
        """Unique in its session by its number. The first one plants the session's code word."""
        planted = f" The code word of this conversation is {word}." if word else ""
        asked = ASKING if not word and draw.random() < 0.3 else "What comes to your mind?"
        room = tokens - len(f"{planted} {asked} 1. I think of".split()) * self.tokens_per_word
        return f"{number}.{planted} I think of {self.filler(draw, room)}. {asked}"


class Talk:
    """One conversation of a user."""

    def __init__(self, plan, session):
        self.plan, self.session = plan, session
        self.word = plan.words.plant(session)
        self.turns = self.tokens = 0

    def next(self, draw, shape, phase):
        tokens, kind = shape.short_tokens, "short"
        if draw.random() < shape.long_share:
            tokens, kind = shape.long_tokens, "long"
        answer = draw.randint(*shape.answer_tokens)
        leave = draw.randint(1, max(1, answer // 2)) if draw.random() < shape.leave_share else 0
        self.turns += 1
        text = self.plan.texts.message(draw, self.turns, tokens, self.word)
        self.word = ""
        words = len(text.split()) * self.plan.texts.tokens_per_word
        self.tokens += max(tokens, words) + answer + 16
        return self.turn(text, answer, kind, phase, leave)

    def turn(self, text, answer, kind, phase, leave=0, **more):
        fields = {**self.plan.fields, **more}
        return Turn(self.session, text, answer, kind, phase, leave, fields)


class Plan:
    """Sessions are named NAME-tT::uU::load::sS: tenant, user, agent, session. `fields` are those of
    every request.
    """

    def __init__(self, seed, texts, name="load", fields=None):
        self.seed, self.texts, self.name, self.fields = seed, texts, name, fields or {}
        self.words = Words(seed)

    def session(self, tenant, user, number):
        return f"{self.name}-{tenant}::{user}::load::s{number}"

    def draw(self, name):
        return random.Random(f"{self.seed} {name}")

    def talk(self, tenant, user, number):
        return Talk(self, self.session(tenant, user, number))

    def user(self, number, shape, phase, tenant=""):
        """Endless: (seconds to think, Turn)."""
        draw = self.draw(f"{phase} {tenant} user {number}")
        tenant = tenant or f"t{number % shape.tenants}"
        numbers = itertools.count(1)
        name = f"{phase}.u{number}"
        talks = [self.talk(tenant, name, next(numbers)) for _ in range(shape.sessions_at_once)]
        while True:
            at = draw.randrange(len(talks))
            if talks[at].tokens > shape.session_tokens:
                talks[at] = self.talk(tenant, name, next(numbers))
            think = draw.expovariate(1 / shape.think) if shape.think > 0 else 0.0
            yield think, talks[at].next(draw, shape, phase)

    def arrivals(self, rate, shape, phase, users=16):
        """Endless: (seconds since the last arrival, Turn): a Poisson process over some users."""
        draw = self.draw(f"{phase} arrivals")
        pool = [self.user(number, shape, f"{phase}.open") for number in range(users)]
        while True:
            _, turn = next(draw.choice(pool))
            turn.phase = phase
            yield draw.expovariate(rate), turn
