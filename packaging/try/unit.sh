# Sourced by packaging/try.sh: the systemd unit in a Debian 12 that boots with systemd as its first process, in a container of
# systemd-nspawn with a network of its own. An MCP server in JavaScript shows that the unit permits code generation at run time.

# booted COMMAND..: runs a command of this machine in the network of the booted system.
booted() { nsenter --target "$leader" --net -- "$@"; }
# in_unit_system COMMAND..: runs a command of the booted system.
in_unit_system() { nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup --root="/proc/$leader/root" --wd=/ -- /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"; }
unit_is() { [ "$(in_unit_system systemctl is-active singletree)" = "$1" ]; }
# until_true COMMAND..: waits until a command succeeds, 20 seconds at most.
until_true() {
  for _ in $(seq 200); do
    "$@" >"$scratch/until" 2>&1 && return 0
    sleep 0.1
  done
  cat "$scratch/until"
  return 1
}
main_pid() { in_unit_system systemctl show --property MainPID --value singletree; }

write_unit_settings() {
  local etc="$1/etc/singletree"
  cat >"$etc/mcp.js" <<'JS'
const lines = require("readline").createInterface({ input: process.stdin });
// Compiles code at run time, which fails if memory may not be both writable and executable.
const double = new Function("x", "for (let i = 0; i < 1e6; i++) x = x | 0; return 2 * x");
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "numbers", version: "1" } }),
    "tools/list": () => ({ tools: [{ name: "double", description: "Doubles a number.", inputSchema: { type: "object", properties: { x: { type: "integer" } }, required: ["x"] }, annotations: { readOnlyHint: true } }] }),
    "tools/call": () => ({ content: [{ type: "text", text: String(double(params.arguments.x)) }] }),
    ping: () => ({}),
  };
  const result = results[method];
  const answer = result ? { result: result() } : { error: { code: -32601, message: "not known" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...answer }) + "\n");
});
JS
  cat >"$etc/script.json" <<'JSON'
{ "model": "numbers", "rules": [
  { "when": { "user": ["double 21"] }, "then": { "calls": [{ "tool": "numbers__double", "arguments": { "x": 21 } }] } },
  { "when": { "user": ["double 21"], "results": [{ "tool": "numbers__double", "content": "{sum}" }] }, "then": { "reply": "It is {sum}." } } ],
  "fallback": { "reply": "This is message {turn}." } }
JSON
  cat >"$etc/singletree.toml" <<'TOML'
[models.main]
wire = "script"
file = "script.json"

[mcp.numbers]
command = "node"
args = ["/etc/singletree/mcp.js"]
trust_hints = true

[agents.numbers]
model = "main"
instructions = "You double numbers."
tools = ["numbers"]
TOML
}

try_unit() {
  not_tried() { echo "not run: the unit under systemd: $1"; }
  needed systemd-nspawn || apt-get install -qq -y --no-install-recommends systemd-container >/dev/null 2>&1
  command -v systemd-nspawn >/dev/null || { not_tried "there is no systemd-nspawn"; return 0; }
  local base=target/booting-root
  if [ ! -e "$base.made" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,nodejs bookworm "$base" "$mirror" >"$base.log" 2>&1 \
      || { not_tried "debootstrap failed ($base.log)"; return 0; }
    touch "$base.made"
  fi
  local root="$scratch/booting"
  cp -a --reflink=auto "$base" "$root"
  cp "$package" "$root/singletree.deb"
  check "the package installs in the system with systemd" chroot "$root" dpkg -i /singletree.deb
  write_unit_settings "$root"
  chroot "$root" systemctl enable singletree >/dev/null 2>&1
  systemd-nspawn --quiet --register=no --keep-unit --private-network --directory="$root" --boot >"$scratch/boot" 2>&1 &
  nspawn=$!
  leader=
  for _ in $(seq 300); do
    leader=$(pgrep -P "$nspawn" | head -1)
    [ -n "$leader" ] && in_unit_system systemctl is-system-running --wait >/dev/null 2>&1 && break
    [ -n "$leader" ] && in_unit_system systemctl is-active multi-user.target >/dev/null 2>&1 && break
    kill -0 "$nspawn" 2>/dev/null || break
    sleep 0.1
  done
  if [ -z "$leader" ] || ! in_unit_system true 2>/dev/null; then
    not_tried "systemd does not boot here: $(tail -1 "$scratch/boot")"
    stop_unit_system
    return 0
  fi
  local at=http://127.0.0.1:8787
  check "systemd starts the unit, and the server is ready" until_true booted curl -fsS "$at/readyz"
  check "the unit stays active" unit_is active
  booted curl -fsS "$at/v1/sessions/sums/messages" --json '{"content": "double 21"}' >"$scratch/sum" 2>&1
  check "an MCP server in JavaScript runs under the unit" equal "$(jq -r '.replies[-1].content' "$scratch/sum")" "It is 42."
  # The unit demands 65,536 descriptors; a machine with a lower limit gives its maximum.
  local allowed wanted=65536
  allowed=$(awk '/^Max open files/ { print $5 }' "/proc/$leader/limits")
  [ "$allowed" -ge "$wanted" ] || wanted=$allowed
  check "the unit has its descriptors" equal "$(in_unit_system awk '/^Max open files/ { print $5 }' "/proc/$(main_pid)/limits")" "$wanted"
  local first
  first=$(main_pid)
  in_unit_system sh -c "kill -9 $first"
  another() { local now; now=$(main_pid); [ "$now" != 0 ] && [ "$now" != "$first" ]; }
  check "after kill -9 systemd starts the unit again" until_true another
  check "it is ready again" until_true booted curl -fsS "$at/readyz"
  booted curl -fsS "$at/v1/sessions/sums/messages" >"$scratch/kept" 2>&1
  check "the conversation is kept" equal "$(jq -r '.items[-1].content' "$scratch/kept")" "It is 42."
  check "keys can be created while it runs" in_unit_system singletree keys create --db /var/lib/singletree/singletree.db
  check "the health check finds it by its database" in_unit_system singletree health --db /var/lib/singletree/singletree.db
  first=$(main_pid)
  check "its configuration is read again" in_unit_system systemctl reload singletree
  check "it is ready after that" until_true booted curl -fsS "$at/readyz"
  check "it is the same process" equal "$(main_pid)" "$first"
  check "it stops" in_unit_system systemctl stop singletree
  check "it stopped without a failure" unit_is inactive
  stop_unit_system
}

stop_unit_system() {
  [ -z "${nspawn-}" ] && return 0
  kill -TERM "$nspawn" 2>/dev/null
  for _ in $(seq 100); do kill -0 "$nspawn" 2>/dev/null || break; sleep 0.1; done
  kill -9 "$nspawn" 2>/dev/null
  wait "$nspawn" 2>/dev/null
  nspawn=
}
