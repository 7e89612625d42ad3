#!/usr/bin/env bash
# Installs the Debian package in a bare Debian 12 (the base system without Rust and without a compiler) and repeats the first
# examples of the guide there. Then the container's image and the systemd unit are started as documented. `packaging/try.sh [PACKAGE.deb]`, by default that of `cargo xtask release`.
# The last line counts the checks. A check that is impossible on this machine prints `not run`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

not_run() { echo "not run: the package in a bare Debian 12: $1"; exit 0; }

shopt -s nullglob
packages=(target/package/*.deb)
package="${1-${packages[0]-}}"
[ -n "$package" ] || { echo "no package: \`cargo xtask release\` makes it" >&2; exit 2; }
source packaging/try/base.sh

scratch=$(mktemp -d)
serving=
nspawn=
source packaging/try/unit.sh
source packaging/try/container.sh
ended() {
  stop_unit_system
  [ -z "$serving" ] || kill -9 "$serving" 2>/dev/null
  rm -rf "$scratch"
}
trap ended EXIT
root="$scratch/root"
cp -a --reflink=auto "$base" "$root"

passed=0
failed=0
# check NAME COMMAND..: does the command succeed? Its output is shown only if it fails.
check() {
  local name="$1"
  shift
  if "$@" >"$scratch/said" 2>&1; then
    passed=$((passed + 1))
    echo "ok: $name"
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
    sed 's/^/    /' "$scratch/said"
  fi
}
# inside PROGRAM..: runs a program in the bare system, as a user who has just logged in.
inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"; }
singletree() { inside singletree "$@"; }
# The same for a program that will be killed: call it with `&`; then `$!` is the program itself.
living() { exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/bin LANG=C.UTF-8 "$@"; }
# until_said WORDS FILE: waits until a file contains a text.
until_said() {
  for _ in $(seq 200); do
    grep -qF "$1" "$2" && return 0
    sleep 0.05
  done
  cat "$2"
  return 1
}
no() { ! "$@"; }
equal() { [ "$1" = "$2" ] || { printf 'is:     %s\nwanted: %s\n' "$1" "$2"; false; }; }

# The content of the package.
cp "$package" "$root/singletree.deb"
check "there is no Rust and no compiler" no inside sh -c 'command -v cargo || command -v rustc || command -v cc'
check "the package installs" inside dpkg -i /singletree.deb
check "the installed files equal the packed ones" inside dpkg --verify singletree
version=$(dpkg-deb -f "$package" Version)
check "the program starts and prints its version" equal "$(singletree --version)" "singletree $version"
check "every library is available" no grep -q 'not found' <(inside ldd /usr/bin/singletree)
if command -v objdump >/dev/null; then
  wanted=$(objdump -T "$root/usr/bin/singletree" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -V | tail -1)
  there=$(inside dpkg-query -W -f '${Version}' libc6)
  check "it needs glibc $wanted, $there is installed" inside dpkg --compare-versions "$there" ge "$wanted"
  check "the package declares this dependency" grep -qF "libc6 (>= $wanted)" <(dpkg-deb -f "$package" Depends)
else
  echo "not run: the needed glibc: there is no objdump"
fi
check "the manual is installed" sh -c "zcat '$root/usr/share/man/man1/singletree.1.gz' | grep -q '^.TH'"
check "a user can create and check a first configuration" inside sh -c 'cd /tmp && singletree init && OPENAI_API_KEY=none singletree check'
check "bash completes its commands" grep -q 'singletree' "$root/usr/share/bash-completion/completions/singletree"
check "only root may write its files" equal "$(inside sh -c 'dpkg -L singletree | xargs -I{} find {} -maxdepth 0 ! -type l "(" -perm /022 -o ! -user 0 ")"')" ""
if command -v systemd-analyze >/dev/null; then
  sed "s#=/usr/bin/#=$root/usr/bin/#" "$root/usr/lib/systemd/system/singletree.service" >"$scratch/singletree.service"
  check "systemd finds no fault in the unit" systemd-analyze verify --man=no "$scratch/singletree.service"
else
  echo "not run: the unit: there is no systemd-analyze"
fi

# An approval: it waits from one process to the next, and the approved action is performed once.
data="$root/root/.local/share/singletree"
singletree send 'send hello to Bob' --session bob >"$scratch/send" 2>&1
check "an action that cannot be undone waits for a person" equal "$?" 3
check "nothing was sent yet" equal "$(singletree outbox list --json | jq -c .messages)" '[]'
signal=$(singletree pending --json | jq -r '.pending[0].signal')
check "it is approved" singletree answer "$signal" approve --session bob
check "it was sent, once" equal "$(singletree outbox list --json | jq -cS '.messages[] | {to, body}')" '{"body":"hello","to":"Bob"}'

# The terminal, killed in the middle of an answer.
story=$(grep -m1 'And then she wrote that down' docs/story.txt)
mkfifo "$scratch/keys"
living singletree chat --session tale <"$scratch/keys" >"$scratch/chat" 2>&1 &
talking=$!
exec 3>"$scratch/keys"
echo 'tell me a story' >&3
check "an answer has begun" until_said 'lighthouse keeper' "$scratch/chat"
{ kill -9 $talking; exec 3>&-; wait $talking; } 2>/dev/null
check "the answer was cut off" no grep -qF "$story" "$scratch/chat"
singletree chat --session tale >"$scratch/again" 2>&1
check "after kill -9 the answer is finished" grep -qxF "$story" "$scratch/again"
told() { jq -r '.lists.messages[].body | "\(.role): \(.content)"' "$1"; }
singletree sessions export tale >"$scratch/tale.json" 2>/dev/null
check "the conversation is complete, each message once" equal "$(told "$scratch/tale.json")" "$(printf 'user: tell me a story\nassistant: %s' "$story")"
check "the doctor finds nothing" singletree doctor

# The server, started as by the unit except for address and database, killed in the middle of an answer.
unit() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/singletree.service"; }
# serve LISTEN: starts the server; its address is in $at.
serve() {
  local words
  : >"$scratch/served"
  read -ra words <<<"$(unit ExecStart | sed "s#--listen [^ ]*#--listen $1#; s#--db [^ ]*#--db /var/tmp/serve.db#")"
  living sh -c 'cd "$1" && shift && exec "$@"' - "$(unit WorkingDirectory)" "${words[@]}" >"$scratch/served" 2>&1 &
  serving=$!
  until_said 'listens at' "$scratch/served" >/dev/null
  at=$(grep -o 'http://127.0.0.1:[0-9]*' "$scratch/served" | head -1)
}
serve 127.0.0.1:0
check "the server is ready" curl -fsS "$at/readyz"
check "the page is served" grep '<title>singletree</title>' <(curl -fsS "$at/")
check "the API describes itself" jq -e .openapi <(curl -fsS "$at/openapi.json")
curl -sN "$at/v1/sessions/tale/messages" -H 'accept: text/event-stream' --json '{"content": "tell me a story"}' >"$scratch/stream" 2>&1 &
listening=$!
check "an answer streams" until_said '"delta"' "$scratch/stream"
{ kill -9 "$serving"; wait "$serving"; wait $listening; } 2>/dev/null
serve "${at#http://}"
said() { curl -fsS "$at/v1/sessions/tale/messages" | jq -r '.items[] | "\(.role): \(.content)"'; }
for _ in $(seq 200); do
  said >"$scratch/messages" 2>/dev/null
  grep -q '^assistant' "$scratch/messages" && break
  sleep 0.1
done
check "after kill -9 the answer is complete, once" equal "$(said)" "$(printf 'user: tell me a story\nassistant: %s' "$story")"
kill -TERM "$serving"
wait "$serving"
check "it ends after SIGTERM" equal "$?" 0
serving=

# Removal.
check "the package is removed" inside dpkg --purge singletree
check "only conversations are left" no sh -c "ls -d '$root'/usr/bin/singletree '$root'/etc/singletree '$root'/usr/share/doc/singletree '$root'/usr/share/man/man1/singletree* 2>/dev/null"
check "the conversations stay" test -s "$data/singletree.db"

try_container
try_unit

mib() { awk -v b="$(stat -c %s "$1")" 'BEGIN { printf "%.1f MiB", b / 1048576 }'; }
dpkg-deb --fsys-tarfile "$package" | tar -xO ./usr/bin/singletree >"$scratch/binary"
echo "sizes: package $(mib "$package"), binary in it $(mib "$scratch/binary"), bare system $(du -sm "$base" | cut -f1) MiB"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
