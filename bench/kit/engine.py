"""Figures of the engine against plain libllama with the same context: eight streams at once, one
stream at depth, memory.
"""

import pathlib
import subprocess
import time

from kit.history import SESSION, histories
from kit.machine import median, need, say
from kit.report import Figure, over, spread
from kit.server import Server, streams
from kit.turns import raw, tokens_for

STREAMS = 8
DEPTH = 4000
STEPS = 32


def decode_rate(answers):
    """Tokens a second while all streams decode: from the last one's first token to the first
    one's last.
    """
    begin = max(answer.parts[0][0] for answer in answers)
    end = min(answer.parts[-1][0] for answer in answers)
    need(end > begin, "the streams did not run at once")
    count = sum(n for answer in answers for now, n in answer.parts if begin < now <= end)
    return count / (end - begin)


def parallel_8(setup):
    say("parallel_8")
    new = 24 if setup.quick else 128
    prompts = [tokens_for(setup, 12, i) for i in range(STREAMS)]
    lines = "".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts)
    ours, bare, same = [], [], 0
    for i in range(setup.repeat):
        # A new server each time: what earlier rounds left live would be in the way.
        with Server(setup, setup.temp / f"parallel-store-{i}") as server:
            time.sleep(0.2)
            answers = streams(server, "/completion", [raw(prompt, new) for prompt in prompts])
            ours.append(decode_rate(answers))
        result = setup.run_json(
            setup.bare, "parallel", *setup.bare_flags, "--tokens", new, stdin=lines
        )
        bare.append(result["tokens_per_s"])
        same = sum(a.last["tokens"] == b for a, b in zip(answers, result["answers"]))
        say(f"  {i + 1}/{setup.repeat}: {ours[-1]:.1f} tokens/s, bare {bare[-1]:.1f}")
    yield Figure(
        "parallel_8",
        f"{STREAMS} x {new} tokens",
        over(ours, bare),
        ">= 0.95",
        f"{median(ours):.1f} tokens/s",
        f"bare libllama loop: {median(bare):.1f} tokens/s",
        {"tokens_per_s": ours, "bare_tokens_per_s": bare, "answers_equal_to_bare": same},
        spread=spread(over, ours, bare),
    )


class BareDecode:
    """bare_llama decode, kept running: its contexts are filled to the depth once."""

    def __init__(self, setup):
        self.process = subprocess.Popen(
            [str(setup.bare), "decode", *setup.bare_flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, flash, depth, steps):
        self.process.stdin.write(f"{flash} {depth} {steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        found = line.partition('"ms_per_token":')[2].partition(",")[0]
        need(found, f"bare_llama decode said {line!r}")
        return float(found)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def decode_at_depth(setup):
    wanted = min(DEPTH, max(setup.histories)) if setup.quick else DEPTH
    history = histories(setup, [wanted])[wanted]
    say(f"decode_at_depth, {wanted} tokens")
    ours, bare = [], {"off": [], "on": []}
    process = BareDecode(setup)
    try:
        with Server(setup, history.copy(setup.temp / "store")) as server:
            depth = history.tokens
            for i in range(setup.repeat):
                answer = server.call(
                    "POST", "/completion", raw(tokens_for(setup, 16, i), STEPS + 1, SESSION)
                )
                timings = answer["timings"]
                need(timings["predicted_n"] == STEPS + 1, f"{timings}")
                # The clock of `predicted_ms` starts with the first token.
                ours.append(timings["predicted_ms"] / STEPS)
                server.wait_stored(SESSION)
                for flash, times in bare.items():
                    times.append(process.ask(flash, depth + 16, STEPS))
                depth += 16 + STEPS + 1
                say(
                    f"  {i + 1}/{setup.repeat}: {ours[-1]:.2f} ms a token; bare off "
                    f"{bare['off'][-1]:.2f}, on {bare['on'][-1]:.2f}"
                )
    finally:
        process.close()
    best = min(bare, key=lambda flash: median(bare[flash]))
    yield Figure(
        "decode_at_depth",
        f"{wanted} tokens",
        over(ours, bare[best]),
        "<= 1.05" if wanted == DEPTH else "",
        f"{median(ours):.2f} ms a token",
        f"bare libllama, flash attention {best}: {median(bare[best]):.2f} ms "
        f"(off {median(bare['off']):.2f}, on {median(bare['on']):.2f})",
        {"ms_per_token": ours, "bare_ms_per_token": bare},
        spread=spread(over, ours, bare[best]),
    )


def resident_kib(pid, path=None):
    """Of the process, or of one file mapped into it."""
    if path is None:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    total, inside = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def memory(setup):
    say("memory")
    prompt, new = (40, 8) if setup.quick else (200, 32)
    with Server(setup, setup.temp / "memory-store") as server:
        for turn in range(2):
            bodies = [
                raw(tokens_for(setup, prompt // 2, 100 * turn + i), new // 2, f"bench::memory-{i}")
                for i in range(STREAMS)
            ]
            streams(server, "/completion", bodies)
        for i in range(STREAMS):
            server.wait_stored(f"bench::memory-{i}")
        resident = resident_kib(server.pid)
        mapped = resident_kib(server.pid, setup.model)
    bare = setup.run_json(setup.bare, "memory", *setup.bare_flags, "--tokens", prompt + new)
    # Weights, KV, compute and output buffers: what libllama alone has resident after the same
    # tokens, less what it holds besides (vocabulary, code), which is ours to count.
    besides = bare["loaded_kib"] - bare["loaded_mapped_kib"]
    buffers = bare["resident_kib"] - besides
    value = (resident - mapped - (buffers - bare["mapped_kib"])) / 1024
    listed = bare["buffers_mib"]
    yield Figure(
        "memory",
        f"-c {setup.cells} -np {setup.parallel}",
        value,
        "<= 64 MiB",
        f"{resident / 1024:.0f} MiB resident",
        f"weights + KV + compute + output: {buffers / 1024:.0f} MiB resident",
        {
            "resident_kib": resident,
            "mapped_model_kib": mapped,
            "bare": bare,
            "over_bare_process_mib": (resident - bare["resident_kib"]) / 1024,
            "over_reserved_buffers_mib": resident / 1024 - sum(listed.values()),
        },
        unit="MiB",
    )
