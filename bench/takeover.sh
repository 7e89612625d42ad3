#!/usr/bin/env bash
# Measures how soon the turns of a server that is killed go on at two others, and prints the table of figures.
#
#   bench/takeover.sh [--turns N] [--rounds N]
#
# Takes Debian's package postgresql. The database runs on the same machine, in a scratch folder, with its default settings. A row is
# added to target/bench/rows.jsonl; `bench/report.py --write` puts the table into bench/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --locked -p singletree-cli
python3 bench/takeover.py "$@"
python3 bench/report.py
