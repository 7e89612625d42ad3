# The base system of Debian 12 without Rust and without a compiler, for scripts that try things there. The caller defines
# `not_run REASON`, which ends the script. Afterwards `$base` is the folder of the base system, which is copied and never
# changed. It is created once (debootstrap, from the mirror that apt uses here) and kept in target/bare-root.

[ "$(id -u)" -eq 0 ] || not_run "that needs root"
command -v apt-get >/dev/null || not_run "there is no apt-get"

# needed PROGRAM..: installs missing programs of the host from the Debian packages of the same names.
needed() {
  local missing=()
  for program in "$@"; do command -v "$program" >/dev/null || missing+=("$program"); done
  [ "${#missing[@]}" -eq 0 ] && return 0
  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1
}
needed debootstrap jq curl || not_run "debootstrap, jq or curl cannot be had"

# An interrupted installation is repeated.
base=target/bare-root
mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)' 'Identifier: Packages' \
  | awk '$1 == "Debian" && $2 == "main" && $3 !~ /-/ { print $4; exit }')
if [ ! -e "$base.made" ] || [ ! -d "$base" ]; then
  [ -n "$mirror" ] || not_run "apt has no mirror of Debian"
  rm -rf "$base"
  mkdir -p target
  debootstrap --variant=minbase bookworm "$base" "$mirror" >"$base.log" 2>&1 \
    || { tail -3 "$base.log" >&2; not_run "debootstrap failed ($base.log)"; }
  touch "$base.made"
fi
