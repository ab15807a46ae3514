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
FLOOD_USERS = 16


def prompt_tokens(setup):
    return setup.arguments.prompt or (600 if setup.quick else 7000)


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
        setup.goal("<= 1.5"),
        f"longest gap between tokens {median(gaps):.1f} ms",
        f"time target of a step: {target:g} ms",
        {"gaps_ms": gaps, "step_target_ms": target},
        spread=spread(lambda values: median(values) / target, gaps),
    )
    speed = Figure(
        "prefill_speed",
        at,
        over(beside, alone),
        setup.goal(">= 0.6"),
        f"{median(beside):.0f} tokens/s beside them",
        f"{median(alone):.0f} tokens/s alone",
        {"beside_tokens_per_s": beside, "alone_tokens_per_s": alone},
        spread=spread(over, beside, alone),
    )
    return Result(run, [worst, speed], verdict)


async def fair(setup):
    """Two tenants, one of which floods the server; the baseline is the other one alone."""
    setup = setup.sized(32768, 4096)
    turns = 5 if setup.quick else 10
    flood_shape = dataclasses.replace(
        shape_of(setup), think=0.0, long_share=0.8, sessions_at_once=2
    )
    bytes_too = 4 if setup.exact else 1
    calm_shape = Shape(
        think=0.1, short_tokens=24 * bytes_too, long_share=0.0, answer_tokens=(8, 8)
    )
    with Run(setup, "fair") as run:
        steps = [run.plan.user(number, calm_shape, "calm", "calm") for number in range(2)]
        floods = [run.plan.user(n, flood_shape, "flood", "flood") for n in range(FLOOD_USERS)]
        for number in range(setup.repeat):
            calm = Crowd(run.target, "alone")
            await run.crowd(calm, [calm.user(one, turns) for one in steps])
            flood = Crowd(run.target, "flood")
            flooding = asyncio.ensure_future(run.crowd(flood, [flood.user(one) for one in floods]))
            while len(flood.under_way) < FLOOD_USERS and not flooding.done():
                await asyncio.sleep(0.005)
            beside = Crowd(run.target, "beside the flood")
            await run.crowd(beside, [beside.user(one, turns) for one in steps])
            flood.end(leave=True)
            await flooding
            say(
                f"fair: {number + 1} of {setup.repeat}: p95 of first tokens "
                f"{numbers.percentile(numbers.first_ms(calm.outcomes), 95):.1f} ms alone, "
                f"{numbers.percentile(numbers.first_ms(beside.outcomes), 95):.1f} beside a flood"
            )
        verdict = run.judge()
    figure = p95_figure(
        "fair_first_token",
        f"2 users beside {FLOOD_USERS}",
        setup.goal("<= 2"),
        first_tokens(run, "beside the flood"),
        first_tokens(run, "alone"),
        ("beside the flood", "alone"),
    )
    return Result(run, [figure], verdict)
