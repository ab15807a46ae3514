"""HTTP that means one thing to us and another to a proxy in front of us is refused, and nothing
behind it is read.
"""

import json
import socket

import pytest

BODY = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}).encode()
SMUGGLED = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"2\r\n{}\r\n0\r\n\r\n"


def post(*lines, body=BODY, length=True, host=b"Host: localhost"):
    head = [b"POST /v1/chat/completions HTTP/1.1"]
    if host:
        head.append(host)
    head.append(b"Content-Type: application/json")
    if length:
        head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*head, *lines]) + b"\r\n\r\n" + body


CASES = {
    "unknown transfer coding": post(b"Transfer-Encoding: xchunked", body=CHUNKED, length=False),
    "two transfer codings": post(
        b"Transfer-Encoding: chunked, identity", body=CHUNKED, length=False
    ),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked", body=CHUNKED, length=False),
    "transfer coding twice": post(
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=CHUNKED, length=False
    ),
    "length and chunked": post(b"Transfer-Encoding: chunked"),
    "two hosts": post(b"Host: other"),
    "no host": post(host=None),
    "host with a slash": post(host=b"Host: localhost/x"),
    "host with a question mark": post(host=b"Host: localhost?x"),
    "folded header": post(b"X-A: one\r\n two"),
    "length list": post(b"Content-Length: 2, 2", body=b"{}", length=False),
    "length twice": post(b"Content-Length: %d" % len(BODY)),
    "lengths that differ": post(b"Content-Length: 1"),
    "negative length": post(b"Content-Length: -1", length=False),
    "length with a plus": post(b"Content-Length: +2", body=b"{}", length=False),
    "space before the colon": post(b"X-A : one"),
    "bare line feed": post(b"X-A: one\nX-B: two"),
    "NUL in a header": post(b"X-A: o\0ne"),
    "300 headers": post(*[b"X-%d: y" % n for n in range(300)]),
    "a header of 100 KB": post(b"X-A: " + b"y" * 100_000),
    "bad chunk size": post(
        b"Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n", length=False
    ),
    "chunk size of 20 digits": post(
        b"Transfer-Encoding: chunked", body=b"11111111111111111111\r\n{}\r\n0\r\n\r\n", length=False
    ),
    "HTTP/1.2": SMUGGLED.replace(b"1.1", b"1.2"),
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n",
    "control byte in the path": b"GET /hea\x01lth HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def talk(server, data, timeout=10, end=True):
    """Sends bytes as they are, and the end of sending unless told otherwise (which to the server is
    a client that left); returns all that comes back until the server closes.
    """
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as s:
        try:
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused before all was sent
        received = b""
        try:
            while chunk := s.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass
        return received


@pytest.mark.parametrize("name", CASES)
def test_refused_and_nothing_behind_it_is_answered(server, name):
    received = talk(server, CASES[name] + SMUGGLED)
    assert (b"\r\n" + received).count(b"\r\nHTTP/1.1 ") <= 1, received
    if received:
        status = int(received.split(b" ", 2)[1])
        assert 400 <= status < 500 or status == 505, received
    else:
        assert name in ("not HTTP", "a header of 100 KB"), "closed without a word"
    assert server.alive()


def test_the_same_request_well_formed_is_answered(server):
    """Proves that the refusals above are not for another reason."""
    last = SMUGGLED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    received = talk(server, post() + last, timeout=60, end=False)
    assert received.count(b"HTTP/1.1 200") == 2, received
    chunked = post(
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        length=False,
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    )
    assert talk(server, chunked, timeout=60, end=False).startswith(b"HTTP/1.1 200")


def test_half_a_request_then_silence(server):
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: loc")
        assert server.alive()
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(post()[:-10])
        assert server.alive()
    assert server.alive()


def test_body_over_the_limit(server):
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    received = talk(server, head % (1 << 40))
    assert received.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), received
    assert server.alive()


def test_expect_100_continue(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        request = post(b"Expect: 100-continue", b"Connection: close")
        head, _, body = request.partition(b"\r\n\r\n")
        s.sendall(head + b"\r\n\r\n")
        first = s.recv(4096)
        if first.startswith(b"HTTP/1.1 100"):
            s.sendall(body)
            first = b""
            while chunk := s.recv(65536):
                first += chunk
            assert first.startswith(b"HTTP/1.1 200"), first
        else:
            assert first.startswith(b"HTTP/1.1 4"), first
