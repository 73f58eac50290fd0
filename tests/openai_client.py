"""The openai client against the gateway in front of simulated engines. Ends with the counts of what passed and failed."""

import contextlib
import socket
import subprocess
import sys
import time
import traceback
import urllib.request

import openai


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.05)
    raise SystemExit(f"{what} within {seconds} s")


def status(url):
    with urllib.request.urlopen(url, timeout=2) as answer:
        return answer.status


def chat(client):
    answer = client.chat.completions.create(
        model="sim-model",
        messages=[{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Say something."}],
        max_tokens=8,
    )
    assert answer.choices[0].message.content, answer
    assert answer.usage.completion_tokens == 8, answer.usage


def streaming_chat_with_usage(client):
    stream = client.chat.completions.create(
        model="sim-model",
        messages=[{"role": "user", "content": "Count."}],
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    assert len(text) == 8, text
    assert chunks[-1].usage.completion_tokens == 8, chunks[-1]


def a_repeated_prompt_is_cached(client):
    content = "The same long prompt. " * 400
    usages = [
        client.chat.completions.create(
            model="sim-model", messages=[{"role": "user", "content": content}], max_tokens=2
        ).usage
        for _ in range(2)
    ]
    cached = [usage.prompt_tokens_details.cached_tokens for usage in usages]
    assert cached[0] == 0 and cached[1] > usages[1].prompt_tokens * 0.9, cached


def completions(client):
    answer = client.completions.create(model="sim-model", prompt="Once upon a time", max_tokens=4)
    assert answer.choices[0].text, answer


def models(client):
    assert [model.id for model in client.models.list()] == ["sim-model"]


def an_unknown_model_is_not_found(client):
    try:
        client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("no error")


CHECKS = [chat, streaming_chat_with_usage, a_repeated_prompt_is_cached, completions, models, an_unknown_model_is_not_found]


def main(binary):
    ports = [free_port() for _ in range(4)]
    *engines, gateway, admin = ports
    with contextlib.ExitStack() as stack:
        def start(*arguments):
            process = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        for port in engines:
            start("sim", "--listen", f"127.0.0.1:{port}")
            wait_until(lambda: status(f"http://127.0.0.1:{port}/health") == 200, f"engine on {port} did not start")
        pods = [word for port in engines for word in ("--pod", f"http://127.0.0.1:{port}")]
        start("serve", *pods, "--listen", f"127.0.0.1:{gateway}", "--admin", f"127.0.0.1:{admin}")
        wait_until(lambda: status(f"http://127.0.0.1:{admin}/readyz") == 200, "the gateway did not get ready")
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{gateway}/v1", api_key="unused", max_retries=0)
        failed = 0
        for check in CHECKS:
            try:
                check(client)
            except Exception:
                failed += 1
                print(f"FAILED {check.__name__}", file=sys.stderr)
                traceback.print_exc()
        print(f"openai client: {len(CHECKS) - failed} passed, {failed} failed")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
