"""Two builds of singletree-bench, measured in turn: what a change costs, or saves. Called by `paired.py --against`.

For each figure the cost of this build is divided by that of BINARY, pair by pair. Printed are the median of the ratios and
its 95 % interval (order statistics, exact for any distribution). A figure is worse if the lower end of the interval is
above 1.03. The exit status is 1 if a figure is worse.
"""
import math
import os
import tempfile

from rows import BENCH, keep, median, run
from sides import TURNS, Blocks

WORSE = 1.03
# Fewer pairs enclose the median with no such certainty.
PAIRS_MIN = 6


def interval(ratios):
    """The 95 % interval of the median: the order statistics that enclose it."""
    ratios, n, tail, cut = sorted(ratios), len(ratios), 0.0, 0
    while cut < n // 2 and (tail := tail + math.comb(n, cut) / 2**n) <= 0.025:
        cut += 1
    return ratios[cut - 1], ratios[n - cut]


def alternate(pairs, measure, binaries):
    """Measures both builds in each pair, in changing order. `measure(binary, pair)` returns costs by name."""
    costs = [{}, {}]
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            for name, cost in measure(binaries[side], f"{side}-{pair}").items():
                costs[side].setdefault(name, []).append(cost)
    return {name: [here / there for here, there in zip(costs[0][name], costs[1][name])] for name in costs[0]}


def w1(pairs, folder, binaries):
    """Time of a turn: both processes and files stay open, and run blocks of turns."""
    sides = [Blocks(binary, "blocks", "--db", os.path.join(folder, f"w1-{at}.db"), "--variant", "full", "--turns", str(TURNS)) for at, binary in enumerate(binaries)]
    for side in sides:
        side.block()  # not measured: the file is made, pages are faulted in
    ratios = alternate(pairs, lambda side, _: {"w1: time of a turn": side.block()}, sides)
    for side in sides:
        side.end()
    return ratios


def w1_cpu(pairs, folder, binaries):
    def measure(binary, name):
        line = run("w1", "--db", os.path.join(folder, f"cpu-{name}.db"), "--variant", "full", "--turns", 1000, program=(binary,))
        return {"w1: CPU of a turn": line["cpu_ms_per_turn"]}

    return alternate(pairs, measure, binaries)


def w2(pairs, folder, binaries):
    def measure(binary, name):
        line = run("w2", "--db", os.path.join(folder, f"w2-{name}.db"), "--variant", "full", program=(binary,))
        return {"w2: time of a turn": 1 / line["turns_per_s"], "w2: CPU of a turn": line["cpu_ms_per_turn"]}

    return alternate(pairs, measure, binaries)


def w4(pairs, folder, binaries):
    def measure(binary, name):
        db = os.path.join(folder, f"w4-{name}.db")
        lines = {what: run(f"w4-{what}", "--db", db, program=(binary,)) for what in ("suspend", "resume")}
        times = {f"w4-{what}: time of a session": 1 / line["per_s"] for what, line in lines.items()}
        return times | {f"w4-{what}: CPU of a session": line["cpu_ms"] for what, line in lines.items()}

    return alternate(pairs, measure, binaries)


def growth(pairs, folder, binaries):
    """A late turn beside an early one, in memory."""
    turns = 10_000
    marks = [turns // 100, turns // 50, turns - turns // 100, turns]

    def measure(binary, name):
        line = run("w1", "--db", os.path.join(folder, f"growth-{name}"), "--variant", "memory", "--turns", turns, "--marks", ",".join(map(str, marks)), program=(binary,))
        late = line["marks"][str(turns)]
        return {"growth: CPU of a late turn": late["cpu_ms_per_turn_since"], "growth: bytes allocated by a late turn": late["alloc_bytes_per_turn"]}

    return alternate(pairs, measure, binaries)


FIGURES = {"w1": w1, "w1-cpu": w1_cpu, "w2": w2, "w4": w4, "growth": growth}


def main(binary, pairs, names):
    worse = False
    for name in names:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as folder:
            for figure, ratios in FIGURES[name](pairs, folder, (BENCH, binary)).items():
                low, high = interval(ratios)
                worse |= low > WORSE
                keep(f"against/{figure}", ratio=median(ratios), low=low, high=high, pairs=pairs, verdict="worse" if low > WORSE else "holds")
    return 1 if worse else 0
