"""Figures that are ratios to SQLite itself: both sides turn and turn about, the median over the pairs.

  paired.py w1 [--pairs N]     blocks of 100 turns, both processes and files stay open
  paired.py w2 [--pairs N]     whole runs; each times itself, without its start
  paired.py w4 [--pairs N]

With --against it measures this build beside another one instead (against.py), in 30 pairs:

  paired.py --against BINARY [--pairs N] [w1 w1-cpu w2 w4 growth]
"""
import argparse
import os
import sys
import tempfile

import against
from rows import BENCH, FLOOR, HERE, keep, median, run
from sides import TURNS, Blocks


def w1(pairs, folder):
    def floor(variant):
        script = os.path.join(HERE, "floor_blocks.py")
        db = os.path.join(folder, variant + ".db")
        return Blocks(sys.executable, script, "--db", db, "--variant", variant, "--turns", str(TURNS))

    ours = Blocks(BENCH, "blocks", "--db", os.path.join(folder, "full.db"), "--variant", "full", "--turns", str(TURNS))
    sides = {"full": ours, "wal-full-2": floor("wal-full-2"), "wal-full": floor("wal-full")}
    for side in sides.values():
        side.block()  # not measured: the file is made, pages are faulted in
    walls = {name: [] for name in sides}
    for pair in range(pairs):
        order = list(sides)
        for name in order if pair % 2 == 0 else reversed(order):
            walls[name].append(sides[name].block())
    for side in sides.values():
        side.end()
    for name in ("wal-full-2", "wal-full"):
        ratio = median(ours / floor for ours, floor in zip(walls["full"], walls[name]))
        keep(f"w1/{name}", ratio=ratio, pairs=pairs, ours_ms=median(walls["full"]) / TURNS * 1e3, floor_ms=median(walls[name]) / TURNS * 1e3)


def w2(pairs, folder):
    taken = []
    for pair in range(pairs):
        def ours():
            return run("w2", "--db", os.path.join(folder, f"o{pair}.db"), "--variant", "full")["turns_per_s"]

        def floor():
            db = os.path.join(folder, f"f{pair}.db")
            return run("w2", "--db", db, "--variant", "wal-full", program=(sys.executable, FLOOR))["turns_per_s"]

        taken.append((ours(), floor()) if pair % 2 == 0 else (floor(), ours())[::-1])
    keep("w2", ratio=median(o / f for o, f in taken), pairs=pairs, ours_per_s=median(o for o, _ in taken), floor_per_s=median(f for _, f in taken))


def w4(pairs, folder):
    taken = []
    for pair in range(pairs):
        db = os.path.join(folder, f"o{pair}.db")
        f = run("sqlite", "--db", os.path.join(folder, f"f{pair}.db"), "--variant", "wal-full", "--turns", 2000, program=(sys.executable, FLOOR))
        taken.append((run("w4-suspend", "--db", db), run("w4-resume", "--db", db), f["per_s"]))
    floor_per_s = median(f for _, _, f in taken)
    for at, name in enumerate(("w4-suspend", "w4-resume")):
        ratio = median(it[at]["per_s"] / it[2] for it in taken)
        keep(name, ratio=ratio, pairs=pairs, ours_per_s=median(it[at]["per_s"] for it in taken), floor_per_s=floor_per_s,
             bytes_per_session=median(it[at]["bytes_per_session"] for it in taken), cpu_ms=median(it[at]["cpu_ms"] for it in taken))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("figures", nargs="*", metavar="FIGURE")
    p.add_argument("--pairs", type=int, default=0)
    p.add_argument("--against", metavar="BINARY")
    a = p.parse_args()
    if unknown := [name for name in a.figures if name not in against.FIGURES]:
        p.error(f"there is no figure {unknown[0]}")
    if a.against:
        if 0 < a.pairs < against.PAIRS_MIN:
            p.error(f"--against takes at least {against.PAIRS_MIN} pairs")
        sys.exit(against.main(a.against, a.pairs or 30, a.figures or list(against.FIGURES)))
    if len(a.figures) != 1 or a.figures[0] not in ("w1", "w2", "w4"):
        p.error("one of w1, w2, w4")
    figure = a.figures[0]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as folder:
        {"w1": w1, "w2": w2, "w4": w4}[figure](a.pairs or (30 if figure == "w1" else 5), folder)


if __name__ == "__main__":
    main()
