"""Decodes streams with the vendors' own SDKs, for the test that compares them with ours.

Reads one JSON object a line, {"wire": ..., "url": ...}, where the URL is the base address of a server that answers every
request with one stream. Writes one JSON object a line: what the SDK made of it in the words of llm-provider §6, or
{"error": CLASS} when the SDK raised one of its own errors. Anything else that goes wrong ends the program.
"""

import base64
import json
import sys

import anthropic
import openai
from google import genai
from google.genai import errors as gemini_errors
from google.genai import types as gemini

ASKED = "What is it?"
LIMIT = 1024


def schema(name):
    return {"type": "object", "properties": {}, "title": name}


TOOLS = ("weather", "clock", "calendar")

# How each vendor says why the model stopped, from their references; in the words of llm-provider §6.
OPENAI_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter"}
ANTHROPIC_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
GEMINI_FINISH = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}


def ask_openai(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    tools = [{"type": "function", "function": {"name": it, "parameters": schema(it)}} for it in TOOLS]
    with client.chat.completions.stream(
        model="any",
        messages=[{"role": "user", "content": ASKED}],
        tools=tools,
        stream_options={"include_usage": True},
    ) as stream:
        # Not the final completion: an answer that the token budget cut is no answer to that helper.
        whole = stream.until_done().current_completion_snapshot
    choice = whole.choices[0]
    message = choice.message
    blocks = []
    # Not of OpenAI: what its compatible servers send as an extra, kept by the SDK as such.
    thought = (message.model_extra or {}).get("reasoning_content")
    if thought:
        blocks.append({"type": "thinking", "text": thought})
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    calls = [
        {"id": it.id, "name": it.function.name, "arguments": json.loads(it.function.arguments)}
        for it in message.tool_calls or []
    ]
    usage = whole.usage
    details = usage.prompt_tokens_details
    counts = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    return answer(blocks, calls, OPENAI_FINISH[choice.finish_reason], counts, details and details.cached_tokens)


def ask_anthropic(url):
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    with client.messages.stream(
        model="any",
        max_tokens=LIMIT,
        messages=[{"role": "user", "content": ASKED}],
        tools=[{"name": it, "input_schema": schema(it)} for it in TOOLS],
    ) as stream:
        whole = stream.get_final_message()
    blocks, calls = [], []
    for block in whole.content:
        if block.type == "thinking":
            blocks.append(signed({"type": "thinking", "text": block.thinking}, block.signature))
        elif block.type == "redacted_thinking":
            blocks.append({"type": "redacted_thinking", "data": block.data})
        elif block.type == "tool_use":
            calls.append({"id": block.id, "name": block.name, "arguments": block.input})
        else:
            blocks.append({"type": block.type, "text": block.text})
    usage = whole.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.input_tokens + usage.output_tokens)
    return answer(blocks, calls, ANTHROPIC_FINISH[whole.stop_reason], counts, None)


def ask_gemini(url):
    client = genai.Client(api_key="none", http_options=gemini.HttpOptions(base_url=url))
    blocks, calls, finish, usage = [], [], None, None
    declared = [gemini.FunctionDeclaration(name=it) for it in TOOLS]
    for chunk in client.models.generate_content_stream(
        model="any",
        contents=ASKED,
        config=gemini.GenerateContentConfig(
            tools=[gemini.Tool(function_declarations=declared)],
            automatic_function_calling=gemini.AutomaticFunctionCallingConfig(disable=True),
        ),
    ):
        usage = chunk.usage_metadata or usage
        candidate = chunk.candidates[0]
        finish = candidate.finish_reason or finish
        for part in candidate.content.parts:
            # The SDK has decoded the base64 of a signature; on the wire and in ours it stands encoded.
            signature = part.thought_signature and base64.b64encode(part.thought_signature).decode()
            if part.function_call:
                call = part.function_call
                calls.append(signed({"id": call.id, "name": call.name, "arguments": call.args}, signature))
                continue
            kind = "thinking" if part.thought else "text"
            # The SDK does not join pieces: pieces of one kind are one block until one is signed.
            if blocks and blocks[-1]["type"] == kind and "signature" not in blocks[-1]:
                blocks[-1]["text"] += part.text
                signed(blocks[-1], signature)
            else:
                blocks.append(signed({"type": kind, "text": part.text}, signature))
    said = GEMINI_FINISH[finish.value]
    if calls and said == "stop":
        said = "tool_calls"
    counts = (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count)
    return answer(blocks, calls, said, counts, usage.cached_content_token_count)


def signed(block, signature):
    if signature:
        block["signature"] = signature
    return block


def answer(blocks, calls, finish, counts, cached):
    prompt, completion, total = counts
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    if cached is not None:
        usage["cached_tokens"] = cached
    return {"content": blocks, "tool_calls": calls, "finish_reason": finish, "usage": usage}


ASK = {
    "openai": (ask_openai, openai.OpenAIError),
    "anthropic": (ask_anthropic, anthropic.AnthropicError),
    "gemini": (ask_gemini, gemini_errors.APIError),
}

for line in sys.stdin:
    task = json.loads(line)
    ask, own_error = ASK[task["wire"]]
    try:
        out = ask(task["url"])
    except own_error as error:
        out = {"error": type(error).__name__}
    print(json.dumps(out), flush=True)
