"""The server of a run, started here or running already, and what has to be known of it."""

import contextlib
import copy
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import time
import urllib.parse

from kit.load.client import Target
from kit.load.judge import Witness, judge
from kit.load.plan import Plan, Texts
from kit.machine import need, say
from kit.server import Http, Server
from kit.story import THINGS


class Setup:
    """Settings of a run. `exact`: the answers are the fake executor's."""

    def __init__(self, arguments):
        self.tenuto = pathlib.Path(arguments.binary).resolve()
        self.model = pathlib.Path(arguments.model).resolve() if arguments.model else None
        self.arguments, self.quick, self.repeat = arguments, arguments.quick, arguments.repeat
        self.seed, self.out = arguments.seed, arguments.out.resolve()
        self.remote = remote(arguments.url, arguments.api_key) if arguments.url else None
        self.exact = self.model is None
        self.more_flags, self.serve_flags = arguments.serve_flags.split(), []
        self.cells, self.window, self.fields = 0, 0, {}
        self.tokens_per_word, self.name, self.fingerprint, self.log_format = 1.0, "", "", 0
        # Beside the results: a disk, which a folder for temporary files need not be.
        self.out.mkdir(parents=True, exist_ok=True)
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="tmp-load-", dir=self.out))

    def open(self):
        """Starts the server once, so that what is wrong is said before anything is measured."""
        if not self.remote:
            need(
                self.tenuto.is_file(),
                f"{self.tenuto} is missing: build it (scripts/quickstart --no-start, or cmake "
                "--build), or name another with --binary",
            )
            need(
                self.model is None or self.model.is_file(),
                f"{self.model} is missing: scripts/quickstart --no-start fetches the small one",
            )
        with self.sized(4096, 2048).server("probe") as server:
            need(server.healthy(), f"nothing answers at http://{server.host}:{server.port}/health")
            model = server.call("GET", "/v1/models")["data"][0]
            sample = " ".join(THINGS)
            self.name, self.fingerprint = model["id"], model["meta"]["fingerprint"]
            self.tokens_per_word = len(server.tokenize(sample)) / len(THINGS)
            # A toy of one parameter: the fake executor.
            self.exact = model["meta"]["n_params"] == 1
            self.window = model["meta"]["n_ctx"]
            if self.exact:
                # Its tokens are bytes. An answer that ends with half a character could not be sent
                # to the plain server as text, so none begins one.
                self.fields = {"logit_bias": {str(server.tokenize("\u00e9")[0]): -100}}
        if not self.remote:
            log = sqlite3.connect(self.temp / "probe/log.db")
            self.log_format = log.execute("PRAGMA user_version").fetchone()[0]
            log.close()
            shutil.rmtree(self.temp / "probe")

    def close(self):
        shutil.rmtree(self.temp, ignore_errors=True)

    def sized(self, cells, window, *flags):
        """The same with so many KV cells and such a window, where the server is ours."""
        other = copy.copy(self)
        if not self.remote:
            other.cells, other.window = cells, window
            size = ("-c", str(cells), "--window", str(window))
            other.serve_flags = [*size, *flags, *self.more_flags]
        return other

    def server(self, store):
        """A context manager: the server over that store, or the one that runs anyway."""
        if self.remote:
            return contextlib.nullcontext(self.remote)
        return Server(self, self.temp / store)

    def need_own(self, scenario):
        need(
            not self.remote,
            f"{scenario} ends the server with kill -9 and starts it again: not with --url",
        )

    def goal(self, text, full=True):
        """The goals are a model's, at full size; the fake executor takes no time."""
        return text if full and not self.exact else ""

    def version(self):
        if self.remote:
            return [f"{self.name} at {self.remote.host}:{self.remote.port}"]
        done = subprocess.run(
            [str(self.tenuto), "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        return [*done.stdout.split("\n")[:1], self.name]


def remote(url, api_key):
    parts = urllib.parse.urlsplit(url if "//" in url else f"//{url}")
    need(
        parts.scheme in ("", "http") and parts.hostname and parts.path in ("", "/"),
        f"--url {url}: wanted is http://HOST:PORT",
    )
    return Http(parts.hostname, parts.port or 80, api_key)


class Run:
    """One scenario under way: a server, who talks to it, and what came of it."""

    def __init__(self, setup, name, store=None):
        self.setup, self.name = setup, name
        self.store = store or f"{name}-store"
        # Sessions of an earlier run on the same server would be in the way.
        unique = f"{name}{time.time_ns():x}" if setup.remote else name
        self.plan = Plan(setup.seed, Texts(setup.tokens_per_word), unique, setup.fields)
        self.outcomes, self.seconds = [], {}
        self.before = {}  # sessions' turns that were imported
        self.stack = contextlib.ExitStack()
        self.target = None

    def __enter__(self):
        self.stack.__enter__()
        self.target = Target(self.stack.enter_context(self.setup.server(self.store)))
        return self

    def __exit__(self, *details):
        if self.setup.remote and not self.setup.arguments.keep:
            for session in {outcome.turn.session for outcome in self.outcomes}:
                self.setup.remote.request("DELETE", f"/v1/sessions/{session}")
        return self.stack.__exit__(*details)

    async def crash(self, between=None):
        await self.target.crash(self.again(), between)

    def again(self):
        """The next server over the same store; it ends with the run."""
        server = Server(self.setup, self.setup.temp / self.store)
        self.stack.callback(server.kill9)
        return server

    async def crowd(self, crowd, people, seconds=None):
        """Runs it and keeps what it did under the crowd's phase."""
        self.outcomes += await crowd.run(people, seconds)
        self.seconds[crowd.phase] = self.seconds.get(crowd.phase, 0.0) + crowd.seconds
        return crowd.outcomes

    def of(self, *phases):
        return [outcome for outcome in self.outcomes if outcome.turn.phase in phases]

    @contextlib.contextmanager
    def witness(self):
        """What the server and, where answers can be told exactly, a plain one have to say."""
        with contextlib.ExitStack() as stack:
            plain = None
            if self.setup.exact:
                # Its window is cut later, so that all that a session's window held fits.
                setup = self.setup
                alone = setup.sized(setup.cells, setup.window, "--window-high", "100")
                plain = stack.enter_context(alone.server(f"{self.name}-plain"))
            yield Witness(self.target.server, plain)

    def judge(self):
        say(f"{self.name}: checking {len(self.outcomes)} answers")
        with self.witness() as witness:
            words, most = self.plan.words.of_number, self.setup.arguments.check
            return judge(witness, self.outcomes, words, self.before, most)
