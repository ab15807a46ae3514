"""Dates: time stamps of turns, and one day written in the several ways of a language."""

import datetime

DAY = datetime.timedelta(days=1)


def stamp(moment):
    return moment.isoformat(timespec="seconds")


def ordinal(day):
    if 10 <= day % 100 <= 20:
        return f"{day}th"
    return str(day) + {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def fields(language, date):
    raw = language.raw["dates"]
    values = {"y": date.year, "yy": f"{date.year % 100:02}", "m": date.month, "d": date.day}
    values.update(mm=f"{date.month:02}", dd=f"{date.day:02}", th=ordinal(date.day))
    values.update(month=raw["months"].split()[date.month - 1], wd=weekday(language, date))
    values["mon"] = raw.get("short", raw["months"]).split()[date.month - 1]
    values.update(by=date.year + 543, byy=f"{(date.year + 543) % 100:02}", ry=date.year - 2018)
    return values


def weekday(language, date):
    return language.raw["dates"]["weekdays"].split()[date.weekday()]


def spellings(language):
    return language.raw["dates"]["spellings"]


def spell(language, date, style):
    return style.format(**fields(language, date))


def said_relative(language, rng, days_ago):
    """'yesterday' and the like, or None where the language's material has none for it."""
    relative = language.raw["dates"]["relative"]
    if str(days_ago) in relative:
        return rng.choice(relative[str(days_ago)])
    return relative["n"].format(n=days_ago)


def asked_relative(language, rng, asked_on, date):
    """A day before the question, seen from it. 'last Tuesday' is the latest one before."""
    days_ago = (asked_on - date).days
    if 3 <= days_ago <= 6 and rng.random() < 0.6:
        return language.raw["dates"]["relative"]["weekday"].format(wd=weekday(language, date))
    return said_relative(language, rng, days_ago)


def clock(rng, start, turns, turns_per_day):
    """Time stamps of a conversation: episodes of a few turns with hours or days between them."""
    moments, moment = [], start
    left, pause_days = 0, 0.0
    for _ in range(turns):
        if left == 0:
            left = rng.randint(2, 14)
            pause_days = left / turns_per_day
            moment += datetime.timedelta(days=pause_days * rng.uniform(0.4, 1.6))
        left -= 1
        moment += datetime.timedelta(seconds=rng.randint(5, 40))
        moments.append(moment)
    return moments
