#!/usr/bin/env bash
# Measures the server under load, and prints the table of figures.
#
#   bench/server.sh [--sessions N] [--streams N] [--runs N]
#
# It takes wrk (Debian: apt-get install wrk) and about two minutes; the machine should be calm. Rows are added to
# target/bench/rows.jsonl; `bench/report.py --write` puts the table into bench/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --locked -p singletree-bench -p singletree-cli
mkdir -p target/bench
# A connection for each stream, on either side.
ulimit -n "$(ulimit -Hn)"
python3 bench/server.py "$@"
python3 bench/report.py
