"""Users who talk to a server: in a closed loop each waits for his answer, thinks and goes on; in an
open loop turns arrive whether earlier ones are answered or not.
"""

import asyncio
import contextlib
import itertools

from kit.load.client import finish, start, told

RETRY_SECONDS_MAX = 5.0


class Crowd:
    def __init__(self, target, phase):
        self.target, self.phase = target, phase
        self.outcomes = []
        self.under_way = set()
        self.ending = asyncio.Event()
        self.begun = self.ended = asyncio.get_running_loop().time()

    async def turn(self, turn, phase=""):
        if not self.target.up.is_set():
            await self.target.up.wait()
            phase = "reconnect"
        turn.phase = phase or self.phase
        exchange = await start(self.target, turn)
        self.under_way.add(exchange)
        outcome = await finish(turn, exchange)
        self.under_way.discard(exchange)
        self.outcomes.append(outcome)
        return outcome

    async def pause(self, seconds):
        """True where it was cut short: the server came back, or all is over."""
        waits = [
            asyncio.ensure_future(event.wait()) for event in (self.target.back, self.ending)
        ]
        done, rest = await asyncio.wait(
            waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for one in rest:
            one.cancel()
        return bool(done)

    async def user(self, steps, turns=None):
        """`steps`: (seconds to think, Turn), of which `turns` are asked, or as many as come until
        the end.
        """
        phase = ""
        for think, turn in itertools.islice(steps, turns):
            if await self.pause(think):
                phase = "reconnect"
            if self.ending.is_set():
                return
            outcome = await self.turn(turn, phase)
            phase = ""
            if outcome.end == "refused":
                await self.pause(min(outcome.retry_after, RETRY_SECONDS_MAX))
            elif outcome.end == "broken":
                phase = "reconnect"  # turn() waits until there is a server again

    async def arrivals(self, steps):
        tasks = set()
        for pause, turn in steps:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.ending.wait(), pause)
            if self.ending.is_set():
                break
            tasks.add(asyncio.ensure_future(self.turn(turn)))
        await asyncio.gather(*tasks)

    def end(self, leave=False):
        """Nobody begins another turn; with `leave` those under way are dropped too."""
        self.ending.set()
        if leave:
            for exchange in list(self.under_way):
                exchange.leave()

    async def run(self, people, seconds=None):
        """All of them until the end, or for so long; what is under way then is waited for."""
        loop = asyncio.get_running_loop()
        self.begun = loop.time()
        if seconds is not None:
            loop.call_later(seconds, self.end)
        async with told(self.state):
            await asyncio.gather(*people)
        self.ended = loop.time()
        return self.outcomes

    def state(self):
        return f"{self.phase}: {len(self.outcomes)} turns, {len(self.under_way)} more under way"

    @property
    def seconds(self):
        return self.ended - self.begun
