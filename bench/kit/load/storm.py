"""storm: many users with a history reconnect at the same moment after kill -9 and a start."""

import asyncio
import hashlib
import json
import random
import shutil
import time

from kit.history import kv_files
from kit.load import numbers
from kit.load.client import Turn, ask_at_once, need_done
from kit.load.crowd import Crowd
from kit.load.plan import Shape
from kit.load.scenarios import Result
from kit.load.setup import Run
from kit.machine import median, say
from kit.recall import import_turns, user
from kit.report import Figure, over, spread
from kit.server import Server

FULL_SIZE = (16, 4000)  # users, tokens of history: what the goals were set for
SHORT_USERS = 2
MESSAGE_TOKENS = 100  # of each imported message
ALONE_SECONDS = (1.0, 20.0)  # at least, at most


def sizes(setup):
    """(users, tokens of history)"""
    users = setup.arguments.storm_users or (4 if setup.quick else FULL_SIZE[0])
    history = setup.arguments.history or (300 if setup.quick else FULL_SIZE[1])
    return users, history


def sized(setup):
    """All histories fit beside the short ones: who stays out is the scheduler's matter."""
    users, history = sizes(setup)
    window = history + 512
    return setup.sized((users + SHORT_USERS) * window, window, "--window-high", "100")


def items_of(plan, talk, draw, tokens):
    """What is imported: [(user, assistant)], the code word in the first."""
    pairs, count = [], max(2, round(tokens / (2 * MESSAGE_TOKENS)))
    for number in range(1, count + 1):
        said = plan.texts.message(draw, number, MESSAGE_TOKENS, talk.word if number == 1 else "")
        pairs.append((said, f"I see. {plan.texts.filler(draw, MESSAGE_TOKENS)}."))
    return pairs


def talks_of(plan, users):
    return [plan.talk(f"t{number % 4}", f"u{number}", 1) for number in range(users)]


def make(setup, plan, folder):
    """A store with a session of so many tokens for each user, its KV on disk, left by kill -9."""
    users, tokens = sizes(setup)
    say(f"storm: making {users} sessions of {tokens} tokens")
    before = {}
    with Server(setup, folder / "store") as server:
        for number, talk in enumerate(talks_of(plan, users)):
            draw = random.Random(f"{setup.seed} history {number}")
            before[talk.session] = items_of(plan, talk, draw, tokens)
            items = []
            for said, answer in before[talk.session]:
                items += [user(said), {"role": "assistant", "content": answer}]
            import_turns(server, talk.session, items)
            turn = talk.turn("0. Are you there?", 4, "short", "")
            body = {**turn.body(), "stream": False}
            del body["stream_options"]
            answer = server.call("POST", "/v1/chat/completions", body)
            before[talk.session].append((turn.text, answer["choices"][0]["message"]["content"]))
            info = server.wait_stored(talk.session)
            say(f"  {number + 1} of {users}: {info['tokens']} tokens")
    facts = {"before": before, "numbers": plan.words.of_number}
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")


