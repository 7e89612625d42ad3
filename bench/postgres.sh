#!/usr/bin/env bash
# Measures w1 and w2 on PostgreSQL beside the floor, and prints the table of figures.
#
#   bench/postgres.sh [--seconds N] [--rounds N]
#
# The floor is bench/floor.sql, run by pgbench: the same rows and bytes, written by two statements a turn. The database runs on the
# same machine, in a scratch folder, with its default settings. Takes Debian's packages postgresql and, for the figures through a
# pooler, pgbouncer. The machine should be calm. Rows are added to target/bench/rows.jsonl; `bench/report.py --write` puts the table
# into bench/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --locked -p singletree-bench
python3 bench/postgres.py "$@"
python3 bench/report.py
