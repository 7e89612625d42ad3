"""Figures that stand alone.

  alone.py counts [--turns N]     what one turn of w1 `full` asks of the disk, counted by strace; its CPU without strace
  alone.py growth [--turns N]     w1 `memory`: what a late turn costs beside an early one
  alone.py w3 [--turns RUNS]      the engine alone
  alone.py engine [--turns RUNS]  the engine beside w3: observers, checkpoints, fan-out, long runs and histories
  alone.py calls [--turns N]      a turn that asks a model over HTTP, beside a bare call with the same bytes; a delta; SQLite beside memory
  alone.py streams [--turns N]    so many answers that stream at the same time
  alone.py w5 [--turns RUNS]      from the start of the process to its end, with one turn
"""
import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time

from rows import BENCH, keep, median, not_run, run

CALL = re.compile(r"(pwrite64|write|fdatasync|fsync)\(\d+<([^>]*)>.*?(?:, (\d+), (\d+))?\) += (\d+)")
LOG_HEADER = 32


def counts(turns, folder):
    def cpu(at):
        return run("w1", "--db", os.path.join(folder, f"c{at}.db"), "--variant", "full", "--turns", turns)["cpu_ms_per_turn"]

    if not shutil.which("strace"):
        return not_run("counts", "no strace")
    # What opening and closing ask for is no turn's.
    ours, opening = traced(turns, folder), traced(0, folder)
    turn = {key: (ours[key] - opening[key]) / turns for key in ours}
    keep("counts", turns=turns, commits_per_turn=turn["commits"], commit_syncs_per_turn=turn["commit_syncs"],
         checkpoint_syncs_per_turn=turn["checkpoint_syncs"], log_kib_per_turn=turn["log"] / 1024, checkpoint_kib_per_turn=turn["database"] / 1024,
         written_kib_per_turn=(turn["log"] + turn["database"]) / 1024, cpu_ms_per_turn=median(map(cpu, range(3))))


def traced(turns, folder):
    """Counts what a run asks of the disk.

    A sync of the log is a commit's when frames were written since the last one; the others are a checkpoint's, which syncs the log before it
    copies and the database after, or come with the new header of a log that begins again.
    """
    db, trace = os.path.join(folder, f"t{turns}.db"), os.path.join(folder, "trace")
    watched = ("strace", "-f", "-y", "-s", "0", "-e", "trace=pwrite64,write,fdatasync,fsync", "-o", trace)
    line = run("w1", "--db", db, "--variant", "full", "--turns", turns, program=(*watched, BENCH))
    seen = {"commits": round((line["commits_per_turn"] or 0) * turns), "commit_syncs": 0, "checkpoint_syncs": 0, "log": 0, "database": 0}
    frames = False
    for text in open(trace):
        call = CALL.search(text)
        if not call or call[2] not in (db, db + "-wal"):
            continue
        name, path, length, offset, _ = call.groups()
        in_log = path != db
        if name.endswith("sync"):
            seen["commit_syncs" if in_log and frames else "checkpoint_syncs"] += 1
            frames = frames and not in_log
        else:
            seen["log" if in_log else "database"] += int(length)
            frames = frames or (in_log and (int(length), int(offset)) != (LOG_HEADER, 0))
    return seen


def growth(turns, folder):
    db = os.path.join(folder, "x.db")
    marks = [turns // 100, turns // 50, turns - turns // 100, turns]
    line = run("w1", "--db", db, "--variant", "memory", "--turns", turns, "--marks", ",".join(map(str, marks)))
    early, late = (line["marks"][str(marks[at])] for at in (1, 3))
    ratio = {key: late[name] / early[name] for key, name in (("cpu_ratio", "cpu_ms_per_turn_since"), ("bytes_ratio", "alloc_bytes_per_turn"))}
    keep("growth", **ratio, turns=turns, cpu_ms_early=early["cpu_ms_per_turn_since"], cpu_ms_late=late["cpu_ms_per_turn_since"],
         bytes_early=early["alloc_bytes_per_turn"], bytes_late=late["alloc_bytes_per_turn"], peak_rss_mib=line["peak_rss_mib"])


def w3(runs, folder):
    lines = [run("w3", "--db", os.path.join(folder, "x.db"), "--variant", "none") for _ in range(runs)]
    keep("w3", runs=runs, us_per_node=median(it["us_per_node"] for it in lines), cpu_us_per_node=median(it["cpu_us_per_node"] for it in lines))


def engine(runs, folder):
    lines = []
    for at in range(runs):
        own = os.path.join(folder, str(at))
        os.mkdir(own)
        lines.append(run("engine", "--db", os.path.join(own, "x.db")))
    figures = {key: median(it[key] for it in lines) for key in lines[0] if key not in ("workload", "variant")}
    growth = figures["live_bytes_100000_steps"] / figures["live_bytes_1000_steps"]
    keep("engine", runs=runs, live_bytes_late_by_early=growth, **figures)


def calls(turns, folder):
    figures = {}
    for variant in ("memory", "full"):
        line = run("calls", "--db", os.path.join(folder, f"{variant}.db"), "--variant", variant, "--turns", turns)
        figures.update({f"{variant}_{key}": value for key, value in line.items() if isinstance(value, (int, float))})
    keep("calls", turns=turns, **figures)


def streams(sessions, folder):
    figures = {}
    for variant in ("memory", "full"):
        line = run("streams", "--db", os.path.join(folder, f"{variant}.db"), "--variant", variant, "--sessions", sessions)
        figures.update({f"{variant}_{key}": value for key, value in line.items() if isinstance(value, (int, float))})
    keep("streams", sessions=sessions, **figures)


def w5(runs, folder):
    walls, rss = [], []
    for at in range(runs):
        t = time.perf_counter()
        subprocess.run([BENCH, "w5", "--db", os.path.join(folder, f"{at}.db")], check=True, stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - t)
        rss.append(run("w5", "--db", os.path.join(folder, f"{at}-again.db"))["peak_rss_mib"])
    keep("w5", runs=runs, wall_ms=median(walls) * 1e3, peak_rss_mib=median(rss))


def main():
    figures = {"counts": (counts, 1000), "growth": (growth, 100_000), "w3": (w3, 5), "engine": (engine, 7), "w5": (w5, 10),
               "calls": (calls, 300), "streams": (streams, 1000)}
    p = argparse.ArgumentParser()
    p.add_argument("figure", choices=figures)
    p.add_argument("--turns", type=int, default=0)
    a = p.parse_args()
    measure, usual = figures[a.figure]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as folder:
        measure(a.turns or usual, folder)


if __name__ == "__main__":
    main()
