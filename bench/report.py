#!/usr/bin/env python3
"""Prints the table of figures from target/bench/rows.jsonl, the newest row of each, and README.md; `--write` puts it there."""
import json
import os
import sys

from rows import HERE, ROWS

BEGIN, END = "<!-- figures: written by bench/report.py -->", "<!-- end of figures -->"

# figure, key, what it is, bound ("<= x" or ">= x"; none is reported only), how it is written
FIGURES = [
    ("w1/wal-full-2", "ratio", "w1 `full`: time of a turn, by the floor's with two commits (`wal-full-2`)", "<= 1.5", "{:.2f}"),
    ("w1/wal-full", "ratio", "the same, by the floor's with one commit (`wal-full`)", None, "{:.2f}"),
    ("w1/wal-full-2", "ours_ms", "w1 `full`: a turn, ms (median of the blocks)", None, "{:.3f}"),
    ("counts", "commits_per_turn", "w1 `full`: commits a turn", "== 2", "{:g}"),
    ("counts", "commit_syncs_per_turn", "w1 `full`: fdatasync a turn, beside checkpoints", "<= 2", "{:g}"),
    ("counts", "written_kib_per_turn", "w1 `full`: KiB written a turn, checkpoints included", "<= 64", "{:.1f}"),
    ("counts", "cpu_ms_per_turn", "w1 `full`: CPU a turn, ms", "<= 0.25", "{:.3f}"),
    ("growth", "cpu_ratio", "w1 `memory`: CPU a turn late, by early", "<= 1.15", "{:.2f}"),
    ("growth", "bytes_ratio", "w1 `memory`: bytes allocated a turn late, by early", "0.98 to 1.02", "{:.4f}"),
    ("growth", "bytes_late", "w1 `memory`: bytes allocated a turn", None, "{:,.0f}"),
    ("w2", "ratio", "w2 `full`: turns a second, by the floor's `wal-full`", ">= 3", "{:.2f}"),
    ("w2", "ours_per_s", "w2 `full`: turns a second", None, "{:,.0f}"),
    ("w3", "us_per_node", "w3 `none`: a node, microseconds", "<= 2", "{:.2f}"),
    ("engine", "observed_us_per_node", "w3 with one observer: a node, microseconds", "<= 4", "{:.2f}"),
    ("engine", "checkpoint_us_normal", "a checkpoint after each node, SQLite `normal`: microseconds", "<= 60", "{:.1f}"),
    ("engine", "checkpoint_by_raw_commit", "the same, `full`: by a raw commit of one row", "<= 1.6", "{:.2f}"),
    ("engine", "fan_out_ms", "a fan-out of 10,000 trivial instances, ms", "<= 20", "{:.1f}"),
    ("engine", "live_bytes_late_by_early", "a run without a checkpointer: bytes held at step 100,000, by those at step 1,000", "<= 1.02", "{:.3f}"),
    ("engine", "late_step_cpu_by_early", "with one: CPU of a step near 100,000, by that near 10", "<= 1.1", "{:.2f}"),
    ("engine", "late_step_bytes_by_early", "the same: bytes bound", "<= 1.1", "{:.3f}"),
    ("engine", "long_history_by_short", "a step beside 100,000 messages, by one beside 10", "<= 1.1", "{:.2f}"),
    ("w4-suspend", "ratio", "w4: suspensions a second, by the floor's commits (`sqlite` `wal-full`)", ">= 0.35", "{:.2f}"),
    ("w4-suspend", "bytes_per_session", "w4: bytes of a suspended session", "<= 1536", "{:,.0f}"),
    ("w4-resume", "ratio", "w4: resumes a second in a new process, by the same", ">= 0.3", "{:.2f}"),
    ("calls", "memory_overhead_us", "a call of a model with a prompt of 100 KiB, `memory`: what harness, engine and mapping add to a bare call, microseconds", "<= 1000", "{:.0f}"),
    ("calls", "memory_by_bare", "the same: a turn, by a bare reqwest call with the same bytes", "<= 3", "{:.2f}"),
    ("calls", "full_by_bare", "the same, `full`: with both commits", None, "{:.2f}"),
    ("calls", "memory_us_per_delta", "a streamed delta, from the socket to who listens, microseconds", "<= 20", "{:.2f}"),
    ("calls", "memory_bare_us_per_delta", "the same bytes, read by a bare client", None, "{:.2f}"),
    ("streams", "memory_peak_rss_mib", "1,000 answers that stream at the same time, their server included: peak memory, MiB", "<= 300", "{:.0f}"),
    ("streams", "full_peak_rss_mib", "the same, `full`", "<= 300", "{:.0f}"),
    ("w5", "wall_ms", "w5: start, one durable turn, exit, ms", "<= 15", "{:.1f}"),
    ("w5", "peak_rss_mib", "w5: peak memory, MiB", "<= 15", "{:.1f}"),
    ("server", "turns_per_s", "the server: turns a second over HTTP, 1,000 sessions of 5 turns, 64 at a time", None, "{:,.0f}"),
    ("server", "by_inside", "the same, by w2 `full` in-process", ">= 0.25", "{:.2f}"),
    ("server", "p99_ms", "the same: a turn, ms (99th percentile)", "<= 50", "{:.1f}"),
    ("server", "cpu_ms_per_turn", "the same: CPU of the server a turn, ms", None, "{:.3f}"),
    ("server", "streamed_by_inside", "the same with 2,000 event streams open on these sessions: turns a second, by w2 in-process", None, "{:.2f}"),
    ("server", "streamed_p99_ms", "the same: a turn, ms (99th percentile)", "<= 50", "{:.1f}"),
    ("server", "rss_mib_streams", "the server's memory with 2,000 streams that are silent, MiB", None, "{:.0f}"),
    ("server", "peak_rss_mib", "its peak with 2,000 streams that tell every turn, MiB", None, "{:.0f}"),
    ("server", "memory_by_bound", "the same, by 150 MB and 20 KB for each stream", "<= 1", "{:.2f}"),
    ("server", "start_ms", "the server: from the start of the process until it listens, ms", "<= 100", "{:.0f}"),
]
for name, through in (("postgres", ""), ("postgres-pooled", " through pgbouncer (`pooler=transaction`)")):
    FIGURES += [
        (name, "per_s", f"w2 on PostgreSQL{through}: turns a second, database on the same machine", ">= 1500", "{:,.0f}"),
        (name, "floor_per_s", f"its floor{through}: turns a second", None, "{:,.0f}"),
        (name, "ratio", f"w2 on PostgreSQL{through}, by the floor", ">= 0.5", "{:.2f}"),
        (name, "cpu_ms", f"the same{through}: our CPU a turn, ms", None, "{:.3f}"),
        (name, "p50_ms", f"w1 on PostgreSQL{through}: a turn, ms (median)", "<= 1.5", "{:.2f}"),
        (name, "p50_ratio", f"the same{through}, by one client of the floor", "<= 3", "{:.2f}"),
    ]
