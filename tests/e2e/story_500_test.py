"""The story of 500 turns: 46 facts told in the first 80, the talk goes far past the window, the
server is killed on the way, then each fact is asked for. bench/recall_story tells it to a real
model and counts right answers; what is in the prompt does not depend on the model.
"""

import sys

from archive import BROAD, explain, ids_of, in_prompt
from harness import ROOT

sys.path.insert(0, str(ROOT / "bench"))

# pylint: disable=wrong-import-position
from kit import story

TURNS = 500
KILLED_AT = (200, 350)


def say(server, text):
    return server.chat("story", text, max_tokens=12)["tenuto"]


def test_five_hundred_turns(new_server):
    said = story.told(TURNS)
    server = new_server(model=None, engine_flags=BROAD)
    for number, text in enumerate(said):
        if number in KILLED_AT:
            server.kill9()
            server.start()
        told = say(server, text)
    ids = ids_of(server, "story")
    assert len(ids) == TURNS
    # All facts have left the window.
    assert told["window"]["archived_turns"] > 80
    missing = []
    for fact, question, _ in story.FACTS:
        asked = say(server, question)
        whole, quoted = in_prompt(explain(server, "story", asked["turn"]))
        if ids[said.index(fact)] not in whole | quoted:
            missing.append((question, asked["recall"]))
    assert not missing, (len(missing), missing[:3])
