"""Plants facts into a conversation and asks for them. What makes an answer unique:

1. one person (or identifier) has at most one fact of a type, so that a question which names it is
   unique;
2. each archive sets some things of a type apart: "solo" things have one fact, so that a question
   may leave the person out; "group" things have two or three facts, all of them asked for; the
   others ("shared") have as many facts as come;
3. a dated fact is unique by type, thing, month and day.
"""

from dataclasses import dataclass, field

import filler as filler_module
from words import split_identifier

TRIES_MAX = 400


class Shortage(RuntimeError):
    """The material has too few words for what is asked."""


@dataclass
class Fact:
    """One fact; `text` is its evidence as authored, with spaces between words."""

    type: object
    who: str
    thing: int
    value: str
    old: str = ""
    turn: int = 0
    text: str = ""
    date: object = None
    extra: dict = field(default_factory=dict)

    def who_forms(self):
        if self.type.who == "ident":
            return [self.who, " ".join(split_identifier(self.who))]
        return [self.who]


class Book:
    """The facts of one conversation: which are given, where they stand, and their turns."""

    def __init__(self, language, rng, filler, names):
        self.language, self.rng, self.filler, self.names = language, rng, filler, names
        self.turns = {}  # turn number -> turn without number and time
        self.facts = []
        self.used_who = set()  # (type, who)
        self.used_days = set()  # (type, thing, month, day)
        self.pools = {fact_type.name: self.divide(fact_type) for fact_type in language.facts}

    def divide(self, fact_type):
        """The things of a type as solo, group and shared ones."""
        things = list(range(len(fact_type.things)))
        self.rng.shuffle(things)
        if fact_type.kind == "date":
            return {"solo": [], "group": [], "shared": things}
        group = 2 if fact_type.all else 0
        shared = 3
        return {
            "group": things[:group],
            "shared": things[group : group + shared],
            "solo": things[group + shared :],
        }

    def value(self, kind):
        rng, language = self.rng, self.language
        if kind == "name":
            return rng.choice(language.names[60:])
        if kind == "code":
            if rng.random() < 0.5:
                return str(rng.randint(1000, 999999))
            return f"{rng.choice('BDFGHJKLMNPRTVWX')}{rng.randint(1, 99)}-{rng.randint(10, 999)}"
        if kind == "price":
            return language.raw["price"].format(n=rng.randint(3, 2400))
        if kind == "ident":
            return filler_module.identifier(rng, language.shared)
        if kind == "number":
            return str(rng.randint(2, 4000))
        if kind == "place":
            return rng.choice(language.places)
        return rng.choice(kind.split("|"))

    def new_who(self, fact_type):
        for _ in range(TRIES_MAX):
            if fact_type.who == "ident":
                who = filler_module.identifier(self.rng, self.language.shared)
            else:
                who = self.rng.choice(self.names)
            if (fact_type.name, who) not in self.used_who:
                return who
        raise Shortage(f"{self.language.name}: no person left for {fact_type.name}")

    def draft(self, fact_type, thing):
        """A fact that nobody has stated yet."""
        value, old = self.value(fact_type.value), self.value(fact_type.value)
        while old == value:
            old = self.value(fact_type.value)
        return Fact(fact_type, self.new_who(fact_type), thing, value, old)

    def slots(self, fact, form=None, who=None):
        forms = fact.type.things[fact.thing]
        values = {"who": who or fact.who, "value": fact.value, "old": fact.old}
        values["thing"] = self.rng.choice(forms) if form is None else form
        values.update(fact.extra)
        return values

    def write(self, fact, templates, **changes):
        """Words a turn that states the fact. Returns (user, assistant) as authored."""
        rng, filler, language = self.rng, self.filler, self.language
        filler.new_episode()
        values = {**self.slots(fact), **changes}
        said = rng.choice(templates).fill(values)
        before = filler.sentences(language.filler_user, rng.choice((0, 0, 0, 1)))
        after = filler.sentences(language.filler_user, rng.choice((0, 0, 1, 2)))
        reply = rng.choice(fact.type.reply).fill(values)
        more = filler.sentences(language.filler_assistant, rng.choice((0, 0, 1, 2)))
        user = "  ".join(part for part in (before, said, after) if part)
        return user, "  ".join(part for part in (reply, more) if part)

    def mention(self, fact):
        """Words a turn about the fact's person and thing that does not state the fact."""
        rng, filler, language = self.rng, self.filler, self.language
        filler.new_episode()
        said = rng.choice(language.mentions).fill(self.slots(fact))
        after = filler.sentences(language.filler_user, rng.choice((0, 0, 1, 2)))
        answer = filler.sentences(language.filler_assistant, rng.choice((1, 1, 2)))
        return "  ".join(part for part in (said, after) if part), answer

    def place(self, texts, turn):
        user, assistant = texts
        render = self.language.render
        self.turns[turn] = {"user": render(user), "assistant": render(assistant)}

    def keep(self, fact, texts, turn):
        """Puts the fact into the archive; from now on its person is taken."""
        fact.turn, fact.text = turn, " ".join(texts)
        self.used_who.add((fact.type.name, fact.who))
        self.facts.append(fact)
        self.place(texts, turn)

    def asks(self, fact, templates, without_who, **changes):
        """All (shared stems, question) that the material has for the fact."""
        stems = self.language.stems(fact.text)
        for template in templates:
            named = "who" in template.slots
            if not named and not without_who:
                continue
            forms = fact.type.things[fact.thing] if "thing" in template.slots else [None]
            for who in fact.who_forms() if named else [fact.who]:
                for form in forms:
                    values = {**self.slots(fact, form, who), **changes}
                    text = template.fill(values)
                    yield len(self.language.stems(text) & stems), text

    def pick_ask(self, fact, accepts, templates=None, without_who=False):
        """A question whose number of shared stems is accepted, or None."""
        found = [
            text
            for shared, text in self.asks(fact, templates or fact.type.ask, without_who)
            if accepts(shared)
        ]
        return self.rng.choice(found) if found else None

    def shared_stems(self, fact, question):
        return len(self.language.stems(question) & self.language.stems(fact.text))


def stratum(shared):
    return "3+" if shared >= 3 else str(shared)
