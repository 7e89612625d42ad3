"""How soon the turns of a server that was killed go on at two others, over one PostgreSQL database.

  takeover.py [--turns N] [--rounds N] [--program FILE]

Each round starts three servers on an empty database and sends N messages, each to a session of its own, to the first one. When all N turns
run there, it is killed. The time is taken until the database has each turn as taken over by a server that lives, and every turn has to end
with its reply, once.
"""
import argparse
import concurrent.futures
import glob
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import postgres
from rows import ROOT, keep, median, not_run, start_server

PIECES, PIECE_MS = 8, 5000
LEASE_MS = 5000
AGENTS = """
[models.m]
wire = "script"
file = "script.json"

[agents.a]
instructions = "Answer."
"""
LEFT = """SELECT count(*) FROM singletree.turn t JOIN singletree.session s ON s.id = t.session
  JOIN singletree.lease l ON l.tenant = s.tenant AND l.session = s.session
  WHERE t.status = 'accepted' AND (l.owner IS NULL OR l.owner IN ({dead}) OR t.fence < l.fence)"""


class Database:
    """A connection that answers one statement after the other."""

    def __init__(self, server, name):
        command = [os.path.join(server.programs, "psql"), "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-h", server.folder, "-U", "postgres", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, sql):
        """Returns the one value that a statement selects."""
        print(sql.replace("\n", " ") + ";", file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def wait(self, sql, wanted, seconds):
        until = time.monotonic() + seconds
        while self.ask(sql) != wanted:
            if time.monotonic() > until:
                sys.exit(f"after {seconds} s {self.ask(sql)!r} instead of {wanted!r}: {sql}")
            time.sleep(0.02)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Node:
    """A server of ours over a database."""

    def __init__(self, folder, program, url, name):
        command = [program, "serve", "--listen", "127.0.0.1:0", "--store", url]
        self.log = open(os.path.join(folder, f"{name}.log"), "w+")
        self.process, self.address = start_server(command, self.log, cwd=folder, stdin=subprocess.DEVNULL)

    def send(self, session):
        line = http.client.HTTPConnection(self.address, timeout=60)
        body = json.dumps({"content": "Hello"})
        line.request("POST", f"/v1/sessions/{session}/messages", body, {"Content-Type": "application/json", "Prefer": "respond-async"})
        answer = line.getresponse()
        if answer.status != 202:
            sys.exit(f"{session}: {answer.status} {answer.read()[:300]}")
        line.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def one_round(server, program, turns):
    url = server.fresh("takeover")
    with tempfile.TemporaryDirectory() as folder:
        reply = {"reply": "Word. " * PIECES, "delay_ms": PIECE_MS}
        with open(f"{folder}/script.json", "w") as file:
            json.dump({"model": "x", "rules": [{"when": {"user": ["*"]}, "then": reply}]}, file)
        with open(f"{folder}/singletree.toml", "w") as file:
            file.write(AGENTS)
        nodes = [Node(folder, program, url, f"node{n}") for n in range(3)]
        database = Database(server, "takeover")
        try:
            return measure(nodes, database, turns)
        finally:
            database.close()
            for node in nodes:
                node.kill()


def measure(nodes, database, turns):
    with concurrent.futures.ThreadPoolExecutor(16) as clients:
        list(clients.map(nodes[0].send, [f"s{n}" for n in range(turns)]))
    database.wait("SELECT count(*) FROM singletree.turn WHERE status = 'accepted'", str(turns), 10)
    dead = database.ask("SELECT string_agg(DISTINCT owner::text, ',') FROM singletree.lease WHERE owner IS NOT NULL")
    if "," in dead:
        sys.exit(f"more than one server has sessions: {dead}")
    killed = time.monotonic()
    nodes[0].kill()
    first, left = None, LEFT.format(dead=dead)
    while (count := int(database.ask(left))) > 0:
        if first is None and count < turns:
            first = time.monotonic()
        if time.monotonic() > killed + 60:
            sys.exit(f"{count} turns of {turns} are not taken over after a minute")
        time.sleep(0.02)
    last = time.monotonic()
    database.wait("SELECT count(*) FROM singletree.turn WHERE status = 'completed'", str(turns), PIECES * PIECE_MS / 1000 + 60)
    database.wait("SELECT count(*) FROM singletree.item WHERE list = 'messages' AND seq IS NOT NULL", str(2 * turns), 1)
    by = int(database.ask("SELECT count(DISTINCT owner) FROM singletree.lease WHERE owner IS NOT NULL"))
    return {"first_ms": ((first or last) - killed) * 1000, "last_ms": (last - killed) * 1000, "by": by}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", default=os.path.join(ROOT, "target", "release", "singletree"))
    args = parser.parse_args()
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))
    if not found:
        return not_run("takeover", "no PostgreSQL")
    with tempfile.TemporaryDirectory() as folder:
        server = postgres.Server(folder, os.path.dirname(found[-1]))
        try:
            rounds = [one_round(server, args.program, args.turns) for _ in range(args.rounds)]
        finally:
            server.stop()
    first, last = (median(row[key] for row in rounds) for key in ("first_ms", "last_ms"))
    worst = max(row["last_ms"] for row in rounds)
    keep("takeover", turns=args.turns, rounds=args.rounds, first_ms=first, last_ms=last, worst_ms=worst, beyond_lease_ms=worst - LEASE_MS,
         by=min(row["by"] for row in rounds))


if __name__ == "__main__":
    main()
