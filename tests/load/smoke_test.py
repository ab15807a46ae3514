#!/usr/bin/env python3
"""bench/load runs every scenario against the binary with the fake executor, small. Whether answers
are right is judged, how long they took is not.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("TENUTO_BINARY", str(ROOT / "build/release/tenuto"))
FIGURES = {
    "steady_first_token",
    "steady_goodput",
    "mixed_first_token",
    "mixed_reconnect",
    "mixed_goodput",
    "storm_recompute_over_restored",
    "storm_slowest_over_fastest",
    "storm_short_requests",
    "prefill_longest_gap",
    "prefill_speed",
    "fair_first_token",
}

sys.path.insert(0, str(ROOT / "bench"))
from kit.server import Server  # pylint: disable=wrong-import-position


class SmokeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tenuto-load-smoke-")
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def load(self, *flags, binary=BINARY):
        command = [sys.executable, ROOT / "bench/load", "--quick", "--out", self.out, *flags]
        return subprocess.run(
            [*map(str, command), "--binary", binary], capture_output=True, text=True, check=False
        )

    def written(self):
        return json.loads((self.out / "load.json").read_text())

    def test_every_scenario(self):
        done = self.load("--seconds", "1.5", "--leave", "0.5")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = self.written()
        self.assertEqual({figure["name"] for figure in found["figures"]}, FIGURES)
        for name in FIGURES:
            self.assertIn(f"| {name} |", done.stdout)
        phases = {(one["scenario"], one["phase"]): one for one in found["settings"]["phases"]}
        restored, recomputed = phases["storm", "restored"], phases["storm", "recomputed"]
        self.assertEqual((restored["right"], recomputed["right"]), (4, 4))
        self.assertGreater(restored["kv"]["restored"], 4 * 250)
        self.assertEqual(recomputed["kv"]["restored"], 0)
        self.assertEqual(phases["prefill", "beside"]["ends"], {"done": 1, "left": 4})
        trouble, back = phases["mixed", "trouble"], phases["mixed", "reconnect"]
        self.assertTrue({"left"} & {*trouble["ends"], *back["ends"]})
        self.assertGreater(back["right"], 0)
        xml.etree.ElementTree.parse(self.out / "load.svg")

    def test_planted_faults(self):
        done = self.load("--self-test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("\n"), 2 + 8)
        self.assertNotIn("**", done.stdout)

    def test_a_server_that_runs(self):
        setup = types.SimpleNamespace(temp=self.out, tenuto=BINARY, model=None, serve_flags=[])
        with Server(setup, self.out / "store", ["--window", "4096", "-c", "16384"]) as server:
            url = f"http://127.0.0.1:{server.port}"
            done = self.load("--url", url, "--scenarios", "steady")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(server.call("GET", "/v1/sessions")["data"], [])
            refused = self.load("--url", url, "--scenarios", "storm")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("not with --url", refused.stderr)

    def test_errors_say_what_to_do(self):
        done = self.load(binary="/nowhere/tenuto")
        self.assertEqual(done.returncode, 1)
        self.assertIn("name another with --binary", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.load("--scenarios", "flood").returncode, 2)
        self.assertIn("--url x/y", self.load("--url", "x/y").stderr)


if __name__ == "__main__":
    unittest.main()
