#!/usr/bin/env python3
"""The judge of bench/load finds what it is there to find: each fault is planted once. No server."""

import hashlib
import itertools
import json
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

# pylint: disable=wrong-import-position
from kit.load import numbers, selftest
from kit.load.client import Outcome, Turn
from kit.load.judge import Session, Stored, judge
from kit.load.plan import Plan, Shape, Texts
from kit.server import Received

FRAME = 5  # tokens that a template adds to a message, here


def tokens_of(text):
    return len(text) + FRAME


def answer_to(messages):
    """A model whose answer is a function of the whole conversation, as the fake executor's is."""
    digest = hashlib.sha256(repr([one["content"] for one in messages]).encode()).hexdigest()
    return "".join(chr(ord("a") + int(digit, 16)) for digit in digest[:12])


class Scripted:
    """A witness without servers."""

    plain = True
    server = None

    def __init__(self):
        self.logs, self.archived = {}, 0

    def stored(self, session):
        return self.logs[session]

    def window(self, session, _):
        return {turn.turn for turn in self.logs[session][self.archived :]}

    @staticmethod
    def says(messages, _):
        parts = [tokens_of(one["content"]) for one in messages]
        return answer_to(messages), sum(parts)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_of(events, whole=True):
    """An exchange as it comes over the wire, a read for each event."""
    exchange = types.SimpleNamespace(left=False, timed_out=False)
    received = Received()
    received.__dict__.update(exchange.__dict__)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    parts = [head, *(chunk(f"data: {text}\n\n".encode()) for text in texts)]
    received.reads = list(enumerate([*parts, b"0\r\n\r\n"] if whole else parts))
    return received


def delta(text):
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}]}


