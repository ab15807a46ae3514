"""The shortest way through the whole program with the real model: also run under the sanitizers."""

from harness import content, in_parallel


def test_smoke(new_server):
    server = new_server()
    first = server.chat("smoke", "Say hello.", 6)
    assert content(first)
    answers = in_parallel([lambda n=n: server.chat(f"smoke-{n}", f"Say {n}.", 4) for n in range(3)])
    assert all(content(answer) for answer in answers)
    stream = server.stream(
        "/v1/chat/completions",
        {
            "session_id": "smoke",
            "max_tokens": 200,
            "messages": [{"role": "user", "content": "Tell a story."}],
        },
    )
    next(iter(stream))
    stream.drop()
    server.wait_stored("smoke")
    server.kill9()
    server.start()
    third = server.chat("smoke", "And again.", 4)
    assert third["tenuto"]["kv"]["restored"] > 0, third
    assert server.get("/metrics").status == 200
    assert server.stop() == 0
    assert "Sanitizer" not in server.log, server.log
