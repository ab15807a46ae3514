#!/usr/bin/env python3
"""2,000 turns of daily weather reports from one template, where only place, date and values differ,
and 27 questions that name a place and a date in other spellings.

    weather.py --seed 1 --out DIR
"""

import argparse
import datetime
import pathlib
import random

import dates
import generate
import words

TURNS, QUESTIONS, PLACES = 2000, 27, 20
START = datetime.datetime(2024, 2, 12, 6, tzinfo=datetime.timezone.utc)
REPORT = (
    "Weather report for {place}, {date}: high {high}, low {low}, wind {wind} km/h from the {from_},"
    " rain {rain} mm, humidity {humidity} percent, pressure {pressure} hPa."
)
REPORT_STYLE = "{y}-{mm}-{dd}"
ASKED_STYLES = (
    "{d} {month} {y}",
    "{month} {th}, {y}",
    "{mon} {d} {y}",
    "{wd} {month} {th}",
    "the {th} of {month}",
    "{month} {d}",
    "{y}/{mm}/{dd}",
)
ASKS = (
    "How was the weather in {place} on {date}?",
    "What was the high in {place} on {date}?",
    "Did it rain in {place} on {date}?",
    "On {date}, how strong was the wind in {place}?",
)
RELATIVE_ASKS = ("What was the weather like in {place} {date}?", "{date}, did {place} get rain?")


def build(seed=1):
    """A conversation in the form of generate.archive(); each question has "date" and "place"."""
    rng = random.Random(f"weather {seed}")
    language = words.load("dev")[0]
    places = language.places[:PLACES]
    turns, days = [], {}
    for number in range(1, TURNS + 1):
        day, at = divmod(number - 1, PLACES)
        moment = START + datetime.timedelta(days=day, minutes=3 * at)
        place = places[(at + day * 7) % PLACES]
        low = rng.randint(-8, 15)
        text = REPORT.format(
            place=place,
            date=dates.spell(language, moment.date(), REPORT_STYLE),
            low=low,
            high=low + rng.randint(2, 12),
            wind=rng.randint(3, 60),
            rain=rng.randint(0, 30),
            from_=rng.choice(("north", "east", "south", "west")),
            humidity=rng.randint(30, 99),
            pressure=rng.randint(985, 1035),
        )
        turns.append(
            {
                "turn": number,
                "time": dates.stamp(moment),
                "user": text,
                "assistant": "Report stored.",
            }
        )
        days[number] = (place, moment.date())
    asked_at = moment + datetime.timedelta(hours=14)
    window_from = TURNS + 1 - PLACES
    asked = questions(rng, language, days, asked_at)
    name = f"weather-s{seed}"
    for number, one in enumerate(asked):
        one.update(
            id=f"{name}-{number}",
            time=dates.stamp(asked_at),
            language=language.name,
            conversation=name,
            last_user=turns[-1]["user"],
            last_answer=turns[-1]["assistant"],
        )
    return {
        "id": name,
        "language": language.name,
        "size": TURNS,
        "turns": turns,
        "window_from": window_from,
        "questions": asked,
    }


def questions(rng, language, days, asked_at):
    """Nine of ten by an absolute date anywhere, the others by a relative one of the last days."""
    asked = []
    last_day = asked_at.date()
    recent = [turn for turn, (_, day) in days.items() if 1 <= (last_day - day).days <= 6]
    older = [turn for turn, (_, day) in days.items() if (last_day - day).days >= 1]
    gold = rng.sample(recent, 6)
    gold += rng.sample([turn for turn in older if turn not in gold], QUESTIONS - 6)
    for number, turn in enumerate(gold):
        place, day = days[turn]
        if number < 6:
            said = dates.asked_relative(language, rng, last_day, day)
            text = rng.choice(RELATIVE_ASKS).format(place=place, date=said)
        else:
            said = dates.spell(language, day, ASKED_STYLES[number % len(ASKED_STYLES)])
            text = rng.choice(ASKS).format(place=place, date=said)
        asked.append(
            {
                "kind": "weather",
                "stratum": "relative" if number < 6 else "absolute",
                "text": text,
                "gold": [turn],
                "stale": [],
                "place": place,
                "date": day.isoformat(),
            }
        )
    return asked


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    generate.write(build(arguments.seed), arguments.out)


if __name__ == "__main__":
    main()
