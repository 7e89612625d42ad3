"""w1 and w2 on PostgreSQL, each round beside the floor of bench/floor.sql in the same server."""
import argparse
import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time

from rows import HERE, keep, median, not_run, run

SESSIONS = 64
FLOOR = os.path.join(HERE, "floor.sql")
MAKE_SESSIONS = f"""
TRUNCATE singletree.session, singletree.lease CASCADE;
ALTER SEQUENCE singletree.session_id_seq RESTART;
INSERT INTO singletree.session (tenant, session, agent, graph, schema_version, version, prompt_policy, created_at, updated_at)
  SELECT 'floor', n, 'default', '7900b099fcdd74ac', 'unversioned', 0, 'conversation', 1, 1 FROM generate_series(1, {SESSIONS}) n;
INSERT INTO singletree.lease SELECT 'floor', n, 1, 2 FROM generate_series(1, {SESSIONS}) n;
INSERT INTO singletree.field SELECT n, 'messages', NULL, 0, 0, 0 FROM generate_series(1, {SESSIONS}) n;
"""


class Server:
    """PostgreSQL in a scratch folder, reached by a socket there."""

    def __init__(self, folder, programs):
        self.folder, self.programs = folder, programs
        # PostgreSQL does not run as root.
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        self.own = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups") if os.getuid() == 0 else ()
        if self.own:
            shutil.chown(folder, "postgres")
        os.chmod(folder, 0o755)
        self.start(self.own, "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", f"{folder}/data")
        options = f"-k {folder} -c listen_addresses= -c max_connections=300"
        self.start(self.own, "pg_ctl", "-w", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", options, "start")

    def start(self, own, program, *arguments):
        quiet = subprocess.DEVNULL
        subprocess.run([*own, os.path.join(self.programs, program), *arguments], stdin=quiet, stdout=quiet, check=True)

    def stop(self):
        self.start(self.own, "pg_ctl", "-m", "immediate", "-D", f"{self.folder}/data", "stop")

    def sql(self, database, text):
        subprocess.run([os.path.join(self.programs, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "postgres",
                        database], input=f"SET client_min_messages = warning; {text}", text=True, check=True)

    def fresh(self, name):
        self.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE);")
        self.sql("postgres", f"CREATE DATABASE {name};")
        return f"postgres:///{name}?host={self.folder}&user=postgres"

    def floor(self, clients, seconds, port=5432):
        """Runs the floor; returns its turns a second and the median of their milliseconds."""
        # The tables are ours.
        run("w1", "--variant", "postgres", "--db", self.fresh("floor"), "--turns", 1)
        self.sql("floor", MAKE_SESSIONS)
        with tempfile.TemporaryDirectory() as logs:
            done = subprocess.run([os.path.join(self.programs, "pgbench"), "-h", self.folder, "-p", str(port), "-U", "postgres", "-n", "-M",
                                   "prepared" if port == 5432 else "extended", "-c", str(clients), "-j", "2", "-T", str(seconds),
                                   "-D", "n=-1", "-f", FLOOR, "-l", "--log-prefix", f"{logs}/log", "floor"],
                                  stdout=subprocess.PIPE, check=True, text=True)
            times = [int(line.split()[2]) for log in glob.glob(f"{logs}/log*") for line in open(log)]
        return float(re.search(r"tps = ([\d.]+)", done.stdout)[1]), median(times) / 1000


def start_pooler(server):
    """Starts pgbouncer, which gives each transaction another connection; returns its process, or None if there is none."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if not program:
        not_run("postgres-pooled", "no pgbouncer")
        return None
    at = f"{server.folder}/pooler.ini"
    with open(at, "w") as file:
        file.write(f"[databases]\n* = host={server.folder} user=postgres\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\n"
                   f"unix_socket_dir = {server.folder}\nauth_type = any\npool_mode = transaction\nmax_client_conn = 300\n"
                   f"default_pool_size = {SESSIONS}\nlog_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n")
    process = subprocess.Popen([*server.own, program, "-q", at], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(f"{server.folder}/.s.PGSQL.6432"):
        if process.poll() is not None:
            raise SystemExit(f"pgbouncer ended ({process.returncode})")
        time.sleep(0.05)
    return process


def measure(server, figure, pooled, rounds, seconds):
    seen = {key: [] for key in ("per_s", "floor_per_s", "p50_ms", "floor_p50_ms", "cpu_ms")}
    options = "&port=6432&pooler=transaction" if pooled else ""
    port = 6432 if pooled else 5432
    for _ in range(rounds):
        many, _ = server.floor(SESSIONS, seconds, port)
        _, one = server.floor(1, max(seconds // 3, 1), port)
        w2 = run("w2", "--variant", "postgres", "--db", server.fresh("ours") + options, "--sessions", SESSIONS,
                 "--per-session", seconds * 12, "--concurrency", SESSIONS)
        w1 = run("w1", "--variant", "postgres", "--db", server.fresh("ours") + options, "--turns", 1000)
        for key, value in zip(seen, (w2["turns_per_s"], many, w1["p50_ms"], one, w2["cpu_ms_per_turn"])):
            seen[key].append(value)
    got = {key: median(values) for key, values in seen.items()}
    keep(figure, rounds=rounds, **got, ratio=got["per_s"] / got["floor_per_s"], p50_ratio=got["p50_ms"] / got["floor_p50_ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=15, help="of the floor with many clients")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))
    if not found:
        return not_run("postgres", "no PostgreSQL")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, os.path.dirname(found[-1]))
        pooler = None
        try:
            measure(server, "postgres", False, args.rounds, args.seconds)
            pooler = start_pooler(server)
            if pooler:
                measure(server, "postgres-pooled", True, args.rounds, args.seconds)
        finally:
            if pooler:
                pooler.terminate()
                pooler.wait()
            server.stop()


if __name__ == "__main__":
    main()
