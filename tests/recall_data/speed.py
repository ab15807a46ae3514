#!/usr/bin/env python3
"""What the recall layer costs beside FTS5, on one conversation of the development set: a query,
loading and the first query, bytes, turns indexed per second.

    speed.py --turns 20000 --program build/release/bench/recall_speed [--language 0] [--keep DIR]
    speed.py --turns 20000 --program build/release/bench/recall_speed --drawn

FTS5 is what rankers.py has, in memory, asked the same questions in the same run. Processor time of
one thread, both. With --drawn the turns are of 200 made-up words each, drawn by Zipf's law, and
there is no baseline.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import generate
import rankers

QUESTIONS = 200  # of each positive kind / 4, so that all kinds are there at every size
DRAWN_WORDS = 30000
SYLLABLES = "ka lo mi ren tas vo pel dor shi num gra bel fo ti zan".split()


def baseline(made, pairs):
    ranker = rankers.Fts5(pairs=pairs)
    ranker.reset()
    started = time.thread_time()
    ranker.add(made["turns"])
    seconds = time.thread_time() - started
    taken = []
    for again in range(2):  # the first round warms
        taken = []
        for one in made["questions"]:
            query = ranker.query(one["text"])
            started = time.thread_time()
            if query:
                ranker.rank(one["text"], 5, made["window_from"])
            taken.append((time.thread_time() - started) * 1e6)
    (pages,) = ranker.base.execute("PRAGMA page_count").fetchone()
    (size,) = ranker.base.execute("PRAGMA page_size").fetchone()
    ranker.close()
    return {
        "turns_per_s": len(made["turns"]) / seconds,
        "bytes_with_text": pages * size,
        "query_p50_us": statistics.median(taken),
        "query_p95_us": statistics.quantiles(taken, n=20)[-1],
    }


def drawn_word(number):
    word = ""
    while number or not word:
        word += SYLLABLES[number % len(SYLLABLES)]
        number //= len(SYLLABLES)
    return word + "q"


def drawn(turns):
    """A conversation of long turns with many words, as generate.archive makes one."""
    draw = random.Random(5)
    words = [drawn_word(number) for number in range(DRAWN_WORDS)]
    weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(DRAWN_WORDS)))

    def text(count):
        return " ".join(draw.choices(words, cum_weights=weights, k=count)) + "."

    start = datetime.datetime(2024, 5, 10)
    made = {"id": f"drawn-{turns}", "language": "", "size": turns, "window_from": turns - 20}
    made["turns"] = [
        {
            "turn": number + 1,
            "time": (start + datetime.timedelta(minutes=number)).isoformat() + "Z",
            "user": text(100),
            "assistant": text(100),
        }
        for number in range(turns)
    ]
    last = made["turns"][-1]
    made["questions"] = [
        {
            "text": text(8),
            "time": last["time"],
            "last_user": last["user"],
            "last_answer": last["assistant"],
        }
        for _ in range(100)
    ]
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=20000)
    parser.add_argument("--program", required=True)
    parser.add_argument("--language", type=int, default=0, help="which conversation: 0, 1 or 2")
    parser.add_argument("--no-baseline", action="store_true")
    parser.add_argument("--drawn", action="store_true", help="long turns of made-up words")
    parser.add_argument("--keep", type=pathlib.Path, help="folder of the files, used again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        name = f"dev-s1-{arguments.turns}-{arguments.language}"
        if arguments.drawn:
            name = f"drawn-{arguments.turns}"
        files = [folder / f"{name}.{part}.jsonl" for part in ("turns", "questions")]
        if not all(file.exists() for file in files):
            counts = (QUESTIONS // 16, QUESTIONS // 4)
            if arguments.drawn:
                made = drawn(arguments.turns)
            else:
                made = generate.archive("dev", 1, arguments.turns, arguments.language, counts)
            generate.write(made, folder)
            del made
        run = subprocess.run([arguments.program, *files], stdout=subprocess.PIPE, check=True)
        print(json.dumps({"recall": json.loads(run.stdout)}), flush=True)
        if not arguments.no_baseline and not arguments.drawn:
            lines = files[1].read_text().splitlines()
            made = json.loads(lines[0])
            made["questions"] = [json.loads(line) for line in lines[1:]]
            with files[0].open() as file:
                made["turns"] = [json.loads(line) for line in file]
            print(json.dumps({"fts5": baseline(made, made["language"] == "zh")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
