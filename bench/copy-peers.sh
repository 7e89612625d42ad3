#!/usr/bin/env bash
# Copies the peers' scripts to target/peers, over what is there; what was installed there stays.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
from="${SINGLETREE_PEERS:-../shared/bench}"
if [ ! -f "$from/common/plan.py" ]; then
    echo "the peers' scripts are not in $from: set SINGLETREE_PEERS" >&2
    exit 1
fi
mkdir -p target/peers
cp -Rf "$from/." target/peers/
chmod -R u+w target/peers
