"""The floor's w1 in blocks, as `singletree-bench blocks`: a block of turns for each line that is read.

  floor_blocks.py --db PATH --variant {wal-full,wal-full-2} --turns N

The connection, the rows and the texts are those of the peers' floor; a turn is two rows, in one commit or in two.
"""
import argparse
import importlib.util
import json
import sys
import time

import rows

spec = importlib.util.spec_from_file_location("floor", rows.FLOOR)
floor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(floor)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--db", required=True)
    p.add_argument("--variant", required=True, choices=("wal-full", "wal-full-2"))
    p.add_argument("--turns", type=int, required=True)
    a = p.parse_args()
    c = floor.connect(a.db, a.variant)
    n = 0
    for _ in sys.stdin:
        t, cpu = time.perf_counter(), time.process_time()
        for i in range(n, n + a.turns):
            c.execute("BEGIN IMMEDIATE")
            c.execute("INSERT INTO m VALUES (?,?,?)", ("one", 2 * i, floor.b.user_text(i)))
            if a.variant == "wal-full-2":
                c.execute("COMMIT")
                c.execute("BEGIN IMMEDIATE")
            c.execute("INSERT INTO m VALUES (?,?,?)", ("one", 2 * i + 1, floor.b.REPLY))
            c.execute("COMMIT")
        n += a.turns
        print(json.dumps({"turns": a.turns, "wall_s": time.perf_counter() - t, "cpu_s": time.process_time() - cpu}), flush=True)
    assert c.execute("SELECT count(*) FROM m").fetchone()[0] == 2 * n


if __name__ == "__main__":
    main()
