#!/usr/bin/env python3
"""The judge of kill_loop.py finds what it is there to find: each fault is planted once."""

import types
import unittest
from unittest import mock

import kill_loop


def message(role, text):
    return {"role": role, "content": text}


def stored(*turns):
    return [m for q, a in turns for m in (message("user", q), message("assistant", a))]


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.client = types.SimpleNamespace(
            asked=[
                kill_loop.Asked("s", "one", "k1", 4, turn="T1", answer="uno"),
                kill_loop.Asked("s", "two", "k2", 4),
                kill_loop.Asked("s", "three", "k3", 4, turn="T3", answer="tres"),
                kill_loop.Asked("other", "four", "k4", 4, turn="T4", answer="cuatro"),
            ]
        )

    def judge(self, *turns):
        with mock.patch.object(kill_loop, "exported", return_value=stored(*turns)):
            return list(kill_loop.judge(self.client, None, ["s"]))

    def test_all_is_well(self):
        self.assertEqual(self.judge(("one", "uno"), ("three", "tres")), [])

    def test_unacknowledged_turn_may_be_there(self):
        self.assertEqual(self.judge(("one", "uno"), ("two", "dos"), ("three", "tres")), [])

    def test_missing(self):
        self.assertIn("is missing", self.judge(("one", "uno"))[0])

    def test_other_answer(self):
        self.assertIn("is missing", self.judge(("one", "uno"), ("three", "else"))[0])

    def test_twice(self):
        found = self.judge(("one", "uno"), ("two", "dos"), ("two", "dos"), ("three", "tres"))
        self.assertIn("2 times", found[0])

    def test_never_asked(self):
        found = self.judge(("one", "uno"), ("three", "tres"), ("five", "cinco"))
        self.assertIn("never asked", found[0])

    def test_out_of_order(self):
        self.assertIn("out of order", self.judge(("three", "tres"), ("one", "uno"))[0])

    def test_half_a_turn(self):
        messages = [message("user", "one")]
        with mock.patch.object(kill_loop, "exported", return_value=messages):
            with self.assertRaises(AssertionError):
                list(kill_loop.judge(self.client, None, ["s"]))


if __name__ == "__main__":
    unittest.main()
