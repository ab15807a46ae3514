"""Questions and remarks for which no turn of the archive is evidence."""

import dates
from facts import Shortage, TRIES_MAX
from words import Template


def negative(kind, text, sort, **more):
    return {"kind": kind, "text": text, "gold": [], "stale": [], "stratum": sort, **more}


def own_words(talk, index):
    """Off-topic, made of words of the archive's own turns that come from different places: half by
    how often a word came up, half by word.
    """
    rng, filler, language = talk.rng, talk.book.filler, talk.language
    if not talk.vocabulary:
        talk.vocabulary = sorted(set(filler.seen))
    rare = filler.seen if index % 2 == 0 else talk.vocabulary
    template = rng.choice(language.raw["own_words"])
    words = {}
    for slot in Template(template).slots:
        if slot[0] == "t":
            words[slot] = rng.choice(rare)
        elif slot[0] == "n":
            words[slot] = rng.choice(filler.seen_nouns)
        else:
            words[slot] = filler.word(slot[0])
    sort = "by_frequency" if index % 2 == 0 else "by_word"
    return negative("own_words", template.format(**words), sort)


def chitchat(talk, index):
    """Greetings, thanks, small talk, tasks that need no memory. A third follows a turn that was
    about a fact, whose words must not count.
    """
    rng, raw = talk.rng, talk.language.raw
    if index % 2 == 0:
        text, sort = rng.choice(raw["chitchat"]), "phrase"
    else:
        text = rng.choice(raw["tasks"]).format(
            x=rng.choice(raw["task_words"].split("|")), d=rng.randint(2, 999), e=rng.randint(2, 99)
        )
        sort = "task"
    if index % 3 != 0:
        return negative("chitchat", text, sort)
    facts = [fact for fact in talk.book.facts if fact.type.kind == "plain"]
    fact = rng.choice(facts)
    first = talk.book.pick_ask(fact, lambda n: True)
    last = {"last_user": first or "", "last_answer": fact.type.tell.fill(talk.book.slots(fact))}
    return negative("chitchat", text, sort + "_after_fact", **last)


def unanswerable(talk, index):
    """About a known person and a known thing, or a known thing on another day: never said."""
    book, rng, language = talk.book, talk.rng, talk.language
    if index % 5 == 4:
        return wrong_day(talk)
    types = [fact_type for fact_type in language.facts_of("plain", "said")]
    types = [fact_type for fact_type in types if fact_type.who == "name"]
    known = sorted({fact.who for fact in book.facts if fact.type.who == "name"})
    for _ in range(TRIES_MAX):
        fact_type, who = rng.choice(types), rng.choice(known)
        if (fact_type.name, who) in book.used_who:
            continue
        fact = book.draft(fact_type, rng.choice(book.pools[fact_type.name]["shared"]))
        fact.who = who
        text = book.pick_ask(fact, lambda n: True)
        if text:
            return negative("unanswerable", text, "person")
    raise Shortage(f"{language.name}: everybody has a fact of every type")


def wrong_day(talk):
    book, rng, language = talk.book, talk.rng, talk.language
    fact_type = rng.choice(language.facts_of("date"))
    while True:
        thing = rng.randrange(len(fact_type.things))
        day = talk.times[rng.randrange(len(talk.times))].date() + rng.randint(-9, 9) * dates.DAY
        if (fact_type.name, thing, day.month, day.day) not in book.used_days:
            break
    fact = book.draft(fact_type, thing)
    fact.extra["date"] = dates.spell(language, day, rng.choice(dates.spellings(language)))
    text = book.pick_ask(fact, lambda n: True, without_who=True)
    return negative("unanswerable", text, "day")


KINDS = {"own_words": own_words, "chitchat": chitchat, "unanswerable": unanswerable}
