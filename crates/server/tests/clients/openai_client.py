"""OpenAI's own client for Python: `python openai_client.py URL`. Prints what it was answered, as one JSON object."""

import json
import sys

import openai

url = sys.argv[1]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=2)


def user(content):
    return [{"role": "user", "content": content}]


def failure(work):
    try:
        work()
    except openai.APIError as error:
        status = getattr(error, "status_code", None)
        return {"name": type(error).__name__, "status": status, "code": error.code, "param": error.param}
    return None


def create(content, **more):
    return client.chat.completions.create(**{"model": "scripted", "messages": user(content), **more})


def drain(stream):
    return "".join(it.choices[0].delta.content or "" for it in stream if it.choices)


told = {"models": [it.id for it in client.models.list()]}
told["whole"] = create("say one two").model_dump()
with client.chat.completions.stream(
    model="scripted", messages=user("look"), stream_options={"include_usage": True}
) as stream:
    told["text"] = "".join(it.delta for it in stream if it.type == "content.delta")
    told["streamed"] = stream.get_final_completion().model_dump()

tool = {
    "type": "function",
    "function": {
        "name": "send",
        "description": "",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
    },
}
called = create("send", tools=[tool]).choices[0]
told["called"] = called.model_dump()
answer = {"role": "tool", "tool_call_id": called.message.tool_calls[0].id, "content": "sent a"}
messages = [*user("send"), called.message, answer]
told["ran"] = create("send", tools=[tool], messages=messages).choices[0].message.content

session = {"extra_headers": {"X-Session-ID": "python"}}
told["first"] = create("say a", **session).model_dump()
told["second"] = drain(create("act", stream=True, **session))
told["waiting"] = create("send", **session).model_dump()
told["suspended"] = failure(lambda: create("say b", **session))
told["errors"] = {
    "retryable": failure(lambda: create("fail retryable")),
    "halfway": failure(lambda: drain(create("fail halfway", stream=True))),
    "model": failure(lambda: create("a", model="gpt-9")),
    "n": failure(lambda: create("a", n=2)),
}
print(json.dumps(told))
