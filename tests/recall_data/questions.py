"""The questions that have an answer, each kind with the turns it needs. Every function takes the
conversation, plants what the question is about and returns the question without its id.
"""

import dates
from facts import Shortage, TRIES_MAX, stratum

MENTIONS = (0, 0, 1, 2, 4, 8)
STRATA = ("0", "1", "2", "3+")


def question(kind, text, gold, **more):
    return {"kind": kind, "text": text, "gold": gold, "stale": [], **more}


def single(talk, wanted):
    """One fact, one turn, and the wanted number of stems in common."""
    book, rng = talk.book, talk.rng
    types = talk.language.facts_of("plain")
    for _ in range(TRIES_MAX):
        fact_type = rng.choice(types)
        pools = book.pools[fact_type.name]
        solo = bool(pools["solo"]) and (wanted == "0" or wanted == "1" and rng.random() < 0.15)
        if wanted == "0" and not solo:
            continue
        fact = book.draft(fact_type, pools["solo"][-1] if solo else rng.choice(pools["shared"]))
        texts = book.write(fact, fact_type.say)
        fact.text = " ".join(texts)
        text = book.pick_ask(fact, lambda n: stratum(n) == wanted, without_who=solo)
        if text:
            if solo:
                pools["solo"].pop()
            book.keep(fact, texts, talk.take())
            return question("single", text, [fact.turn], stratum=wanted)
    raise Shortage(f"{talk.language.name}: no question for stratum {wanted}")


def plain_fact(talk, count_min, types=None):
    """A fact of a shared thing, planted, with a question of at least count_min shared stems."""
    book, rng = talk.book, talk.rng
    types = types or talk.language.facts_of("plain")
    for _ in range(TRIES_MAX):
        fact_type = rng.choice(types)
        fact = book.draft(fact_type, rng.choice(book.pools[fact_type.name]["shared"]))
        texts = book.write(fact, fact_type.say)
        fact.text = " ".join(texts)
        text = book.pick_ask(fact, lambda n: n >= count_min)
        if text:
            return fact, texts, text
    raise Shortage(f"{talk.language.name}: no question with {count_min} shared stems")


def multi(talk, _):
    """Two persons compared, or everything that was said of one thing: 2-3 turns, all needed."""
    book, rng = talk.book, talk.rng
    plain = talk.language.facts_of("plain")
    grouped = [fact_type for fact_type in plain if book.pools[fact_type.name]["group"]]
    if grouped and rng.random() < 0.3:
        fact_type = rng.choice(grouped)
        thing = book.pools[fact_type.name]["group"].pop()
        facts = [plant(talk, fact_type, thing) for _ in range(rng.choice((2, 2, 3)))]
        template, kind = rng.choice(fact_type.all), "all"
    else:
        fact_type = rng.choice([fact_type for fact_type in plain if fact_type.two])
        thing = rng.choice(book.pools[fact_type.name]["shared"])
        facts = [plant(talk, fact_type, thing) for _ in range(2)]
        template, kind = rng.choice(fact_type.two), "two"
    # The form that shares most with the turn that shares least.
    texts = []
    for form in fact_type.things[thing]:
        values = {"who": facts[0].who, "who2": facts[1].who, "thing": form}
        text = template.fill(values)
        texts.append((min(book.shared_stems(fact, text) for fact in facts), text))
    gold = sorted(fact.turn for fact in facts)
    return question("multi", max(texts)[1], gold, stratum=kind)


def plant(talk, fact_type, thing):
    fact = talk.book.draft(fact_type, thing)
    talk.book.keep(fact, talk.book.write(fact, fact_type.say), talk.take())
    return fact


def corrected(talk, index):
    """A fact and, later, its correction: in the next turn in a few words (near), or anywhere after
    it in a sentence of its own (far).
    """
    book, rng, language = talk.book, talk.rng, talk.language
    types = [fact_type for fact_type in language.facts_of("plain") if fact_type.fix]
    if index % 4 == 0:
        fact, _, _ = plain_fact(talk, 2, types)
        texts = book.write(fact, fact.type.say, value=fact.old)
        older, newer = talk.take_pair()
        fix = rng.choice(language.raw["fix_near"]).format(value=fact.value, old=fact.old)
        book.keep(fact, texts, older)
        book.place((fix, rng.choice(language.raw["fix_near_replies"])), newer)
        text = book.pick_ask(fact, lambda n: n >= 1)
        kind = "near"
    else:
        for _ in range(TRIES_MAX):
            fact, _, _ = plain_fact(talk, 2, types)
            texts = book.write(fact, fact.type.fix)
            fact.text = " ".join(texts)
            text = book.pick_ask(fact, lambda n: n >= 2)
            if text:
                break
        else:
            raise Shortage(f"{language.name}: no question for a correction")
        older, newer = sorted((talk.take(), talk.take()))
        book.keep(fact, texts, newer)
        book.place(book.write(fact, fact.type.say, value=fact.old), older)
        kind = "far"
    return {**question("corrected", text, [newer], stratum=kind), "stale": [older]}


