"""Gives a real model a task and a campaign over HTTP and checks the promises that do not depend on what the model says.

    model_task.py NAME LLAMA_SERVER SINGLETREE MODEL [OPTION OF LLAMA_SERVER..]

Prints one line a check. Exits 1 when one of them does not hold.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

LIMIT = 15 * 60
TASK = (
    "Do three things with your tools. First ask the clock for the time. Then calculate 17 * 23. "
    "Then send the result as a message to Ann. Say when you are done."
)
AGENT = """
[models.local]
wire = "openai"
name = "local"
base_url = "{url}"
sampling = {{ temperature = 0, max_tokens = 160 }}
[models.local.time]
first = "300s"
idle = "120s"

[agents.clerk]
instructions = "You use your tools for every step."
tools = ["clock", "calculator", "outbox"]
budget = {{ tool_calls = 8 }}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        return json.load(refusal)


def wait_for(url, process):
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    sys.exit(f"{url} ended before it was ready")


def text_of(content):
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content)
    return content or ""


GOAL = "Send Ann a message that says what 17 * 23 is."
ENDS = ("completed", "paused", "error")


def decide(base, campaign):
    """Says what a person says who approves everything; returns how many calls were approved, or none if nothing is asked."""
    here = f"{base}/v1/campaigns/{campaign['id']}"
    waits = campaign.get("waits_for")
    if waits is None:
        return None
    if waits["type"] == "plan":
        plan = campaign["plan"]
        ask(f"{here}/plan/approve", {"version": plan["version"], "digest": plan["digest"]})
        return 0
    if waits["type"] == "action":
        command = {"type": "decide", "digest": campaign["call"]["digest"], "approved": True}
        ask(f"{here}/commands", command)
        return 1
    ask(f"{here}/commands", {"type": "answer", "question": waits["question"], "answer": {"answer": "yes"}})
    return 0


def run_campaign(base, check):
    """Lets a campaign run until it ends or rests, 15 minutes at most. Returns how many calls a person has approved."""
    began = time.monotonic()
    campaign = ask(f"{base}/v1/campaigns", {"goal": GOAL, "budget": {"cycles": 12}})
    approved = 0
    while campaign["status"] not in ENDS and time.monotonic() - began < LIMIT:
        decided = decide(base, campaign)
        approved += decided or 0
        if decided is None:
            time.sleep(0.5)
        campaign = ask(f"{base}/v1/campaigns/{campaign['id']}")
    took = time.monotonic() - began
    status, failure = campaign["status"], campaign.get("failure")
    cause = failure or (campaign.get("pause") or {}).get("type") or status
    usage = campaign["usage"]
    told = f" ({cause}, {usage['cycles']} cycles, {usage['tokens']} tokens, {approved} approved, {took:.0f} s)"
    check("the campaign completes, pauses, or fails with a category", status in ENDS, told)
    check("its category is explained", failure is None or os.path.exists(f"docs/errors/{failure}.md"))
    check("it ends within 15 minutes", took <= LIMIT)
    log = ask(f"{base}/v1/campaigns/{campaign['id']}/log?limit=500")["items"]
    decided = [entry for entry in log if entry["type"] == "action_decided"]
    check("its log has what a person has decided", len(decided) == approved)
    return approved


class View:
    """What a client that follows the events of a session has seen."""

    def __init__(self, url):
        self.messages = {}
        self.ended = threading.Event()
        self.stream = urllib.request.urlopen(url, timeout=LIMIT)
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for line in self.stream:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            message = event.get("message")
            if event["type"] == "turn.accepted" and message:
                self.messages[f"{event['turn']}/0"] = ("user", text_of(message["content"]))
            elif event["type"] == "message.appended":
                self.messages[event["message_id"]] = (message["role"], text_of(message["content"]))
            elif event["type"] in ("turn.completed", "turn.errored", "turn.cancelled"):
                self.ended.set()


def main(name, llama_server, singletree, model, *options):
    failed = False

    def check(what, holds, told=""):
        nonlocal failed
        failed = failed or not holds
        print(f"real model, {name}: {what}: {'ok' if holds else 'FAILED'}{told}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        model_port, port = free_port(), free_port()
        log = open(f"{folder}/model.log", "wb")
        command = [llama_server, "-m", model, "--host", "127.0.0.1", "--port", str(model_port), "-t", "2", "-c", "8192"]
        server = subprocess.Popen([*command, "--temp", "0", "--seed", "1", "--jinja", *options], stdout=log, stderr=log)
        chat = None
        try:
            wait_for(f"http://127.0.0.1:{model_port}/health", server)
            with open(f"{folder}/singletree.toml", "w") as file:
                file.write(AGENT.format(url=f"http://127.0.0.1:{model_port}"))
            serve = [singletree, "serve", "--listen", f"127.0.0.1:{port}", "--db", "chat.db"]
            chat = subprocess.Popen(serve, cwd=folder, stdout=log, stderr=log)
            base = f"http://127.0.0.1:{port}"
            wait_for(f"{base}/readyz", chat)
            session = f"{base}/v1/sessions/task"
            ask(f"{base}/v1/sessions", {"id": "task"})
            view = View(f"{session}/events")
            began = time.monotonic()
            outcome = ask(f"{session}/messages", {"content": TASK})
            approved = 0
            while outcome.get("status") == "suspended" and time.monotonic() - began < LIMIT:
                wait = outcome["wait"]
                answer = {"payload": {"approved": True}, "wait": wait["number"], "action": wait["action"]}
                outcome = ask(f"{session}/signals/{wait['signal']}", answer)
                approved += 1
            took = time.monotonic() - began
            status, category = outcome.get("status"), outcome.get("category")
            told = f" ({category or status}, {approved} approved, {took:.0f} s)"
            ends = status == "completed" or (status == "errored" and bool(outcome.get("reply")))
            check("the turn completes, or fails with a reply for its category", ends, told)
            check("within 15 minutes", took <= LIMIT)
            view.ended.wait(30)
            turns = ask(f"{session}/turns?limit=100")["items"]
            kept = ask(f"{session}/messages?limit=1000")["items"]
            transcript = [(item["role"], text_of(item["content"])) for item in kept]
            seen = list(view.messages.values())
            if status == "completed":
                check("the events seen are the transcript", seen == transcript)
            else:
                check("the transcript holds nothing that was not seen", all(item in seen for item in transcript))
            # Each answer begins a turn of the same invocation.
            check("there is a turn for the message and one for each approval", len(turns) == 1 + approved)
            before = approved
            approved += run_campaign(base, check)
            listed = [singletree, "outbox", "list", "--db", "chat.db", "--json"]
            sent = json.loads(subprocess.run(listed, cwd=folder, capture_output=True, check=True).stdout)["messages"]
            check("no message is sent without an approval", len(sent) <= approved, f" ({len(sent)} sent, {before} and {approved - before} approved)")
        finally:
            for process in (chat, server):
                if process and process.poll() is None:
                    process.terminate()
                    process.wait()
    sys.exit(1 if failed else 0)


main(*sys.argv[1:])
