"""Turns that state no fact anybody asks for: several topics, a long tail of words, long answers,
tool output. Fast enough for 200,000 turns in some seconds.
"""

from words import Zipf, split_identifier

LONG_SHARE, TOOL_SHARE, NAMED_SHARE = 0.04, 0.04, 0.03
OTHER_LANGUAGE_SHARE = 0.04


class Filler:
    """Writes turns of one conversation in one language. One episode has one topic and some rare
    words of its own, which return within the episode.
    """

    def __init__(self, language, rng, turns, names):
        self.language, self.rng = language, rng
        known = min(len(language.tail), 3000 + turns)
        tail = rng.sample(language.tail, known)
        self.tail = Zipf(rng, tail).stream()
        self.streams = {
            "v": Zipf(rng, rng.sample(language.verbs, len(language.verbs)), 3).stream(),
            "a": Zipf(rng, rng.sample(language.adjectives, len(language.adjectives)), 3).stream(),
            "p": Zipf(rng, names, 3).stream(),
            "c": Zipf(rng, rng.sample(language.places, len(language.places)), 3).stream(),
        }
        self.topics = list(language.topics)
        self.nouns = {
            name: Zipf(rng, rng.sample(nouns, len(nouns)), 2).stream()
            for name, nouns in language.topics.items()
        }
        self.all_nouns = [noun for nouns in language.topics.values() for noun in nouns]
        self.seen, self.seen_nouns = [], []  # what was written, as often as it was
        self.new_episode()

    def new_episode(self):
        rng = self.rng
        self.left = rng.randint(3, 16)
        self.topic_nouns = self.nouns[rng.choice(self.topics)]
        self.cache = [next(self.tail) for _ in range(rng.randint(4, 14))]

    def word(self, slot):
        if slot in self.streams:
            return next(self.streams[slot])
        draw = self.rng.random()
        if slot == "n":
            if draw < 0.8:
                word = next(self.topic_nouns)
            else:
                word = self.all_nouns[int((draw - 0.8) * 5 * len(self.all_nouns))]
            self.seen_nouns.append(word)
            return word
        if slot == "t":
            if draw < 0.5:
                word = self.cache[int(draw * 2 * len(self.cache))]
            else:
                word = next(self.tail)
            self.seen.append(word)
            return word
        return str(int(draw * draw * 400) + 2)

    def sentence(self, templates):
        template = templates[int(self.rng.random() * len(templates))]
        word = self.word
        return template.format % tuple([word(slot) for slot in template.slots])

    def sentences(self, templates, count):
        return "  ".join([self.sentence(templates) for _ in range(count)])

    def tool_output(self):
        """A log, a listing or JSON, in no language."""
        rng, parts = self.rng, self.language.shared
        lines = []
        for _ in range(rng.randint(2, 9)):
            line = rng.choice(parts["tool_lines"])
            lines.append(
                line.format(
                    ident=identifier(rng, parts),
                    file=rng.choice(parts["files"]),
                    n=rng.randint(1, 9999),
                    word=next(self.tail) if self.language.spaced else rng.choice(parts["nouns"]),
                    hex=f"{rng.getrandbits(32):08x}",
                )
            )
        return "\n".join(lines)

    def turn(self):
        """A turn without number and time; texts as the user sees them."""
        rng, language = self.rng, self.language
        if self.left == 0:
            self.new_episode()
        self.left -= 1
        user = self.sentences(language.filler_user, 1 + int(rng.random() * 2.5))
        draw = rng.random()
        if draw < LONG_SHARE:
            count = rng.randint(8, 24)
        else:
            count = 1 + int(rng.random() * 3)
        assistant = self.sentences(language.filler_assistant, count)
        turn = {"user": language.render(user), "assistant": language.render(assistant)}
        if LONG_SHARE < draw < LONG_SHARE + TOOL_SHARE:
            turn["assistant"] += "\n```\n" + self.tool_output() + "\n```"
        elif draw > 1 - NAMED_SHARE:
            turn["name"] = next(self.streams["p"])
        return turn


def identifier(rng, parts):
    """A camelCase or snake_case name from the set's pieces."""
    verb, noun, tail = (rng.choice(parts[key]) for key in ("verbs", "nouns", "ends"))
    if rng.random() < 0.5:
        return f"{verb}_{noun}_{tail}"
    return verb + noun.capitalize() + tail.capitalize()
