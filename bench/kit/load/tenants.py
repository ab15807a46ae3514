"""prefill and fair: one long prompt, or one tenant, beside others."""

import asyncio
import dataclasses
import itertools

from kit.load import numbers
from kit.load.client import ask_at_once, finish, need_done, start
from kit.load.crowd import Crowd
from kit.load.plan import Shape
from kit.load.scenarios import Result, first_tokens, p95_figure, shape_of
from kit.load.setup import Run
from kit.machine import median, need, say
from kit.report import Figure, over, spread

STREAMS = 4
STREAM_TOKENS = 3000  # the most that a stream says; a long prefill must end before
FULL_PROMPT = 7000  # tokens, what the goals were set for
CALM_USERS, FLOOD_USERS = 2, 16
FLOOD_SECONDS_MAX = 180  # then a round ends with what was answered


def prompt_tokens(setup):
    return setup.arguments.prompt or (600 if setup.quick else FULL_PROMPT)


class Prefill:
    """Long prompts, alone and beside running streams; each in a session of its own."""

    def __init__(self, run, tokens):
        self.run, self.tokens = run, tokens
        self.numbers = itertools.count(1)

    def turn(self, phase, kind, tokens, answer, **more):
        number = next(self.numbers)
        talk = self.run.plan.talk(f"t{number % 4}", phase, number)
        draw = self.run.plan.draw(f"{phase} {number}")
        text = self.run.plan.texts.message(draw, 1, tokens, talk.word)
        return talk.turn(text, answer, kind, phase, **more)

    async def ask(self, phase):
        """One long prompt; tokens a second until its first token, and its outcome."""
        turn = self.turn(phase, "prompt", self.tokens, 2)
        outcomes = need_done(await ask_at_once(self.run.target, [turn]))
        self.run.outcomes += outcomes
        outcome = outcomes[0]
        return outcome.usage["prompt_tokens"] / outcome.first_ms * 1e3, outcome

    async def beside(self):
        """The same beside streams that have begun; (tokens a second, longest gap in ms)."""
        turns = [
            self.turn("beside", "stream", 24, STREAM_TOKENS, ignore_eos=True)
            for _ in range(STREAMS)
        ]
        streams = [await start(self.run.target, turn) for turn in turns]
        while not all(one.seen >= 4 or one.over.done() for one in streams):
            await asyncio.sleep(0.005)
        rate, prompt = await self.ask("beside")
        ended = [one for one in streams if one.over.done()]
        for one in streams:
            one.leave()
        outcomes = await asyncio.gather(*map(finish, turns, streams))
        self.run.outcomes += outcomes
        need(not ended, f"{len(ended)} of {STREAMS} streams ended before the prompt was read")
        return rate, max(longest_gap(one, prompt.sent, prompt.parts[0]) for one in outcomes)


def longest_gap(outcome, begin, end):
    """Milliseconds between two tokens of which the later comes in that stretch, or after it where
    none came since.
    """
    pairs = zip(outcome.parts, outcome.parts[1:])
    gaps = [later - sooner for sooner, later in pairs if begin < later and sooner < end]
    gaps.append(end - outcome.parts[-1])  # not one came until then
    return max(gaps) * 1e3


async def prefill(setup):
    """Running streams while a long prompt is read; the baselines are the time target of a step and
    the same prompt alone.
    """
    tokens = prompt_tokens(setup)
    window = max(tokens + 512, STREAM_TOKENS + 512)
    setup = setup.sized(tokens * 3 + STREAMS * window, window, "--window-high", "100")
    need(tokens + 64 <= setup.window, f"a prompt of {tokens} tokens, the window has {setup.window}")
    target = setup.arguments.step_ms
    alone, beside, gaps = [], [], []
    with Run(setup, "prefill") as run:
        prompts = Prefill(run, tokens)
        for number in range(setup.repeat):
            alone.append((await prompts.ask("alone"))[0])
            rate, gap = await prompts.beside()
            beside.append(rate)
            gaps.append(gap)
            say(
                f"prefill: {number + 1} of {setup.repeat}: {alone[-1]:.0f} tokens/s alone, "
                f"{rate:.0f} beside {STREAMS} streams, whose longest gap was {gap:.1f} ms"
            )
        verdict = run.judge()
    at = f"{tokens} tokens beside {STREAMS} streams"
    worst = Figure(
        "prefill_longest_gap",
        at,
        median(gaps) / target,
        setup.goal("<= 1.5", tokens >= FULL_PROMPT),
        f"longest gap between tokens {median(gaps):.1f} ms",
        f"time target of a step: {target:g} ms",
        {"gaps_ms": gaps, "step_target_ms": target},
        spread=spread(lambda values: median(values) / target, gaps),
    )
    speed = Figure(
        "prefill_speed",
        at,
        over(beside, alone),
        setup.goal(">= 0.6", tokens >= FULL_PROMPT),
        f"{median(beside):.0f} tokens/s beside them",
        f"{median(alone):.0f} tokens/s alone",
        {"beside_tokens_per_s": beside, "alone_tokens_per_s": alone},
        spread=spread(over, beside, alone),
    )
    return Result(run, [worst, speed], verdict)


class Flood:
    """A calm tenant and one that floods the server, in turns."""

    def __init__(self, run, quick):
        self.run, self.turns = run, 4 if quick else 10
        bytes_too = 4 if run.setup.exact else 1
        shape = Shape(think=0.1, short_tokens=24 * bytes_too, long_share=0.0, answer_tokens=(8, 8))
        self.calm = [run.plan.user(number, shape, "calm", "calm") for number in range(CALM_USERS)]
        shape = dataclasses.replace(shape_of(run.setup), think=0.0, long_share=0.8)
        self.users = 6 if quick else FLOOD_USERS
        self.flood = [run.plan.user(n, shape, "flood", "flood") for n in range(self.users)]

    async def talk(self, phase):
        """The calm tenant; the p95 of its first tokens."""
        crowd = Crowd(self.run.target, phase)
        people = [crowd.user(steps, self.turns) for steps in self.calm]
        await self.run.crowd(crowd, people, FLOOD_SECONDS_MAX)
        times = numbers.first_ms(crowd.outcomes)
        need(times, f"{phase}: nobody had a first token within {FLOOD_SECONDS_MAX} s")
        return numbers.percentile(times, 95)

    async def beside(self):
        flood = Crowd(self.run.target, "flood")
        people = [flood.user(steps) for steps in self.flood]
        flooding = asyncio.ensure_future(self.run.crowd(flood, people))
        while len(flood.under_way) < self.users and not flooding.done():
            await asyncio.sleep(0.005)
        p95 = await self.talk("beside the flood")
        flood.end(leave=True)
        await flooding
        return p95


async def fair(setup):
    """Two tenants, one of which floods the server; the baseline is the other one alone."""
    setup = setup.sized(32768, 4096)
    with Run(setup, "fair") as run:
        tenants = Flood(run, setup.quick)
        for number in range(setup.repeat):
            alone, beside = await tenants.talk("alone"), await tenants.beside()
            say(
                f"fair: {number + 1} of {setup.repeat}: p95 of first tokens {alone:.1f} ms alone, "
                f"{beside:.1f} beside a flood"
            )
        verdict = run.judge()
    figure = p95_figure(
        "fair_first_token",
        f"{CALM_USERS} users beside {tenants.users}",
        setup.goal("<= 2", not setup.quick),
        first_tokens(run, "beside the flood"),
        first_tokens(run, "alone"),
        ("beside the flood", "alone"),
    )
    return Result(run, [figure], verdict)
