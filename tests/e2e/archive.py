"""Long conversations for tests: put into a session at once, and looked at turn by turn."""

import json

# A token of the fake model is a byte: a quotation of two turns takes what a hundred real tokens do.
ROOMY = ["-c", "6144", "--window", "4096", "-np", "2", "--recall-share", "40"]
SMALL = ["-c", "3072", "--window", "2048", "-np", "2", "--recall-share", "40"]
# Room for what 512 real tokens of quotes are, in bytes.
BROAD = ["-c", "12288", "--window", "8192", "-np", "2", "--recall-share", "50"]
BROAD += ["--recall-tokens", "2048"]
IMPORT_ITEMS = 20000


FACTS = {
    "harbour": "The harbour code of Lisbon is 4711.",
    "cello": "Matilda keeps her cello in the cellar of the observatory.",
    "ferry": "The last ferry to Skagen leaves at a quarter past nine.",
    "orchid": "Our orchid is called Bartholomew and hates draughts.",
}
QUESTIONS = [
    "What is the harbour code of Lisbon?",
    "Where does Matilda keep her cello?",
    "When does the last ferry to Skagen leave?",
    "What is our orchid called?",
]
THINGS = "bread rain chess tulips violins glass salt owls paint soup".split()


def import_items(server, session, items):
    for at in range(0, len(items), IMPORT_ITEMS):
        body = "".join(json.dumps(item) + "\n" for item in items[at : at + IMPORT_ITEMS])
        answer = server.post(f"/v1/sessions/{session}/import", body.encode())
        assert answer.status == 200, answer


def items_of(turns):
    """A generated conversation as lines of an import."""
    items = []
    for turn in turns:
        name = {"name": turn["name"]} if "name" in turn else {}
        items.append({"role": "user", "content": turn["user"], "time": turn["time"], **name})
        items.append({"role": "assistant", "content": turn["assistant"], "time": turn["time"]})
    return items


def ids_of(server, session):
    ids, after = [], ""
    while True:
        page = server.get(f"/v1/sessions/{session}/turns?limit=1000&after={after}").json
        ids += [turn["id"] for turn in page["data"]]
        after = page["last_id"]
        if not page["has_more"]:
            return ids


def candidates(answer):
    return answer["tenuto"]["recall"]["candidates"]


def injected(answer):
    return [one["turn"] for one in candidates(answer) if one["injected"]]


def explain(server, session, turn):
    answer = server.get(f"/v1/sessions/{session}/turns/{turn}/explain")
    assert answer.status == 200, answer
    return answer.json


def in_prompt(explanation):
    """Turns that are there whole, and turns that are quoted."""
    spans = explanation["spans"]
    whole = {span["turn"] for span in spans if span["kind"] in ("turn", "pinned")}
    return whole, {turn for span in spans for turn in span["quoted"]}


def old_items(count=80):
    for fact in FACTS.values():
        yield {"role": "user", "content": fact, "time": "2024-05-03T12:30:00Z"}
        yield {"role": "assistant", "content": "Noted.", "time": "2024-05-03T12:30:05Z"}
    for n in range(count):
        thing, other = THINGS[n % 10], THINGS[(n * 7 + 3) % 10]
        text = f"Tell me something about {thing} and {other}, story number {n}. "
        yield {"role": "user", "content": text, "time": "2024-05-04T12:30:00Z"}
        yield {"role": "assistant", "content": f"A long time ago there was {thing}."}
