# Sourced by packaging/try.sh: the image of packaging/Containerfile, started as its first lines describe. No container engine is
# needed: the instructions are executed on a copy of the bare Debian 12, and the program runs there as the image's user. The
# download of certificates is omitted and reported as `not run`.

# instruction NAME: prints the arguments of an instruction of the Containerfile, one line for each.
instruction() { sed -n "s/^$1 //p" packaging/Containerfile; }

try_container() {
  local image="$scratch/image"
  cp -a --reflink=auto "$base" "$image"
  dpkg-deb --fsys-tarfile "$package" | tar -xO ./usr/bin/singletree >"$scratch/singletree"
  chmod 755 "$scratch/singletree"
  local line
  while read -r line; do
    case "$line" in
      *apt-get*) echo "not run: in the image: ${line%% &&*}" ;;
      *) check "the image is made: ${line%% *}" chroot "$image" sh -c "$line" ;;
    esac
  done < <(instruction RUN)
  local from to
  while read -r from to; do cp "$scratch/$from" "$image$to"; done < <(instruction COPY)
  local user folder
  user=$(instruction USER)
  folder=$(instruction WORKDIR)
  # A free port instead of the image's, and an address of this machine.
  local words
  mapfile -t words < <({ instruction ENTRYPOINT; instruction CMD; } | jq -r '.[]' | sed 's/^0\.0\.0\.0:8787$/0.0.0.0:0/')
  contained() { chroot --userspec="$user" "$image" /usr/bin/env -i HOME=/data PATH=/usr/bin:/bin sh -c 'cd "$1" && shift && exec "$@"' - "$folder" "$@"; }
  local probe
  mapfile -t probe < <(instruction HEALTHCHECK | sed 's/.*CMD //' | jq -r '.[]')
  check "its health check fails before it runs" no contained "${probe[@]}"
  : >"$scratch/contained"
  # `exec`, so that the process id is the program's own.
  (exec chroot --userspec="$user" "$image" /usr/bin/env -i HOME=/data PATH=/usr/bin:/bin sh -c 'cd "$1" && shift && exec "$@"' - "$folder" "${words[@]}") >"$scratch/contained" 2>&1 &
  serving=$!
  check "the container starts as written" until_said 'listens at' "$scratch/contained"
  local at
  at=$(grep -o 'http://[0-9.]*:[0-9]*' "$scratch/contained" | head -1 | sed 's#//0\.0\.0\.0#//127.0.0.1#')
  check "its health check succeeds" contained "${probe[@]}"
  check "a request without a key is refused" equal "$(curl -s -o /dev/null -w '%{http_code}' "$at/v1/sessions")" 401
  local key
  key=$(contained singletree keys create --db /data/singletree.db 2>"$scratch/key")
  check "a request with a key is answered" jq -e '.status == "completed"' <(curl -fsS "$at/v1/sessions/hello/messages" -H "Authorization: Bearer $key" --json '{"content": "what time is it?"}')
  kill -TERM "$serving"
  wait "$serving"
  check "the container ends after SIGTERM" equal "$?" 0
  serving=
}
