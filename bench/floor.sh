#!/usr/bin/env bash
# Measures what bench/README.md lists, against SQLite itself, and prints the table.
#
#   bench/floor.sh [w1] [w2] [w3] [engine] [w4] [w5] [counts] [growth] [calls] [streams]      all of them without arguments
#
# The machine should be calm: nothing else running. Rows are added to target/bench/rows.jsonl; the newest of each figure
# counts. `bench/report.py --write` puts the table into bench/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bench/copy-peers.sh
cargo build --release --locked -p singletree-bench
mkdir -p target/bench
for figure in "${@:-w1 w2 w3 engine w4 w5 counts growth calls streams}"; do
    # Unquoted: the default is a list of words.
    for one in $figure; do
        case "$one" in
            w1 | w2 | w4) python3 bench/paired.py "$one" ;;
            w3 | engine | w5 | counts | growth | calls | streams) python3 bench/alone.py "$one" ;;
            *)
                echo "no figure $one" >&2
                exit 2
                ;;
        esac
    done
done
python3 bench/report.py
