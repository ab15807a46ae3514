"""Shows that the judge finds what it is there to find: a small run is right as it is, and wrong in
each of the ways below, planted one after the other.
"""

import copy
import dataclasses

from kit.load.crowd import Crowd
from kit.load.judge import Witness, judge
from kit.load.scenarios import people_of, shape_of, sized
from kit.load.setup import Run
from kit.machine import need, say


class Kept(Witness):
    """What a witness said, each thing asked once, so that faults can be planted in it."""

    def __init__(self, witness):
        super().__init__(witness.server, witness.plain)
        self.witness = witness
        self.logs, self.said, self.replays, self.windows = {}, {}, {}, {}

    def stored(self, session):
        if session not in self.logs:
            self.logs[session] = self.witness.stored(session)
        return [dataclasses.replace(turn) for turn in self.logs[session]]

    def says(self, messages, fields):
        key = repr((messages, fields))
        if key not in self.said:
            self.said[key] = self.witness.says(messages, fields)
        return self.said[key]

    def window(self, session, turn):
        if turn not in self.windows:
            self.windows[turn] = self.witness.window(session, turn)
        return self.windows[turn]

    def replay(self, session, turn):
        key = session, turn
        if key not in self.replays:
            self.replays[key] = self.witness.replay(session, turn)
        return self.replays[key]


class Copy:
    """An outcome that may be changed without changing the run's."""

    def __init__(self, outcome):
        for name in ("turn", "key", "sent", "ended", "end", "error", "text"):
            setattr(self, name, getattr(outcome, name))
        self.usage, self.tenuto = copy.deepcopy(outcome.usage), copy.deepcopy(outcome.tenuto)


class Scene:
    """A run's outcomes and logs, to plant one fault in."""

    def __init__(self, kept, outcomes, of_number):
        self.witness, self.of_number = copy.copy(kept), of_number
        self.witness.logs = {
            name: [dataclasses.replace(turn) for turn in turns]
            for name, turns in kept.logs.items()
        }
        self.outcomes = [Copy(outcome) for outcome in outcomes]

    def done(self, later=False):
        """An answer that was complete; `later`: not the first of its session."""
        for one in self.outcomes:
            line = [turn.text for turn in self.witness.logs[one.turn.session]]
            if one.end == "done" and one.text and line.index(one.turn.text) >= int(later):
                return one
        need(False, "the run is too small for a self test")
        return None

    def other(self, outcome):
        """A complete answer of another session, with other words."""
        return next(
            one
            for one in self.outcomes
            if one.end == "done"
            and one.turn.session != outcome.turn.session
            and one.text != outcome.text
        )

    def line(self, outcome):
        return self.witness.logs[outcome.turn.session]

    def place(self, outcome):
        return next(
            at for at, turn in enumerate(self.line(outcome)) if turn.text == outcome.turn.text
        )


def one_letter(scene):
    """One letter of an answer is another on its way to the client"""
    outcome = scene.done()
    outcome.text = outcome.text[:-1] + ("x" if outcome.text[-1] != "x" else "y")


def swapped(scene):
    """Two sessions get each other's answer, and the log has it so"""
    one = scene.done()
    two = scene.other(one)
    here, there = (scene.line(each)[scene.place(each)] for each in (one, two))
    one.text, two.text = two.text, one.text
    here.answer, there.answer = there.answer, here.answer


def foreign_word(scene):
    """An answer tells another session's code word, and the log has it so"""
    one = scene.done()
    number = next(n for n, owner in scene.of_number.items() if owner != one.turn.session)
    scene.line(one)[scene.place(one)].answer += f" {number}"
    one.text += f" {number}"


def lost(scene):
    """A turn that was acknowledged is not in the log"""
    one = scene.done()
    del scene.line(one)[scene.place(one)]


def stranger(scene):
    """A session's log has a turn of another one"""
    one = scene.done()
    two = scene.other(one)
    scene.line(one).append(dataclasses.replace(scene.line(two)[scene.place(two)]))


def twice(scene):
    """A turn was made twice of one request"""
    one = scene.done()
    scene.line(one).append(dataclasses.replace(scene.line(one)[scene.place(one)]))


def one_token(scene):
    """A prompt has a token that no turn of its session has"""
    outcome = scene.done()
    outcome.usage["prompt_tokens"] += 1
    outcome.tenuto["kv"]["recomputed"] += 1


def forgotten(scene):
    """An answer was given as if the turn before it had never been"""
    outcome = scene.done(later=True)
    place = scene.place(outcome)
    turn = scene.line(outcome)[place]
    alone = [{"role": "user", "content": turn.text}]
    outcome.text, _ = scene.witness.says(alone, outcome.turn.fields())
    turn.answer = outcome.text


# What of the finding's words says that it was found for what it is.
PLANTED = {
    one_letter: "heard and kept differ",
    swapped: "in another context",
    foreign_word: "the code word of",
    lost: "is not there",
    stranger: "nobody sent here",
    twice: "a turn twice",
    one_token: "its turns have",
    forgotten: "in another context",
}
# These can be told only where the answer that must come is known.
EXACT_ONLY = (swapped, forgotten)


def found_of(scene, plant):
    """(the verdict, the fault that tells of it or "")"""
    plant(scene)
    verdict = judge(scene.witness, scene.outcomes, scene.of_number)
    return verdict, next((told for told in verdict.faults if PLANTED[plant] in told), "")


def faults_missed(setup, kept, outcomes, of_number):
    """Names of planted faults that were not found; prints what was found of each."""
    missed = []
    for plant in PLANTED:
        if plant in EXACT_ONLY and not setup.exact:
            continue
        verdict, found = found_of(Scene(kept, outcomes, of_number), plant)
        print(f"| {plant.__doc__} | {len(verdict.faults)} | {found or '**not this one**'} |")
        if not found:
            missed.append(plant.__name__)
    return missed


async def run(setup):
    """A small crowd, its answers judged as they are and with each fault; the exit status."""
    setup = sized(setup)
    with Run(setup, "selftest") as under_way:
        crowd = Crowd(under_way.target, "crowd")
        shape = dataclasses.replace(shape_of(setup, leave_share=0.2), think=0.1)
        await under_way.crowd(crowd, people_of(under_way, crowd, shape, 2.0), 2.0)
        with under_way.witness() as witness:
            kept, of_number = Kept(witness), under_way.plan.words.of_number
            clean = judge(kept, under_way.outcomes, of_number)
            say(f"{clean.asked} answers as they are: {len(clean.faults)} faults")
            for fault in clean.faults:
                say(f"  {fault}")
            print("| planted | faults found | the one that tells of it |\n|---|---|---|")
            missed = faults_missed(setup, kept, under_way.outcomes, of_number)
    for name in missed:
        say(f"NOT CAUGHT: {name}")
    return 1 if missed or clean.faults or not clean.right else 0