def followup(talk, index):
    """Asked one to three turns after a question about the same fact; few words of its own."""
    book, rng, language = talk.book, talk.rng, talk.language
    fact, texts, first = plain_fact(talk, 2)
    book.keep(fact, texts, talk.take())
    step = index % 3 + 1
    text, between = rng.sample(language.raw["followups"], 2)
    values = book.slots(fact)
    answer = fact.type.tell.fill(values)
    if step == 3 and rng.random() < 0.5:
        answer = rng.choice(language.raw["short_answers"]).format(value=fact.value)
    last = {"last_user": first if step == 1 else between, "last_answer": answer}
    return question("followup", text, [fact.turn], stratum=f"+{step}", **last)


def said(talk, _):
    """What the assistant recommended."""
    book, language = talk.book, talk.language
    fact, texts, text = plain_fact(talk, 2, language.facts_of("said"))
    book.keep(fact, texts, talk.take())
    count = book.shared_stems(fact, text)
    return question("assistant_said", text, [fact.turn], stratum=stratum(count))


def dated(talk, index):
    """Asked by a day in another spelling than it was stated in, on either side relative or not."""
    case = ("spelling", "said_relative", "asked_relative")[index % 3]
    for tried in range(2 * TRIES_MAX):
        if tried == TRIES_MAX:
            case = "spelling"  # no turn is free in the last days
        fact_type = talk.rng.choice(talk.language.facts_of("date"))
        found = try_dated(talk, fact_type, case)
        if found:
            return found
    raise Shortage(f"{talk.language.name}: no free day for {case}")


def free_day(book, fact_type, thing, day):
    key = (fact_type.name, thing, day.month, day.day)
    if key in book.used_days:
        return False
    book.used_days.add(key)
    return True


def try_dated(talk, fact_type, case):
    book, rng, language = talk.book, talk.rng, talk.language
    turn = talk.peek_late(11) if case == "asked_relative" else talk.peek()
    if turn is None:
        return None
    today = talk.times[turn - 1].date()
    asked_on = talk.asked_at.date()
    ago = rng.randint(0, 5) if case == "said_relative" else rng.randint(0, 30)
    if case == "asked_relative":
        ago = rng.randint(0, 3)
    day = today - ago * dates.DAY
    if case == "asked_relative" and not 1 <= (asked_on - day).days <= 13:
        return None
    thing = rng.choice(book.pools[fact_type.name]["shared"])
    if not free_day(book, fact_type, thing, day):
        return None
    styles = rng.sample(dates.spellings(language), 2)
    fact = book.draft(fact_type, thing)
    if case == "said_relative":
        fact.extra["date"] = dates.said_relative(language, rng, ago)
    else:
        fact.extra["date"] = dates.spell(language, day, styles[0])
    texts = book.write(fact, fact_type.say)
    fact.date = day
    book.keep(fact, texts, talk.take(turn))
    if case == "asked_relative":
        fact.extra["date"] = dates.asked_relative(language, rng, asked_on, day)
    else:
        fact.extra["date"] = dates.spell(language, day, styles[1])
    text = book.pick_ask(fact, lambda n: True, without_who=True)
    return question("date", text, [fact.turn], stratum=case)


def mention_all(talk):
    """People come back to what they have: 0 to 8 turns about the person and thing of each fact,
    without what was asked for.
    """
    for fact in list(talk.book.facts):
        if fact.type.kind == "date":
            continue
        for _ in range(talk.rng.choice(MENTIONS)):
            if len(talk.free) > talk.size // 4:
                talk.book.place(talk.book.mention(fact), talk.take())


def background(talk):
    """A fact that nobody asks for, alike to those that are."""
    book, rng = talk.book, talk.rng
    fact_type = rng.choice(talk.language.facts)
    thing = rng.choice(book.pools[fact_type.name]["shared"])
    if fact_type.kind != "date":
        plant(talk, fact_type, thing)
        return
    turn = talk.peek()
    day = talk.times[turn - 1].date() - rng.randint(0, 20) * dates.DAY
    if free_day(book, fact_type, thing, day):
        fact = book.draft(fact_type, thing)
        style = rng.choice(dates.spellings(talk.language))
        fact.extra["date"] = dates.spell(talk.language, day, style)
        book.keep(fact, book.write(fact, fact_type.say), talk.take(turn))


KINDS = {
    "multi": multi,
    "corrected": corrected,
    "followup": followup,
    "date": dated,
    "assistant_said": said,
}
