"""The words of one language of one set: templates, stems, composed words and names. Material lies
in material/*.json, one file for each set and language, so that no module holds words of two sets.

Languages without spaces are written with spaces between words in the material; render() takes
them out. So the word boundaries are known here without a segmenter.
"""

import bisect
import itertools
import json
import pathlib
import random
import re

FOLDER = pathlib.Path(__file__).resolve().parent / "material"
LANGUAGES = {"dev": ("en", "de", "zh"), "test": ("en", "fr", "ja", "th")}
TAIL_WORDS_MAX = 50000
PUNCTUATION = " .,;:!?\"'()[]{}\u3002\u3001\uff0c\uff1f\uff01\uff1a\u300c\u300d\u201c\u201d\u2026"
GAP = re.compile(r"(?<![A-Za-z0-9]) +| +(?![A-Za-z0-9])")  # "parse ledger" stays apart
SLOT = re.compile(r"\{(\w+)\}")


def split_identifier(word):
    """parseLedger, parse_ledger -> parse ledger."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", word).split()


def compose(parts, order_seed, count_max):
    """Words from one piece of each list, in an order that depends on the seed alone."""
    lists = [part.split() for part in parts]
    words = ["".join(pieces) for pieces in itertools.product(*lists)]
    words = list(dict.fromkeys(words))
    random.Random(order_seed).shuffle(words)
    return words[:count_max]


class Template:
    """A sentence with slots, ready to be filled fast."""

    __slots__ = ("text", "format", "slots")

    def __init__(self, text):
        self.text = text
        self.slots = tuple(SLOT.findall(text))
        self.format = SLOT.sub("%s", text.replace("%", "%%"))

    def fill(self, values):
        return self.format % tuple([values[slot] for slot in self.slots])


class FactType:
    """What can be stated, corrected and asked about one kind of fact."""

    def __init__(self, raw):
        self.name = raw["type"]
        self.kind = raw.get("kind", "plain")  # plain, date, said
        self.who = raw.get("who", "name")  # name, ident
        self.things = [concept.split("|") for concept in raw["things"]]
        self.value = raw["value"]
        for part in ("say", "reply", "ask", "fix", "two", "all"):
            setattr(self, part, [Template(text) for text in raw.get(part, ())])
        self.tell = Template(raw["tell"])

    def templates(self):
        groups = (self.say, self.reply, self.ask, self.fix, self.two, self.all, [self.tell])
        return [template.text for group in groups for template in group]


class Language:
    """The material of one language of one set."""

    def __init__(self, set_name, language):
        path = FOLDER / f"{set_name}_{language}.json"
        raw = json.loads(path.read_text(encoding="ascii"))
        shared = json.loads((FOLDER / f"{set_name}_shared.json").read_text(encoding="ascii"))
        self.set_name, self.name, self.spaced = set_name, language, raw["spaced"]
        self.raw, self.shared = raw, shared
        self.between = raw.get("between", "")
        self.stop = set(raw["stop"].split())
        self.suffixes = sorted(raw["suffixes"].split(), key=len, reverse=True)
        self.topics = {name: nouns.split() for name, nouns in raw["topics"].items()}
        self.verbs, self.adjectives = raw["verbs"].split(), raw["adjectives"].split()
        self.places = raw["places"].split()
        order = f"{set_name} {language}"
        self.tail = compose(raw["tail_parts"], order, TAIL_WORDS_MAX)
        composed = compose(raw["name_parts"], order + " names", 4000)
        self.names = list(dict.fromkeys(raw["names"].split() + composed))
        self.filler_user = [Template(text) for text in raw["filler_user"]]
        self.filler_assistant = [Template(text) for text in raw["filler_assistant"]]
        self.mentions = [Template(text) for text in raw["mentions"]]
        self.facts = [FactType(fact) for fact in raw["facts"]]

    def facts_of(self, *kinds):
        return [fact for fact in self.facts if fact.kind in kinds]

    def render(self, text):
        """Text as a reader sees it; two spaces in the material stand between sentences."""
        if self.spaced:
            return text.replace("  ", " ")
        return self.between.join([GAP.sub("", part) for part in text.split("  ")])

    def stem(self, word):
        for suffix in self.suffixes:
            if word.endswith(suffix) and len(word) - len(suffix) >= 3:
                return word[: -len(suffix)]
        return word

    def tokens(self, text):
        """Words as written in the material, lower case, identifiers split."""
        if self.spaced:
            words = re.findall(r"\w+", text)
        else:
            words = [word for part in text.split() for word in [part.strip(PUNCTUATION)] if word]
        return [part.lower() for word in words for part in split_identifier(word)]

    def stems(self, text):
        """The set of stems of the content words."""
        return {self.stem(word) for word in self.tokens(text) if word not in self.stop}


class Zipf:
    """An endless stream of items: the item of rank r comes with weight 1 / (r + shift) ** power."""

    def __init__(self, rng, items, shift=10.0, power=1.05):
        self.rng, self.items = rng, items
        weights = (1.0 / (rank + shift) ** power for rank in range(1, len(items) + 1))
        self.cumulated = list(itertools.accumulate(weights))

    def stream(self):
        while True:
            yield from self.rng.choices(self.items, cum_weights=self.cumulated, k=4096)

    def one(self):
        at = self.rng.random() * self.cumulated[-1]
        return self.items[min(bisect.bisect(self.cumulated, at), len(self.items) - 1)]


_LOADED = {}


def load(set_name):
    """The languages of a set, in their order."""
    if set_name not in _LOADED:
        _LOADED[set_name] = [Language(set_name, name) for name in LANGUAGES[set_name]]
    return _LOADED[set_name]