class World:
    """Sessions that were talked in, right in every way."""

    def __init__(self, sessions=3, turns=3):
        self.witness, self.outcomes, self.of_number = Scripted(), [], {}
        self.clock = itertools.count(1)
        plan = Plan(1, Texts(2.0))
        for number in range(sessions):
            talk = plan.talk("t", f"u{number}", 1)
            self.witness.logs[talk.session] = log = []
            for place in range(turns):
                turn = talk.next(plan.draw(f"{number} {place}"), Shape(), "crowd")
                self.say(log, turn)
        self.of_number = plan.words.of_number

    def say(self, log, turn):
        messages = [{"content": text} for one in log for text in (one.text, one.answer)]
        text = answer_to([*messages, {"content": turn.text}])
        before = sum(one.prompt_tokens + one.answer_tokens for one in log)
        prompt = before + tokens_of(turn.text)
        size = tokens_of(turn.text)
        log.append(Stored(f"id{len(log)}", turn.text, text, False, size, tokens_of(text)))
        kv = {"reused": before, "restored": 0, "recomputed": size, "reasons": []}
        last = {
            "choices": [{"delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": len(text)},
            "tenuto": {"session": turn.session, "kv": kv, "window": {"archived_turns": 0}},
        }
        exchange = stream_of([*map(delta, text), last, "[DONE]"])
        begin = next(self.clock) * 1000
        exchange.reads = [(begin + at, data) for at, data in exchange.reads]
        exchange.sent = begin
        self.outcomes.append(Outcome(turn, exchange))

    def judge(self):
        return judge(self.witness, self.outcomes, self.of_number)


class JudgeTest(unittest.TestCase):
    def test_all_is_right(self):
        world = World()
        verdict = world.judge()
        self.assertEqual(verdict.faults, [])
        self.assertEqual((len(verdict.right), verdict.compared), (9, 9))

    def test_each_planted_fault_is_found(self):
        for plant in selftest.PLANTED:
            with self.subTest(plant.__name__):
                world = World()
                scene = selftest.Scene(world.witness, world.outcomes, world.of_number)
                verdict, found = selftest.found_of(scene, plant)
                self.assertTrue(found, verdict.faults)
                self.assertLess(len(verdict.right), 9)

    def test_a_dropped_answer_may_be_there_in_part_or_not_at_all(self):
        for kept in (0, 2, 12, None):
            with self.subTest(kept):
                world = World(turns=1)
                outcome = world.outcomes[0]
                outcome.end, outcome.text = "left", outcome.text[: min(2, kept or 0)]
                log = world.witness.logs[outcome.turn.session]
                if kept is None:
                    log.clear()
                else:
                    log[0].answer = log[0].answer[:kept]
                self.assertEqual(world.judge().faults, [])

    def test_a_dropped_answer_that_goes_on_otherwise(self):
        world = World(turns=1)
        outcome = world.outcomes[0]
        outcome.end, outcome.text = "left", outcome.text[:3]
        world.witness.logs[outcome.turn.session][0].answer = outcome.text + "#"
        self.assertIn("cut short", world.judge().faults[0])

    def test_the_window_of_a_dropped_answer(self):
        """The client was not told what was cut, so the server is asked."""
        world = World(sessions=1, turns=2)
        outcome = world.outcomes[1]
        log = world.witness.logs[outcome.turn.session]
        outcome.end, outcome.tenuto = "left", {}
        self.assertEqual(world.judge().faults, [])
        outcome.text = log[1].answer = answer_to([{"content": log[1].text}])
        self.assertIn("cut short", world.judge().faults[0])
        world.witness.archived = 1
        self.assertEqual(world.judge().faults, [])

    def test_what_was_heard_of_a_dropped_answer_is_how_it_begins(self):
        world = World(turns=1)
        world.outcomes[0].end, world.outcomes[0].text = "left", "#"
        self.assertIn("begun and kept differ", world.judge().faults[0])

    def test_the_parts_of_a_prompt_make_up_the_whole(self):
        world = World(turns=1)
        world.outcomes[0].tenuto["kv"]["restored"] += 1
        self.assertIn("but parts", world.judge().faults[0])

    def test_the_session_that_an_answer_names(self):
        world = World(turns=1)
        world.outcomes[0].tenuto["session"] = world.outcomes[1].turn.session
        self.assertIn("the answer says it is of", world.judge().faults[0])

    def test_a_refused_turn_leaves_nothing(self):
        world = World(turns=1)
        world.outcomes[0].end = "refused"
        self.assertIn("was refused", world.judge().faults[0])

    def test_order(self):
        world = World(turns=2)
        log = world.witness.logs[world.outcomes[0].turn.session]
        log.reverse()
        self.assertTrue(any("before its predecessor" in told for told in world.judge().faults))

    def test_imported_history(self):
        world = World(turns=1)
        outcome = world.outcomes[0]
        log = [Stored("i", "once", "upon", False, 9, 9), *world.witness.logs[outcome.turn.session]]
        for before, faults in (([("once", "upon")], 0), ([("once", "a")], 1)):
            world.witness.logs[outcome.turn.session] = log
            session = Session(outcome.turn.session, [outcome], world.witness, before)
            session.check_log()
            self.assertEqual(len(session.faults), faults)

    def test_a_turn_outside_the_window_is_no_part_of_the_context(self):
        world = World(sessions=1, turns=3)
        outcome = world.outcomes[2]
        outcome.tenuto["window"]["archived_turns"] = 1
        log = world.witness.logs[outcome.turn.session]
        self.assertEqual(len(world.judge().faults), 3)  # the text, and both counts of tokens
        kept = [{"content": text} for text in (log[1].text, log[1].answer, log[2].text)]
        outcome.text = log[2].answer = answer_to(kept)
        size = sum(tokens_of(one["content"]) for one in kept)
        outcome.usage["prompt_tokens"] = size
        outcome.tenuto["kv"].update(reused=0, recomputed=size)
        self.assertEqual(world.judge().faults, [])


class ReplayTest(unittest.TestCase):
    """Of a real model a sample is run again."""

    def judge(self, share):
        world = World()
        world.witness.plain = None
        numbers_of = itertools.count()

        def replay(*_):
            return ("a b c" if next(numbers_of) % 4 < share else "x y z"), "a b d"

        world.witness.replay = replay
        return world.judge()

    def test_most_begin_alike(self):
        verdict = self.judge(3)
        self.assertEqual((verdict.faults, verdict.compared), ([], 8))

    def test_most_do_not(self):
        self.assertEqual(len(self.judge(1).faults), 1)


class PartsTest(unittest.TestCase):
    def test_the_seed_decides_all_that_is_asked(self):
        def asked(seed):
            plan = Plan(seed, Texts(1.5))
            users = [plan.user(number, Shape(leave_share=0.3), "crowd") for number in (0, 1)]
            steps = [next(users[i % 2]) for i in range(60)]
            return steps, list(itertools.islice(plan.arrivals(2.0, Shape(), "crowd"), 40)), plan

        once, again, other = asked(7), asked(7), asked(8)
        self.assertEqual(once[:2], again[:2])
        self.assertNotEqual(once[0], other[0])
        owners = once[2].words.of_number.values()
        self.assertEqual(len(set(owners)), len(owners))
        self.assertEqual(len({turn.session.partition("::")[0] for _, turn in once[0]}), 2)

    def test_a_user_takes_the_same_way_whoever_else_there_is(self):
        def first(users):
            plan = Plan(3, Texts(1.5))
            talks = [plan.user(number, Shape(), "crowd") for number in range(users)]
            return [[next(talk) for _ in range(20)] for talk in reversed(talks)][-1]

        self.assertEqual(first(1), first(5))

    def test_percentiles_are_values_that_were_measured(self):
        points = numbers.percentiles(list(range(1, 101)))
        self.assertEqual(points, {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100})
        self.assertEqual(numbers.percentiles([3.5])["p99"], 3.5)
        self.assertEqual(numbers.percentiles([]), {})

    def test_how_an_answer_ended(self):
        turn = Turn("s", "x", 4)
        refused = Received()
        refused.reads = [(1.0, b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\n\r\n{}")]
        error = {"error": {"code": "unavailable"}}
        cases = {
            ("done", ""): stream_of([delta("a"), "[DONE]"]),
            ("broken", ""): stream_of([delta("a")], whole=False),
            ("failed", "in stream: unavailable"): stream_of([delta("a"), error]),
            ("broken", "no answer"): stream_of([]),
            ("refused", "429"): refused,
        }
        cases["broken", "no answer"].reads = []
        for (end, told), exchange in cases.items():
            exchange.left = exchange.timed_out = False
            outcome = Outcome(turn, exchange)
            self.assertEqual((outcome.end, outcome.error), (end, told))
        self.assertEqual(outcome.retry_after, 7)
        left = stream_of([delta("a"), delta("b")], whole=False)
        left.left = True
        self.assertEqual((Outcome(turn, left).end, Outcome(turn, left).text), ("left", "ab"))


if __name__ == "__main__":
    unittest.main()
