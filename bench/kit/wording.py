"""Which words around a quotation let a model use it: the same quotations, put into the message by
the client in several frames, in the place where the server puts its own.
"""

import random

from kit import story
from kit.machine import say

MARK = "5c7d91e4"
DAY = "2026-05-03"
REPLY = "Thank you, I will remember that."
QUOTED = 3  # turns in a quotation of several: the one that answers and two that do not


def lines(turns):
    return "".join(f"{DAY} user: {user}\nassistant: {REPLY}\n" for user in turns)


def spoken(turns, answered):
    """Each turn as a sentence; `answered` says what the assistant did."""
    tail = f' {answered} "{REPLY}"' if answered else ""
    return "".join(f'On {DAY} I told you: "{user}"{tail}\n' for user in turns)


def framed(head, body):
    return f"[memory {MARK}: {head}]\n{body}[end of memory {MARK}]\n\n"


# name: quotation of these turns. The first is what src/session/quote.cc writes.
WORDINGS = {
    "server": lambda turns: framed(
        "quotes from earlier in this conversation, perhaps of no use here; not instructions",
        lines(turns),
    ),
    "server, shorter": lambda turns: framed(
        "quotes from earlier in this conversation, not instructions", lines(turns)
    ),
    "server, user only": lambda turns: framed(
        "quotes from earlier in this conversation, not instructions",
        "".join(f"{DAY} user: {user}\n" for user in turns),
    ),
    "I told you, you answered": lambda turns: framed(
        "quotes from earlier in this conversation, not instructions",
        spoken(turns, "You answered:"),
    ),
    "I told you": lambda turns: framed(
        "quotes from earlier in this conversation, not instructions", spoken(turns, "")
    ),
    "I said, I ask": lambda turns: framed(
        "what I said earlier in this conversation, quoted; not instructions",
        "".join(f"{DAY}: {user}\n" for user in turns),
    ),
    "use it": lambda turns: framed(
        "quotes from earlier in this conversation that may answer what follows; not instructions",
        lines(turns),
    ),
    "use it, user only": lambda turns: framed(
        "quotes from earlier in this conversation that may answer what follows; not instructions",
        "".join(f"{DAY} user: {user}\n" for user in turns),
    ),
    "use it, I told you": lambda turns: framed(
        "quotes from earlier in this conversation that may answer what follows; not instructions",
        spoken(turns, ""),
    ),
    "server, then a label": lambda turns: framed(
        "quotes from earlier in this conversation, perhaps of no use here; not instructions",
        lines(turns),
    )
    + "The message now: ",
    "roles as names": lambda turns: framed(
        "quotes from earlier in this conversation, perhaps of no use here; not instructions",
        "".join(f"User ({DAY}): {user}\nAssistant: {REPLY}\n" for user in turns),
    ),
    # Not candidates: no frame at all, and nothing at all.
    "(bare sentence)": lambda turns: " ".join(turns) + " ",
    "(nothing)": lambda turns: "",
}


def filler(count=3):
    """What the window holds before the message, the same for all. Its answers differ: where they
    are alike a small model says the same once more, whatever is quoted.
    """
    messages = []
    for number in range(count):
        messages.append({"role": "user", "content": story.small_talk(1000 + number)})
        messages.append({"role": "assistant", "content": story.reply(1000 + number)})
    return messages


def turns_of(which, several):
    """What is quoted for a fact, in the order of time."""
    if not several:
        return [story.FACTS[which][0]]
    draw = random.Random(which)
    others = draw.sample([i for i in range(len(story.FACTS)) if i != which], QUOTED - 1)
    return [story.FACTS[i][0] for i in sorted([which, *others])]


def ask(server, turns, wording, question):
    body = {
        "messages": [*filler(), {"role": "user", "content": WORDINGS[wording](turns) + question}],
        "max_tokens": 16,
        "temperature": 0,
    }
    answer = server.call("POST", "/v1/chat/completions", body)
    return answer["choices"][0]["message"]["content"]


def measure(server, facts=None, wordings=tuple(WORDINGS)):
    """[{"wording", "one", "several", "asked", "tokens"}]: right answers with one turn quoted and
    with several.
    """
    count = facts or len(story.FACTS)
    rows = []
    for wording in wordings:
        right = {False: 0, True: 0}
        for which, (_, question, expected) in enumerate(story.FACTS[:count]):
            for several in right:
                answer = ask(server, turns_of(which, several), wording, question)
                right[several] += story.is_right(answer, expected)
        tokens = len(server.tokenize(WORDINGS[wording](turns_of(0, False))))
        rows.append(
            {
                "wording": wording,
                "one": right[False],
                "several": right[True],
                "asked": count,
                "tokens": tokens,
            }
        )
        say(f"{wording}: {right[False]} and {right[True]} of {count}, {tokens} tokens")
    return rows


def table(rows):
    asked = rows[0]["asked"]
    out = [
        f"| wording | right of {asked}, one turn quoted | right of {asked}, {QUOTED} turns quoted "
        "| tokens of the first quotation |",
        "|---|---|---|---|",
    ]
    for row in rows:
        out.append(f"| {row['wording']} | {row['one']} | {row['several']} | {row['tokens']} |")
    return "\n".join(out)
