"""Figures of a restart: how long the first token takes when the KV comes back from disk, and when
it has to be computed again.
"""

import time

from kit.history import SESSION, TURN_TOKENS, histories, kv_files, store_files
from kit.machine import median, need, say
from kit.report import Figure, over, spread
from kit.server import Server, stream

WARM_TURNS = 3  # after each restored one
PAUSE_SECONDS = 0.2  # before every turn, so that all find the server as idle
RECOMPUTE_GOALS = {1000: 90, 4000: 200, 7600: 350}


def check_turn(answer, history_tokens, restored):
    kv = answer.kv
    new = kv["reused"] + kv["restored"] + kv["recomputed"] - history_tokens
    need(new == TURN_TOKENS, f"a turn had {new} new tokens, not {TURN_TOKENS}: {kv}")
    need(
        kv["restored"] == restored,
        f"{kv['restored']} tokens were restored, not {restored}: {kv}; "
        "a history of an older build? --fresh makes it anew",
    )


def first_turn(server, history, restored):
    answer = stream(server, "/v1/chat/completions", history.turn())
    check_turn(answer, history.tokens, restored)
    return answer


def run_warm(setup, history, repeat):
    """Rounds of: copy, page cache filled, start, restored turn, warm turns, kill -9."""
    rounds = []
    size = (history.tokens - 1) * setup.kv_bytes_per_token
    for i in range(repeat):
        store = history.copy(setup.temp / "store")
        setup.run_json(setup.copy, "warm", *store_files(store))
        memcpy_ms = setup.memcpy_ms(size)
        with Server(setup, store) as server:
            time.sleep(PAUSE_SECONDS)
            restored = first_turn(server, history, history.tokens - 1)
            warm = []
            for _ in range(WARM_TURNS):
                tokens = server.wait_stored(SESSION)["tokens"]
                time.sleep(PAUSE_SECONDS)
                answer = stream(server, "/v1/chat/completions", history.turn())
                check_turn(answer, tokens, 0)
                warm.append(answer)
            server.wait_stored(SESSION)
        rounds.append(
            {
                "restored_ms": restored.first_ms,
                "warm_ms": [answer.first_ms for answer in warm],
                "memcpy_ms": memcpy_ms,
                "server_ms": restored.last["tenuto"]["timing_ms"],
                "server_warm_ms": [answer.last["tenuto"]["timing_ms"] for answer in warm],
            }
        )
        say(
            f"  {i + 1}/{repeat}: restored {restored.first_ms:.1f} ms, warm "
            f"{median(rounds[-1]['warm_ms']):.1f}, memcpy {memcpy_ms:.1f}"
        )
    return rounds


def run_cold(setup, history, repeat):
    """The same with the store's files out of the page cache; the baseline is one raw read of the
    KV files, made cold in the same way just before. None where the cache can't be emptied.
    """
    rounds = []
    for i in range(repeat):
        store = history.copy(setup.temp / "store")
        with Server(setup, store) as server:
            time.sleep(PAUSE_SECONDS)
            setup.run_json(setup.copy, "evict", *store_files(store))
            raw = setup.run_json(setup.copy, "read", *kv_files(store))
            setup.run_json(setup.copy, "evict", *store_files(store))
            left = setup.run_json(setup.copy, "evict", *kv_files(store))["resident_after"]
            if raw["resident_before"] > 0.01 or left > 0.01:
                say(f"  the page cache keeps {left:.0%} of the KV files: no cold figure")
                return None
            answer = first_turn(server, history, history.tokens - 1)
            server.wait_stored(SESSION)
        rounds.append(
            {
                "cold_ms": answer.first_ms,
                "read_ms": raw["ms"],
                "server_ms": answer.last["tenuto"]["timing_ms"],
            }
        )
        say(f"  {i + 1}/{repeat}: cold {answer.first_ms:.1f} ms, raw read {raw['ms']:.1f}")
    return rounds


def excess_over(slow, fast, unit):
    return (median(slow) - median(fast)) / median(unit)


