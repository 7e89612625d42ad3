"""The server under load: turns over HTTP beside the same turns in-process, open event streams, memory.

  server.py [--sessions N] [--streams N] [--runs N] [--seconds N]

Each run starts a server on a new file and loads it with wrk (bench/server/load.lua): N sessions of 5 turns, 64 at a time. Then so many event
streams are opened on these sessions and held (hold-streams), and the same load comes again: every stream has to tell every event. The memory
is the server's own, from /proc.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from rows import HERE, ROOT, keep, median, not_run, run, start_server

RELEASE = os.path.join(ROOT, "target", "release")
LOAD = os.path.join(HERE, "server", "load.lua")
CONFIG = os.path.join(HERE, "server", "singletree.toml")
TURNS, AT_ONCE = 5, 64
# What a plain turn tells: that it was accepted, the reply, that it is completed.
EVENTS_PER_TURN = 3


class Server:
    """A server on a free port of this machine, on a file of its own."""

    def __init__(self, folder):
        self.db = os.path.join(folder, "server.db")
        begun = time.perf_counter()
        command = [os.path.join(RELEASE, "singletree"), "serve", "--listen", "127.0.0.1:0", "--db", self.db, "--config", CONFIG]
        self.log = open(os.path.join(folder, "server.log"), "w+")
        self.process, self.address = start_server(command, self.log)
        self.start_ms = (time.perf_counter() - begun) * 1e3

    def memory_mib(self, what):
        """VmRSS is what it has now, VmHWM the most that it had."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(rf"{what}:\s+(\d+) kB", status.read())[1]) / 1024

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.stdout.read()
        if self.process.wait(timeout=60) != 0:
            sys.exit(f"the server ended with {self.process.returncode}")
        self.log.close()


def load(server, sessions, seconds):
    """Runs all turns, and returns what wrk saw."""
    before = server.cpu_s()
    command = ["wrk", "-t2", f"-c{AT_ONCE}", f"-d{seconds}s", "--timeout", "10s", "-s", LOAD, f"http://{server.address}", "--",
               str(sessions), str(TURNS), "s"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    line = json.loads(done.stdout.strip().splitlines()[-1])
    if line["turns"] != line["due"] or line["wrong"] or line["errors"]:
        sys.exit(f"not every turn was answered well within {seconds} s: {line}")
    return {**line, "cpu_ms_per_turn": (server.cpu_s() - before) / line["turns"] * 1e3}


def measure(folder, sessions, streams, seconds):
    server = Server(folder)
    alone = load(server, sessions, seconds)
    quiet = server.memory_mib("VmRSS")
    command = [os.path.join(RELEASE, "hold-streams"), server.address, str(streams), "s", str(sessions)]
    holding = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if holding.stdout.readline() != "open\n":
        sys.exit("the streams could not be opened")
    held = server.memory_mib("VmRSS")
    beside = load(server, sessions, seconds)
    expected = 2 * TURNS * EVENTS_PER_TURN
    # The last events are on their way when the last turn is answered.
    time.sleep(1)
    told = json.loads(holding.communicate("")[0])
    if told["lost"] or told["fewest"] != expected or told["most"] != expected:
        sys.exit(f"every stream should have told {expected} events: {told}")
    peak = server.memory_mib("VmHWM")
    server.stop()
    return {"start_ms": server.start_ms, "turns_per_s": alone["turns_per_s"], "p50_ms": alone["p50_ms"], "p99_ms": alone["p99_ms"],
            "max_ms": alone["max_ms"], "cpu_ms_per_turn": alone["cpu_ms_per_turn"], "streamed_turns_per_s": beside["turns_per_s"],
            "streamed_p99_ms": beside["p99_ms"], "rss_mib": quiet, "rss_mib_streams": held, "peak_rss_mib": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="how long a load may take")
    given = parser.parse_args()
    if not shutil.which("wrk"):
        return not_run("server", "no wrk (Debian: apt-get install wrk)")
    rows = []
    for _ in range(given.runs):
        with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "target")) as folder:
            inside = run("w2", "--db", os.path.join(folder, "w2.db"), "--sessions", given.sessions, "--per-session", TURNS, "--concurrency", AT_ONCE)
            rows.append({**measure(folder, given.sessions, given.streams, given.seconds), "inside_turns_per_s": inside["turns_per_s"]})
    figures = {key: median(it[key] for it in rows) for key in rows[0]}
    # A bound on memory is no matter of the middle.
    figures["peak_rss_mib"] = max(it["peak_rss_mib"] for it in rows)
    keep("server", sessions=given.sessions, streams=given.streams, runs=given.runs, **figures,
         by_inside=median(it["turns_per_s"] / it["inside_turns_per_s"] for it in rows),
         streamed_by_inside=median(it["streamed_turns_per_s"] / it["inside_turns_per_s"] for it in rows),
         memory_by_bound=figures["peak_rss_mib"] / (150e6 / 2**20 + given.streams * 20e3 / 2**20))


if __name__ == "__main__":
    main()
