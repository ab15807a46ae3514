"""A conversation for bench/recall_story: 46 facts that are told early, talk about other things, and
a question for each fact. The answer is one word or number that nothing else says.
"""

import random
import re

# (what the user says, the question, what a right answer holds)
FACTS = (
    ("My sister's dog is called Biscuit.", "What is my sister's dog called?", "Biscuit"),
    ("The code of the garage door is 7315.", "What is the code of the garage door?", "7315"),
    ("My dentist is Doctor Holloway.", "Who is my dentist?", "Holloway"),
    ("Our boat is named Petrel.", "What is our boat named?", "Petrel"),
    ("I park the caravan in Whitstable.", "Where do I park the caravan?", "Whitstable"),
    ("My locker at the pool is number 482.", "What number is my locker at the pool?", "482"),
    ("Grandmother was born in Trieste.", "Where was grandmother born?", "Trieste"),
    ("The plumber's name is Osgood.", "What is the plumber's name?", "Osgood"),
    ("My bicycle is painted turquoise.", "What colour is my bicycle painted?", "turquoise"),
    ("The spare key is under the flowerpot.", "Where is the spare key?", "flowerpot"),
    ("My nephew plays the bassoon.", "Which instrument does my nephew play?", "bassoon"),
    ("Aunt Harriet is allergic to walnuts.", "What is aunt Harriet allergic to?", "walnut"),
    ("The wifi password is marigold.", "What is the wifi password?", "marigold"),
    ("My train to work leaves at 6:52.", "When does my train to work leave?", "6:52"),
    ("Uncle Ferdinand lives in Uppsala.", "Where does uncle Ferdinand live?", "Uppsala"),
    ("My passport expires in October.", "When does my passport expire?", "October"),
    (
        "The cat of our neighbour is called Pickles.",
        "What is our neighbour's cat called?",
        "Pickles",
    ),
    ("I keep the tax papers in the blue suitcase.", "Where do I keep the tax papers?", "suitcase"),
    ("My shoe size is 43.", "What is my shoe size?", "43"),
    ("The mechanic charges 85 dollars an hour.", "What does the mechanic charge an hour?", "85"),
    ("My favourite tea is lapsang.", "What is my favourite tea?", "lapsang"),
    ("Cousin Leonie studies geology.", "What does cousin Leonie study?", "geology"),
    ("Our wedding was in Ravenna.", "Where was our wedding?", "Ravenna"),
    ("My landlord is called Mister Quigley.", "What is my landlord called?", "Quigley"),
    (
        "The alarm of the shop is switched off with 2904.",
        "How is the alarm of the shop switched off?",
        "2904",
    ),
    ("My first teacher was Miss Abernathy.", "Who was my first teacher?", "Abernathy"),
    ("I was vaccinated in February.", "When was I vaccinated?", "February"),
    ("My brother works as a beekeeper.", "What does my brother work as?", "beekeeper"),
    (
        "The lawyer's office is on Juniper Street.",
        "Which street is the lawyer's office on?",
        "Juniper",
    ),
    ("Our hens sleep in the wheelhouse.", "Where do our hens sleep?", "wheelhouse"),
    ("My blood type is AB negative.", "What is my blood type?", "AB"),
    ("The piano tuner comes on Thursday.", "When does the piano tuner come?", "Thursday"),
    ("My ferry ticket is number 60177.", "What number is my ferry ticket?", "60177"),
    (
        "The parrot of my boss is called Admiral.",
        "What is the parrot of my boss called?",
        "Admiral",
    ),
    ("I learned to ski in Andorra.", "Where did I learn to ski?", "Andorra"),
    (
        "My daughter's school is called Saint Brendan.",
        "What is my daughter's school called?",
        "Brendan",
    ),
    ("The rent is 940 euros.", "How much is the rent?", "940"),
    (
        "My doctor told me to avoid grapefruit.",
        "What did my doctor tell me to avoid?",
        "grapefruit",
    ),
    ("Our meeting room is called Everglade.", "What is our meeting room called?", "Everglade"),
    ("My telescope was made by Vixen.", "Who made my telescope?", "Vixen"),
    ("The gardener is called Bartholomew.", "What is the gardener called?", "Bartholomew"),
    ("My violin is from the year 1887.", "Which year is my violin from?", "1887"),
    ("I lent my drill to Mortimer.", "Whom did I lend my drill to?", "Mortimer"),
    ("The bakery closes at 5:30.", "When does the bakery close?", "5:30"),
    ("My horse is called Tumbleweed.", "What is my horse called?", "Tumbleweed"),
    ("Our flight lands in Reykjavik.", "Where does our flight land?", "Reykjavik"),
)

TALK = (
    "Tell me something about {a} and {b}.",
    "Why do people like {a}?",
    "Is {a} better in winter than {b}?",
    "Write one line about {a} with {b} in it.",
    "How would you explain {a} to a child?",
    "I saw a film about {a} yesterday. Does {b} interest you?",
    "Compare {a} with {b}, please.",
    "What goes well with {a}?",
)
THINGS = (
    "bread rain chess tulips glass salt owls paint soup rivers mountains lanterns carpets clouds "
    "magnets islands candles bridges deserts mirrors forests volcanoes planets comets harvests "
    "pottery castles windmills puppets ladders dunes glaciers orchards fountains drums kites"
).split()


def small_talk(number):
    draw = random.Random(f"talk {number}")
    first, second = draw.sample(THINGS, 2)
    return f"{number}. " + draw.choice(TALK).format(a=first, b=second)


def told(turns, early=80):
    """What the user says in each of so many turns; each fact is one of the first `early`."""
    places = sorted(random.Random("facts").sample(range(1, early), len(FACTS)))
    facts = dict(zip(places, FACTS))
    return [facts[i][0] if i in facts else small_talk(i) for i in range(turns)]


def reply(number):
    """What an assistant could have said, for turns that no model answers."""
    draw = random.Random(f"reply {number}")
    first, second = draw.sample(THINGS, 2)
    return draw.choice(
        (
            f"Many people think of {first} first.",
            f"It has more to do with {second} than one would think.",
            f"I like {first} very much.",
            f"Sure. Let me know when you want to hear of {second}.",
            "Thank you for telling me.",
            f"{first.capitalize()} and {second} have been with us for a long time.",
        )
    )


def is_right(answer, expected):
    """The word itself or its plural, in any case, and not as a part of another."""
    found = re.search(rf"(?<!\w){re.escape(expected)}s?(?!\w)", answer, re.IGNORECASE)
    return found is not None
