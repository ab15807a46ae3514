"""The programs a benchmark runs, the folders it uses, and what machine this is."""

import json
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
OUT = ROOT / "bench/out"


class BenchError(Exception):
    """A measurement that would not mean what its name says."""


def say(text):
    """Progress, on standard error: standard output is the table."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def need(condition, what):
    if not condition:
        raise BenchError(what)


def median(values):
    return statistics.median(values)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe():
    """Facts without which no figure can be compared with another."""
    memory = pathlib.Path("/proc/meminfo").read_text().split()[1]
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory) // 1024,
        "kernel": platform.release(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


class Setup:
    """What is measured with what, the same for every figure of a run."""

    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build_dir).resolve()
        self.model = pathlib.Path(arguments.model).resolve()
        self.repeat = arguments.repeat
        self.histories = arguments.history
        self.quick = arguments.quick
        self.fresh = arguments.fresh
        self.threads = arguments.threads or len(os.sched_getaffinity(0))
        self.flash = arguments.flash
        self.out = pathlib.Path(arguments.out).resolve()
        self.cache = self.out / "cache"
        self.temp = self.out / f"tmp-{os.getpid()}"
        self.cells, self.parallel, self.ubatch = 8192, 8, 512
        self.facts = {}

    def open(self):
        for program in (self.tenuto, self.bare, self.copy):
            need(program.is_file(), f"{program} is missing: build it (docs/benchmarks.md)")
        need(self.model.is_file(), f"{self.model} is missing: scripts/quickstart --no-start")
        self.cache.mkdir(parents=True, exist_ok=True)
        self.temp.mkdir()
        self.facts = self.run_json(self.bare, "facts", "-m", self.model)

    def close(self):
        shutil.rmtree(self.temp, ignore_errors=True)

    @property
    def tenuto(self):
        return self.build / "tenuto"

    @property
    def bare(self):
        return self.build / "bench/bare_llama"

    @property
    def copy(self):
        return self.build / "bench/copy_bench"

    @property
    def serve_flags(self):
        return [
            *("-c", str(self.cells), "--window", str(self.cells), "-np", str(self.parallel)),
            *("-ub", str(self.ubatch), "-t", str(self.threads), "-fa", self.flash),
            *("--window-high", "100"),  # the longest history is not to be cut
        ]

    @property
    def bare_flags(self):
        """The context that serve_flags make: apps/tenuto/model.cc and the executor's open.cc."""
        sequences = self.parallel + 24 + 1
        return [
            *("-m", str(self.model), "-c", str(self.cells), "-t", str(self.threads)),
            *("--batch", str(max(self.ubatch, self.parallel)), "--ubatch", str(self.ubatch)),
            *("--sequences", str(sequences), "--outputs", str(max(self.parallel, sequences))),
            *("--fa", "on" if self.flash == "on" else "off"),
        ]

    @property
    def kv_bytes_per_token(self):
        return self.facts["kv_bytes_per_token"]

    def run_json(self, program, *arguments, stdin="", timeout=900):
        """Runs one of our programs to its end; the last line of its output is JSON."""
        done = subprocess.run(
            [str(program), *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        need(done.returncode == 0, f"{program} {arguments[0]} failed: {done.stderr[-400:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def memcpy_ms(self, size, repeat=7):
        return self.run_json(self.copy, "memcpy", int(size), repeat)["ms"]

    def version(self):
        done = subprocess.run(
            [str(self.tenuto), "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout.split("\n")[:2]
