"""A client of many streams at once on asyncio's loop. While streams run it notes bytes and times
and nothing else; what they mean is read afterwards, so that the server's cores are left to it.
"""

import asyncio
import contextlib
import dataclasses
import functools
import time

from kit.machine import BenchError, say
from kit.server import Received, tokens_of

PATH = "/v1/chat/completions"
TELL_SECONDS, TELL_SECONDS_MAX = 4, 30
ANSWER_SECONDS = 3600  # of the last one of a storm that has to be computed again


@dataclasses.dataclass
class Turn:
    """One message as a user means it."""

    session: str
    text: str
    max_tokens: int
    kind: str = "short"
    phase: str = ""
    leave_after: int = 0  # the client drops the stream after so many tokens; 0: it stays
    more: dict = dataclasses.field(default_factory=dict)  # fields of the request

    def fields(self):
        """What decides the answer, beside the conversation: also what the judge asks with."""
        return {"max_tokens": self.max_tokens, "temperature": 0, "recall": "off", **self.more}

    def body(self):
        messages = [{"role": "user", "content": self.text}]
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return {"session_id": self.session, "messages": messages, **self.fields(), **options}


class Exchange(Received, asyncio.Protocol):
    """A request and the bytes that came back."""

    def __init__(self, data, leave_after):
        super().__init__()
        self.out, self.leave_after = data, leave_after
        self.transport = None
        self.seen = -1  # events with a token, more or less: the first one is the role
        self.left = self.timed_out = False
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        self.sent = time.perf_counter()
        transport.write(self.out)

    def data_received(self, data):
        self.reads.append((time.perf_counter(), data))
        self.seen += data.count(b"data: ")
        if self.leave_after and self.seen >= self.leave_after:
            self.leave()

    def connection_lost(self, exc):
        if not self.over.done():
            self.over.set_result(None)

    def leave(self):
        """Goes away in mid answer, as a browser whose tab is closed."""
        if not self.over.done():
            self.left = True
            self.transport.abort()


class Outcome:
    """What came of a turn. `end` is done, left (by the client), refused (a status that is not 200),
    failed (an error within the stream), or broken (cut, or never connected).
    """

    def __init__(self, turn, exchange):
        self.turn, self.exchange = turn, exchange
        self.sent = exchange.sent
        self.status, self.headers = exchange.head()

    @property
    def key(self):
        return self.turn.session, self.turn.text

    @functools.cached_property
    def events(self):
        if self.status != 200:
            return []
        return self.exchange.events(whole=False)

    @property
    def objects(self):
        return [event for _, event in self.events if event != "[DONE]"]

    @functools.cached_property
    def error(self):
        """The error's code, or what the client saw instead of an answer."""
        if self.exchange.timed_out:
            return "timeout"
        if self.status == 0:
            return "" if self.exchange.left else "no answer"
        if self.status != 200:
            return str(self.status)
        codes = [one["error"].get("code") for one in self.objects if "error" in one]
        return f"in stream: {codes[0]}" if codes else ""

    @functools.cached_property
    def end(self):
        if self.status not in (0, 200):
            return "refused"
        if self.error and self.status:
            return "failed"
        if self.events and self.events[-1][1] == "[DONE]":
            return "done"
        return "left" if self.exchange.left else "broken"

    @functools.cached_property
    def text(self):
        deltas = ((one.get("choices") or [{}])[0].get("delta") or {} for one in self.objects)
        return "".join(delta.get("content") or "" for delta in deltas)

    @functools.cached_property
    def parts(self):
        """When tokens came, in seconds."""
        return [now for now, event in self.events if tokens_of(event)]

    @property
    def first_ms(self):
        """None where no token came."""
        return (self.parts[0] - self.sent) * 1e3 if self.parts else None

    @property
    def gaps_ms(self):
        return [(b - a) * 1e3 for a, b in zip(self.parts, self.parts[1:])]

    @property
    def finish(self):
        reasons = [(one.get("choices") or [{}])[0].get("finish_reason") for one in self.objects]
        return next(filter(None, reasons), None)

    @functools.cached_property
    def usage(self):
        return next((one["usage"] for one in self.objects if one.get("usage")), {})

    @functools.cached_property
    def tenuto(self):
        return next((one["tenuto"] for one in self.objects if "tenuto" in one), {})

    @property
    def ended(self):
        return self.exchange.reads[-1][0] if self.exchange.reads else self.sent

    @property
    def retry_after(self):
        """Seconds that a refusal asks to wait."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdigit() else 0.5


class Target:
    """Where requests go now. A server may die and come back at another port: `up` says that there
    is one, `back` that one has come back just now.
    """

    def __init__(self, server):
        self.server = server
        self.up, self.back = asyncio.Event(), asyncio.Event()
        self.up.set()

    async def crash(self, next_server, between=None):
        """kill -9, a new start over the same store, and everybody is told at the same moment."""
        self.up.clear()
        await asyncio.to_thread(self.server.kill9)
        if between:
            between()
        await asyncio.to_thread(next_server.__enter__)
        self.server = next_server
        self.up.set()
        self.back.set()
        self.back.clear()  # those who waited are on their way


async def start(target, turn):
    """Sends it; (exchange, a future of its end)."""
    server = target.server
    exchange = Exchange(server.bytes_of(PATH, turn.body()), turn.leave_after)
    exchange.sent = time.perf_counter()
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: exchange, server.host, server.port)
    except OSError:
        exchange.over.set_result(None)
    return exchange


async def finish(turn, exchange):
    try:
        await asyncio.wait_for(asyncio.shield(exchange.over), ANSWER_SECONDS)
    except asyncio.TimeoutError:
        exchange.timed_out = True
        exchange.transport.abort()
    return Outcome(turn, exchange)


async def ask(target, turn):
    return await finish(turn, await start(target, turn))


@contextlib.asynccontextmanager
async def told(what):
    """Says what() now and then, so that a long wait is seen to go on."""

    async def tell():
        pause = TELL_SECONDS
        while True:
            await asyncio.sleep(pause)
            say(f"  {what()}")
            pause = min(pause * 1.5, TELL_SECONDS_MAX)

    teller = asyncio.ensure_future(tell())
    try:
        yield
    finally:
        teller.cancel()


async def ask_at_once(target, turns):
    exchanges = await asyncio.gather(*(start(target, turn) for turn in turns))

    def state():
        begun = sum(one.seen > 0 for one in exchanges)
        ended = sum(one.over.done() for one in exchanges)
        return f"of {len(turns)} answers {begun} have begun, {ended} have ended"

    async with told(state):
        return await asyncio.gather(*map(finish, turns, exchanges))


def need_done(outcomes):
    """Of a scenario whose figure needs every answer."""
    for outcome in outcomes:
        if outcome.end != "done":
            said = outcome.exchange.body(whole=False)[-1:]
            raise BenchError(
                f"a turn of {outcome.turn.session} ended as {outcome.end} {outcome.error}: {said}"
            )
    return outcomes
