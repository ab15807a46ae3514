"""The `openai` Python client against the server, as its users write it."""

import openai
import pytest


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_chat(client):
    answer = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Say hello."}],
        max_tokens=8,
        temperature=0,
        extra_body={"session_id": "openai::plain"},
    )
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.model_extra["tenuto"]["session"] == "openai::plain"


def test_streaming_equals_not_streaming(client):
    """The answer is no close call: on a busy machine the two prompts are cut into other steps."""
    question = {
        "model": "any",
        "temperature": 0,
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
    }
    whole = client.chat.completions.create(**question, extra_body={"session_id": "openai::whole"})
    text, finish, usage, last = "", None, None, None
    stream = client.chat.completions.create(
        **question,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"session_id": "openai::parts"}
    )
    for chunk in stream:
        last = chunk
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
        if chunk.usage:
            usage = chunk.usage
    assert text == whole.choices[0].message.content
    assert finish == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert last.model_extra["tenuto"]["session"] == "openai::parts"


def test_no_usage_unless_asked(client):
    stream = client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Hi"}], max_tokens=4, stream=True
    )
    assert all(chunk.usage is None for chunk in stream)


def test_completions_and_models(client):
    models = client.models.list().data
    assert len(models) == 1 and models[0].object == "model"
    answer = client.completions.create(
        model=models[0].id, prompt="Once upon a time", max_tokens=6, temperature=0
    )
    assert answer.object == "text_completion"
    assert answer.choices[0].text
    assert client.models.retrieve(models[0].id).id == models[0].id


def test_content_as_text_parts(client):
    parts = [{"type": "text", "text": "Say"}, {"type": "text", "text": "yes."}]
    as_parts = client.chat.completions.create(
        model="any", temperature=0, max_tokens=8, messages=[{"role": "user", "content": parts}]
    )
    as_text = client.chat.completions.create(
        model="any",
        temperature=0,
        max_tokens=8,
        messages=[{"role": "user", "content": "Say\nyes."}],
    )
    assert as_parts.choices[0].message.content == as_text.choices[0].message.content


def test_max_completion_tokens_and_stop(client):
    answer = client.chat.completions.create(
        model="any",
        temperature=0,
        max_completion_tokens=5,
        messages=[{"role": "user", "content": "Tell a story."}],
    )
    assert answer.usage.completion_tokens == 5
    assert answer.choices[0].finish_reason == "length"
    text = answer.choices[0].message.content
    word = text.split()[2]
    stopped = client.chat.completions.create(
        model="any",
        temperature=0,
        max_tokens=20,
        stop=[word],
        messages=[{"role": "user", "content": "Tell a story."}],
    )
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].message.content == text[: text.index(word)]


def test_seed(client):
    """The seed of an answer is taken and reported. Answers of equal seeds are not compared: the
    second request reuses the first one's prefix, so it is computed in other batches.
    """

    def ask(seed):
        return client.chat.completions.create(
            model="any",
            temperature=1.2,
            seed=seed,
            max_tokens=16,
            messages=[{"role": "user", "content": "Invent a name for a boat."}],
        )

    assert ask(7).model_extra["tenuto"]["seed"] == 7
    assert ask(None).model_extra["tenuto"]["seed"] != ask(None).model_extra["tenuto"]["seed"]
    assert len({ask(seed).choices[0].message.content for seed in range(1, 5)}) > 1


def test_errors_are_the_clients_own(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "x"}], n=2
        )
    assert caught.value.param == "n"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="any",
            messages=[{"role": "user", "content": "x"}],
            extra_body={"session_id": "a/b"},
        )
    assert caught.value.param == "session_id"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_key(new_server):
    server = new_server("--api-key", "secret")
    good = openai.OpenAI(base_url=server.url + "/v1", api_key="secret", max_retries=0)
    bad = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
    assert good.models.list().data
    with pytest.raises(openai.AuthenticationError):
        bad.models.list()
    assert "secret" not in server.log
