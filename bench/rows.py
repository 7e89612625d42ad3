"""What the measuring scripts share: where things are, how one runs the program, how a row is kept."""
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BENCH = os.path.join(ROOT, "target", "release", "singletree-bench")
FLOOR = os.path.join(ROOT, "target", "peers", "sqlite-floor", "bench.py")
ROWS = os.path.join(ROOT, "target", "bench", "rows.jsonl")

median = statistics.median


def run(*arguments, program=(BENCH,)):
    """Runs one workload and returns the JSON object of its last line."""
    done = subprocess.run([*program, *map(str, arguments)], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def start_server(command, log, **options):
    """Starts a server of ours; returns its process and the address at which it says that it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, **options)
    greeting = process.stdout.readline()
    found = re.search(r"http://(\S+:\d+)", greeting)
    if not found:
        log.seek(0)
        sys.exit(f"the server did not say where it listens: {greeting!r}\n{log.read()}")
    return process, found[1]


def keep(figure, **measured):
    """Adds a row; says how busy the machine was."""
    row = {"figure": figure, "at": time.strftime("%Y-%m-%d", time.gmtime()), "load": os.getloadavg()[0], **measured}
    os.makedirs(os.path.dirname(ROWS), exist_ok=True)
    with open(ROWS, "a") as rows:
        rows.write(json.dumps(row) + "\n")
    print(json.dumps(row))


def not_run(name, reason):
    print(f"not run: {name}: {reason}", file=sys.stderr)