def restored_first_token(setup):
    for tokens, history in histories(setup, setup.histories).items():
        say(f"restored_first_token at {tokens} tokens")
        rounds = run_warm(setup, history, setup.repeat)
        times = (
            [r["restored_ms"] for r in rounds],
            [ms for r in rounds for ms in r["warm_ms"]],
            [r["memcpy_ms"] for r in rounds],
        )
        restored, warm, memcpy = map(median, times)
        size = (history.tokens - 1) * setup.kv_bytes_per_token
        detail = {
            "tokens": history.tokens,
            "kv_bytes": size,
            "kv_bytes_stored": history.stored_bytes,
            "restored_ms": restored,
            "warm_ms": warm,
            "memcpy_ms": memcpy,
            "server_restore_ms": median([r["server_ms"]["restore"] for r in rounds]),
            "server_prefill_ms": median([r["server_ms"]["prefill"] for r in rounds]),
            "server_warm_prefill_ms": median(
                [t["prefill"] for r in rounds for t in r["server_warm_ms"]]
            ),
            "rounds": rounds,
        }
        yield Figure(
            "restored_first_token",
            f"{tokens} tokens",
            excess_over(*times),
            "<= 2.0",
            f"restored {restored:.1f} ms - warm {warm:.1f} ms",
            f"memcpy of {size / 1e6:.1f} MB: {memcpy:.2f} ms",
            detail,
            spread=spread(excess_over, *times),
        )
        say(f"restored_first_token, cold, at {tokens} tokens")
        cold_rounds = run_cold(setup, history, max(1, setup.repeat // 2))
        if cold_rounds is None:
            continue
        times = (
            [r["cold_ms"] for r in cold_rounds],
            times[1],
            [r["read_ms"] for r in cold_rounds],
        )
        cold, warm, read = map(median, times)
        yield Figure(
            "restored_first_token_cold",
            f"{tokens} tokens",
            excess_over(*times),
            "<= 1.3",
            f"cold {cold:.1f} ms - warm {warm:.1f} ms",
            f"one raw read of the files: {read:.1f} ms",
            {"tokens": history.tokens, "cold_ms": cold, "read_ms": read, "rounds": cold_rounds},
            spread=spread(excess_over, *times),
        )


def recompute_over_restored(setup):
    for tokens, history in histories(setup, setup.histories).items():
        say(f"recompute_over_restored at {tokens} tokens")
        recomputed, restored, warm = [], [], []
        for _ in range(1 if tokens > 2000 or setup.repeat < 3 else 3):
            store = history.copy(setup.temp / "store")
            with Server(setup, store) as server:
                time.sleep(PAUSE_SECONDS)
                restored.append(first_turn(server, history, history.tokens - 1).first_ms)
                server.wait_stored(SESSION)
                time.sleep(PAUSE_SECONDS)
                warm.append(stream(server, "/v1/chat/completions", history.turn()).first_ms)
            store = history.copy(setup.temp / "store")
            for path in kv_files(store):
                path.unlink()
            with Server(setup, store) as server:
                time.sleep(PAUSE_SECONDS)
                recomputed.append(first_turn(server, history, 0).first_ms)
            say(f"  recomputed {recomputed[-1] / 1e3:.2f} s, restored {restored[-1]:.1f} ms")
        goal = RECOMPUTE_GOALS.get(tokens)
        yield Figure(
            "recompute_over_restored",
            f"{tokens} tokens",
            over(recomputed, restored),
            f">= {goal}" if goal else "",
            f"recomputed {median(recomputed) / 1e3:.2f} s",
            f"restored {median(restored):.1f} ms; a restore in no time, the warm turn: "
            f"{median(warm):.1f} ms, {over(recomputed, warm):.0f} times",
            {
                "tokens": history.tokens,
                "recomputed_ms": median(recomputed),
                "restored_ms": median(restored),
                "warm_ms": median(warm),
                "recomputed_rounds_ms": recomputed,
                "restored_rounds_ms": restored,
                "warm_rounds_ms": warm,
            },
            spread=spread(over, recomputed, restored),
        )