FIGURES += [
    ("takeover", "last_ms", "1,000 running turns of a server that is killed: until the last one goes on at two others, ms (median; the lease is 5 s)", None, "{:,.0f}"),
    ("takeover", "beyond_lease_ms", "the same beyond the lease, ms (slowest round)", "<= 1000", "{:,.0f}"),
]
COMMAND = {"w1/wal-full-2": "w1", "w1/wal-full": "w1", "w4-suspend": "w4", "w4-resume": "w4"}


def holds(value, bound):
    if " to " in bound:
        low, high = map(float, bound.split(" to "))
        return low <= value <= high
    how, limit = bound.split()
    return {"<=": value <= float(limit), ">=": value >= float(limit), "==": value == float(limit)}[how]


def table(former):
    """Writes the table; of a figure that was not measured here it keeps the former line."""
    newest = {}
    for line in open(ROWS):
        row = json.loads(line)
        newest[row["figure"]] = row
    lines = ["| figure | measured | bound | | command | date | load |", "|---|---|---|---|---|---|---|"]
    for figure, key, what, bound, form in FIGURES:
        if figure not in newest:
            # Two figures may be called the same: their lines are in order.
            kept = next((line for line in former if line.startswith(f"| {what} |")), None)
            if kept is not None:
                former.remove(kept)
                lines.append(kept)
            continue
        row = newest[figure]
        verdict = "" if bound is None else "holds" if holds(row[key], bound) else "**missed**"
        script = figure.split("-")[0]
        command = f"`bench/{script}.sh`" if script in ("server", "postgres", "takeover") else f"`bench/floor.sh {COMMAND.get(figure, figure)}`"
        lines.append(f"| {what} | {form.format(row[key])} | {bound or ''} | {verdict} | {command} | {row['at']} | {row['load']:.1f} |")
    return "\n".join(lines)


def main():
    if not os.path.exists(ROWS):
        sys.exit("nothing is measured yet: bench/floor.sh")
    path = os.path.join(HERE, "README.md")
    before, rest = open(path).read().split(BEGIN)
    former, after = rest.split(END)
    new = table(former.splitlines())
    print(new)
    if "--write" in sys.argv[1:]:
        with open(path, "w") as page:
            page.write(f"{before}{BEGIN}\n{new}\n{END}{after}")


if __name__ == "__main__":
    main()
