#!/usr/bin/env bash
# Runs singletree-bench beside the peers and prints the tables.
#
#   bench/compare.sh [--peers LIST | --all] [arguments of the peers' common/run.py]
#
# LIST names folders of the peers' plan, with commas; without it, only SQLite itself (`floor`) runs beside us. Peers need
# network once, to be installed. `bench/compare.sh --pass quick` takes a few minutes, `--all` about two hours. The rows are
# kept in target/peers/results/compare.jsonl. The peers' scripts are found in ../shared/bench, or where
# SINGLETREE_PEERS says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=floor
case "${1-}" in
    --all)
        peers=langgraph-py,langgraph-js,openarmature,openai-agents,adk,graphflow,floor
        shift
        ;;
    --peers)
        peers="${2:?--peers needs a list}"
        shift 2
        ;;
esac

bench/copy-peers.sh
cargo build --release --locked -p singletree-bench
bench="$PWD/target/release/singletree-bench"
cd target/peers
# What is not asked for need not be installed: the Rust peers take long.
case "$peers" in
    *adk* | *graphflow*) ;;
    *) sed -i '/rust-peers/d' setup.sh ;;
esac
[ "$peers" = floor ] || ./setup.sh

# The copy is new each time, so that our lines stand in it once.
cat >>common/plan.py <<EOF

PEERS["singletree"] = ["$bench"]
VARIANTS["singletree"] = {"w1": ["full", "normal", "step", "memory"], "w1-3000": ["full", "memory"],
                          "w2": ["full", "normal", "memory*"], "w3": ["none"], "w4": ["full"], "w5": ["full"]}
EOF

mkdir -p results
rm -f results/compare.jsonl
python3 common/run.py --only "singletree,$peers" --out results/compare.jsonl "$@"
python3 common/report.py results/compare.jsonl | tee results/tables.md
