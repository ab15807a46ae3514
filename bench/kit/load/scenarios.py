"""steady and mixed: a crowd that talks, without and with trouble."""

import asyncio
import dataclasses

from kit.load import numbers
from kit.load.crowd import Crowd
from kit.load.plan import Shape
from kit.load.setup import Run
from kit.machine import need, say
from kit.report import Figure, spread


@dataclasses.dataclass
class Result:
    run: Run
    figures: list
    verdict: object


def shape_of(setup, **more):
    """The fake executor's tokens are bytes, so that the same message has five times as many."""
    arguments = setup.arguments
    bytes_too = 4 if setup.exact else 1
    return Shape(
        tenants=arguments.tenants,
        think=arguments.think,
        short_tokens=24 * bytes_too,
        long_tokens=(100 if setup.quick else 400) * bytes_too,
        session_tokens=arguments.session_tokens or setup.window * 6 // 10,
        answer_tokens=(8, 40) if setup.exact else (4, 24),
        **more,
    )


def sized(setup):
    window = setup.arguments.window
    return setup.sized(4 * window, window)


def people_of(run, crowd, shape, rate):
    """Users in a closed loop, and beside them arrivals at a rate."""
    users = run.setup.arguments.users
    steps = [run.plan.user(number, shape, crowd.phase) for number in range(users)]
    people = [crowd.user(one) for one in steps]
    if rate > 0:
        people.append(crowd.arrivals(run.plan.arrivals(rate, shape, crowd.phase)))
    return people


def p95(values):
    return numbers.percentile(values, 95)


def p95_over(values, baseline):
    return p95(values) / p95(baseline)


def first_tokens(run, *phases, kind="short"):
    found = numbers.first_ms(one for one in run.of(*phases) if one.turn.kind == kind)
    need(found, f"no {kind} turn of {', '.join(phases)} was answered: more --seconds?")
    return found


def p95_figure(name, at, goal, values, baseline, words):
    """`words`: what both are."""
    return Figure(
        name,
        at,
        p95_over(values, baseline),
        goal,
        f"p95 {p95(values):.1f} ms {words[0]} ({len(values)})",
        f"p95 {p95(baseline):.1f} ms {words[1]} ({len(baseline)})",
        {"first_ms": values, "baseline_first_ms": baseline},
        spread=spread(p95_over, values, baseline),
    )


def goodput_figure(name, at, verdict, run, phases, baseline, words):
    def rate(*names):
        right = [one for one in run.of(*names) if verdict.is_right(one)]
        seconds = sum(run.seconds.get(one, 0.0) for one in names)
        return sum(one.usage["completion_tokens"] for one in right) / seconds

    value, alone = rate(*phases), rate(*baseline)
    need(alone > 0, "nothing was answered rightly in the baseline")
    return Figure(
        name,
        at,
        value / alone,
        "",
        f"{value:.1f} right tokens/s {words[0]}",
        f"{alone:.1f} tokens/s {words[1]}",
        {"tokens_per_s": value, "baseline_tokens_per_s": alone},
    )


async def steady(setup):
    """Users in a closed loop and arrivals at a rate; the baseline is one user alone."""
    setup = sized(setup)
    seconds, rate = setup.arguments.seconds, setup.arguments.rate
    with Run(setup, "steady") as run:
        shape = shape_of(setup)
        alone = Crowd(run.target, "alone")
        say(f"steady: one user alone, {seconds / 3:.0f} s")
        lonely = dataclasses.replace(shape, think=min(shape.think, 0.1))
        await run.crowd(alone, [alone.user(run.plan.user(0, lonely, "alone"))], seconds / 3)
        crowd = Crowd(run.target, "crowd")
        say(f"steady: {setup.arguments.users} users and {rate:g} arrivals a second, {seconds:g} s")
        await run.crowd(crowd, people_of(run, crowd, shape, rate), seconds)
        verdict = run.judge()
    at = f"{setup.arguments.users} users + {rate:g}/s"
    values, baseline = first_tokens(run, "crowd"), first_tokens(run, "alone")
    words = ("in the crowd", "alone")
    return Result(
        run,
        [
            p95_figure("steady_first_token", at, "", values, baseline, words),
            goodput_figure("steady_goodput", at, verdict, run, ["crowd"], ["alone"], words),
        ],
        verdict,
    )


async def crashes(run, crowd, seconds, count):
    """kill -9 and a new start at even distances, while the crowd talks."""
    for number in range(count):
        await asyncio.sleep(seconds / (count + 1))
        say(f"mixed: kill -9 and start, {number + 1} of {count}")
        await run.crash()


async def mixed(setup):
    """The steady crowd, then the same with clients that leave in mid answer and a server that is
    killed twice; the baseline is the crowd before that.
    """
    setup.need_own("mixed")
    setup = sized(setup)
    seconds, rate = setup.arguments.seconds, setup.arguments.rate
    with Run(setup, "mixed") as run:
        calm = Crowd(run.target, "calm")
        say(f"mixed: {setup.arguments.users} users, {seconds / 2:g} s without trouble")
        await run.crowd(calm, people_of(run, calm, shape_of(setup), rate), seconds / 2)
        trouble = Crowd(run.target, "trouble")
        shape = shape_of(setup, leave_share=setup.arguments.leave)
        say(f"mixed: {seconds:g} s in which {shape.leave_share:.0%} of the answers are dropped")
        people = people_of(run, trouble, shape, rate)
        people.append(crashes(run, trouble, seconds, 2))
        await run.crowd(trouble, people, seconds)
        verdict = run.judge()
    at = f"{setup.arguments.users} users + {rate:g}/s"
    words = ("with trouble", "before")
    values, calm = first_tokens(run, "trouble"), first_tokens(run, "calm")
    back = first_tokens(run, "reconnect")
    return Result(
        run,
        [
            p95_figure("mixed_first_token", at, "", values, calm, words),
            p95_figure("mixed_reconnect", at, "", back, calm, ("after a kill", "before")),
            goodput_figure(
                "mixed_goodput", at, verdict, run, ["trouble", "reconnect"], ["calm"], words
            ),
        ],
        verdict,
    )
