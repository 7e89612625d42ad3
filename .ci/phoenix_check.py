"""Talks to a server of singletree that exports traces to Phoenix, and checks the spans that Phoenix has then.

Usage: phoenix_check.py SINGLETREE URL-OF-PHOENIX SCRATCH
"""

import json
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

binary, phoenix, scratch = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])

SCRIPT = {
    "model": "script",
    "rules": [
        {"when": {"user": ["hello there"]}, "then": {"reply": "I hear you."}},
        {"when": {"user": ["add {a} and {b}"]},
         "then": {"calls": [{"tool": "calculator", "arguments": {"expression": "{a}+{b}"}}]}},
        {"when": {"results": "any"}, "then": {"reply": "It is done."}},
    ],
}
CONFIG = """
[models.main]
wire = "script"
file = "script.json"
[agents.helper]
instructions = "Be brief."
tools = ["calculator"]
approval = {{ ask = ["calculator"] }}
[telemetry]
endpoint = "{endpoint}"
profile = "genai"
payloads = {payloads}
"""


def ask(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def wait_for(what, found):
    """Asks until there is an answer; a refused connection is none."""
    last = None
    for _ in range(600):
        try:
            last = found()
            if last:
                return last
        except (urllib.error.URLError, ConnectionError) as error:
            last = error
        time.sleep(0.1)
    sys.exit(f"phoenix: there is no {what}: {last}")


def talk(session, payloads):
    """Has a conversation whose traces are exported: a message, a tool that a person approves, the answer."""
    home = scratch / session
    home.mkdir()
    (home / "script.json").write_text(json.dumps(SCRIPT))
    (home / "singletree.toml").write_text(CONFIG.format(endpoint=phoenix, payloads=str(payloads).lower()))
    server = subprocess.Popen(
        [binary, "serve", "--listen", "127.0.0.1:0", "--db", "talk.db"],
        cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = next(line.rsplit(" ", 1)[-1].strip() for line in server.stdout if "listens at" in line)
        at = f"{url}/v1/sessions/{session}"
        ask("POST", f"{at}/messages", {"content": "hello there"})
        waits = ask("POST", f"{at}/messages", {"content": "add 2 and 3"})
        assert waits["status"] == "suspended", waits
        wait = waits["wait"]
        ask("POST", f"{at}/signals/{wait['signal']}",
            {"payload": {"approved": True}, "wait": wait["number"], "action": wait["action"]})

        def exported():
            spans = ask("GET", f"{phoenix}/v1/projects/default/spans?limit=200")["data"]
            mine = [span for span in spans if span["attributes"].get("session.id") == session]
            roots = [span for span in mine if span["name"] == "invoke_workflow helper"]
            return mine if len(roots) == 3 and any(span["name"].startswith("execute_tool") for span in mine) else None

        return wait_for("trace of three turns", exported)
    finally:
        server.terminate()
        server.wait(30)


def check(spans, payloads):
    kinds = {}
    for span in spans:
        kinds.setdefault(span["span_kind"], []).append(span["attributes"])
    models, tools = kinds["LLM"], kinds["TOOL"]
    assert (len(models), len(tools)) == (3, 1), {kind: len(all) for kind, all in kinds.items()}
    tokens = [(it["llm.token_count.prompt"], it["llm.token_count.completion"]) for it in models]
    assert all(prompt > 0 for prompt, _ in tokens), tokens
    texts = {value for it in models for name, value in it.items()
             if name.startswith(("llm.input_messages", "llm.output_messages")) and name.endswith("content")}
    arguments = [name for it in models for name in it if name.endswith("tool_call.function.arguments")]
    said = {"hello there", "I hear you.", "add 2 and 3", "5", "It is done."}
    if payloads:
        assert said <= texts and arguments and tools[0]["output.value"] == '"5"', (texts, tools)
    else:
        everything = json.dumps(spans)
        assert not texts and not arguments, texts
        assert not any(text in everything for text in said if len(text) > 1), everything
    turns = [span["attributes"] for span in spans if span["name"] == "invoke_workflow helper"]
    asked = sorted(it.get("llm.input_messages.0.message.content", "") for it in turns)
    answered = sorted(it.get("llm.output_messages.0.message.content", "") for it in turns)
    # The turn that waits has called a tool, and said nothing.
    expected = ["add 2 and 3", "add 2 and 3", "hello there"], ["", "I hear you.", "It is done."]
    assert (asked, answered) == (expected if payloads else ([""] * 3, [""] * 3)), (asked, answered)
    traces = {span["context"]["trace_id"] for span in spans}
    assert len(traces) == 2, "the turn that was approved is in the trace of the one that waited"
    return len(spans)


wait_for("Phoenix", lambda: ask("GET", f"{phoenix}/v1/projects"))
counts = [check(talk(f"session-{word}", payloads), payloads) for word, payloads in (("on", True), ("off", False))]
print(f"phoenix: kinds, sessions, tokens of {counts[0]} spans, messages of models and turns with payloads; "
      f"{counts[1]} spans without: no text: ok")