def prepared(setup, run):
    """The store of the run, with sessions that are made once for a model, and kept."""
    users, tokens = sizes(setup)
    made_by = f"{setup.fingerprint}/{setup.log_format}/{setup.serve_flags}"
    key = f"{made_by}/{users}/{tokens}/{setup.seed}"
    name = f"load-storm-{users}x{tokens}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    # The fake executor makes them in no time.
    folder = (setup.temp if setup.exact else setup.out / "cache") / name
    if setup.arguments.fresh or not (folder / "facts.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(setup, run.plan, folder)
    facts = json.loads((folder / "facts.json").read_text())
    run.before = {name: [tuple(pair) for pair in pairs] for name, pairs in facts["before"].items()}
    run.plan.words.of_number.update(facts["numbers"])
    ignore = shutil.ignore_patterns("control.sock", "lock")
    shutil.copytree(folder / "store", setup.temp / run.store, ignore=ignore)


class Storm:
    """Storms over one store, one after the other, each after kill -9 and a start."""

    def __init__(self, run):
        self.run, self.number = run, 0
        shape = Shape(
            think=0.0,
            long_share=0.0,
            answer_tokens=(8, 8),
            session_tokens=run.setup.window * 6 // 10,
            sessions_at_once=1,
        )
        people = range(SHORT_USERS)
        self.short = {
            phase: [run.plan.user(number, shape, phase) for number in people]
            for phase in ("beside", "quiet")
        }

    async def blow(self, phase):
        """All at once; their outcomes."""
        self.number += 1
        text = f"{1000 + self.number}. What is the code word of this conversation?"
        fields = self.run.plan.fields
        turns = [
            Turn(session, text, 12, "reconnect", phase, more=fields) for session in self.run.before
        ]
        outcomes = need_done(await ask_at_once(self.run.target, turns))
        self.run.outcomes += outcomes
        slowest, fastest = self.ends(outcomes)
        say(f"  {phase}: first tokens after {fastest:.1f} to {slowest:.1f} ms; {kv_of(outcomes)}")
        return outcomes

    @staticmethod
    def ends(outcomes):
        """(slowest, fastest) in milliseconds."""
        times = numbers.first_ms(outcomes)
        return max(times), min(times)

    def settle(self):
        """Until the KV of all is on disk, so that the next storm finds as much as this one did."""
        for session in self.run.before:
            self.run.target.server.wait_stored(session)

    async def short_rate(self, phase, until):
        """Tokens a second of short requests while `until`, a coroutine, runs; and its result."""
        crowd = Crowd(self.run.target, phase)
        people = [crowd.user(steps) for steps in self.short[phase]]
        talk = asyncio.ensure_future(self.run.crowd(crowd, people))
        begun = time.perf_counter()
        result = await until
        ended = time.perf_counter()
        crowd.end()
        await talk
        return numbers.tokens_between(crowd.outcomes, begun, ended) / (ended - begun), result


def kv_of(outcomes):
    kv = [one.tenuto["kv"] for one in outcomes]
    parts = ("reused", "restored", "recomputed")
    return ", ".join(f"{sum(one[part] for one in kv)} {part}" for part in parts)


async def rounds_of(storm, repeat):
    """[(slowest, fastest)] with stored KV, [(short beside, short alone)] in tokens a second."""
    run, restored, short = storm.run, [], []
    for _ in range(repeat):
        restored.append(storm.ends(await storm.blow("restored")))
        storm.settle()
        await run.crash()
        rate, outcomes = await storm.short_rate("beside", storm.blow("restored too"))
        storm.settle()
        lasted = max(one.ended for one in outcomes) - min(one.sent for one in outcomes)
        low, high = ALONE_SECONDS
        quiet = asyncio.sleep(min(max(lasted, low), high))
        alone, _ = await storm.short_rate("quiet", quiet)
        say(f"  short requests: {rate:.1f} tokens/s beside the storm, {alone:.1f} alone")
        short.append((rate, alone))
        await run.crash()
    return restored, short


def figures_of(setup, restored, recomputed, short):
    users, history = sizes(setup)
    at = f"{users} x {history} tokens"
    slow, fast = zip(*restored)
    beside, alone = zip(*short)
    again = [recomputed[0]]
    full = users >= FULL_SIZE[0] and history >= FULL_SIZE[1]
    yield Figure(
        "storm_recompute_over_restored",
        at,
        over(again, slow),
        setup.goal(">= 90", full),
        f"slowest first token {median(slow):.1f} ms",
        f"without stored KV {recomputed[0] / 1e3:.2f} s",
        {"slowest_ms": slow, "recomputed_ms": recomputed},
    )
    yield Figure(
        "storm_slowest_over_fastest",
        at,
        over(slow, fast),
        setup.goal("<= 4", full),
        f"slowest first token {median(slow):.1f} ms",
        f"fastest {median(fast):.1f} ms",
        {"slowest_ms": slow, "fastest_ms": fast},
        spread=spread(over, slow, fast),
    )
    yield Figure(
        "storm_short_requests",
        f"{SHORT_USERS} users beside {at}",
        over(beside, alone),
        setup.goal(">= 0.6", full),
        f"{median(beside):.1f} tokens/s during the storm",
        f"{median(alone):.1f} tokens/s alone",
        {"beside_tokens_per_s": beside, "alone_tokens_per_s": alone},
        spread=spread(over, beside, alone),
    )


async def storm(setup):
    """Users with a history come back at once after kill -9 and a start; the baselines are the same
    server without stored KV, the fastest of them, and short requests alone.
    """
    setup.need_own("storm")
    setup = sized(setup)
    run = Run(setup, "storm")
    prepared(setup, run)
    with run:
        storms = Storm(run)
        restored, short = await rounds_of(storms, setup.repeat)
        say("storm: the same without stored KV")

        def forget():
            for path in kv_files(setup.temp / run.store):
                path.unlink()

        await run.crash(forget)
        recomputed = storms.ends(await storms.blow("recomputed"))
        verdict = run.judge()
    return Result(run, list(figures_of(setup, restored, recomputed, short)), verdict)
