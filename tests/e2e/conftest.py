"""Fixtures: servers with a store of their own, ended with the test that asked for them."""

import itertools

import pytest

from harness import MODEL, Server


@pytest.fixture(scope="session", autouse=True)
def model_is_there():
    assert MODEL.exists(), f"{MODEL} is missing: run scripts/quickstart --no-start"


@pytest.fixture
def new_server(tmp_path):
    """new_server(flags..., store=, start=True, ...): as many servers as a test wants."""
    servers = []
    numbers = itertools.count()

    def make(*flags, store=None, start=True, **options):
        number = next(numbers)
        server = Server(
            store or tmp_path / f"store-{number}", tmp_path / f"log-{number}", flags, **options
        )
        servers.append(server)
        return server.start() if start else server

    yield make
    for server in servers:
        if server.process is not None:
            server.kill9()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests of a file; they use sessions of their own."""
    folder = tmp_path_factory.mktemp("shared")
    shared = Server(folder / "store", folder / "log").start()
    yield shared
    if shared.process is not None:
        shared.kill9()
