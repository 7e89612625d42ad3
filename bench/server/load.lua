-- Load for wrk: so many sessions of so many turns, the turns of a session in order, each connection one turn at a time.
--
--   wrk -t2 -c64 -d20s -s load.lua http://HOST:PORT -- SESSIONS TURNS PREFIX
--
-- Every thread has its share of the sessions. A connection that is free takes a session in which nothing runs; one that finds
-- none stays idle. A thread ends when all its turns are answered, so that -d is a bound, not the time that is measured. The last
-- line is one JSON object.

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long sec; long nsec; } load_time;
  int clock_gettime(int clock, load_time *time);
]]
local MONOTONIC = 1
local time = ffi.new("load_time")

local function now()
  ffi.C.clock_gettime(MONOTONIC, time)
  return tonumber(time.sec) + tonumber(time.nsec) / 1e9
end

local threads = {}

function setup(thread)
  thread:set("thread_no", #threads)
  table.insert(threads, thread)
end

function init(args)
  sessions, turns, prefix = tonumber(args[1]), tonumber(args[2]), args[3]
  free, said, due, answered, wrong = {}, {}, 0, 0, 0
  -- Two threads: wrk does not say how many there are before all are set up.
  for no = thread_no, sessions - 1, 2 do
    table.insert(free, 1, no)
    said[no], due = 0, due + turns
  end
  padding = string.rep("u", 200)
end

function request()
  if thread_no == 0 and not verified then
    -- wrk looks at one request before it begins, and sends it nowhere.
    verified = true
    return wrk.format("GET", "/")
  end
  local no = table.remove(free)
  if no == nil then
    return "" -- nothing is sent, and the connection waits for the end
  end
  begun = begun or now()
  local text = string.format("session %s%d, user message %08d ", prefix, no, said[no]) .. padding
  said[no] = said[no] + 1
  local body = '{"content":"' .. text:sub(1, 200) .. '"}'
  local headers = { ["Content-Type"] = "application/json", ["Host"] = wrk.host .. ":" .. wrk.port }
  return wrk.format("POST", "/v1/sessions/" .. prefix .. no .. "/messages", headers, body)
end

function response(status, headers, body)
  ended, answered = now(), answered + 1
  local no = tonumber(body:match('"session":"' .. prefix .. '(%d+)"'))
  local is_right = status == 200 and body:find('"status":"completed"', 1, true)
    and body:find("constant reply rrr", 1, true)
  if no == nil or not is_right then
    wrong = wrong + 1
    example = example or (status .. " " .. body:sub(1, 300))
  elseif said[no] < turns then
    table.insert(free, 1, no)
  end
  if answered >= due or no == nil then
    wrk.thread:stop()
  end
end

function done(summary, latency, requests)
  local first, last, answers, mistakes, asked, example = math.huge, 0, 0, 0, 0, nil
  for _, thread in ipairs(threads) do
    first = math.min(first, thread:get("begun") or math.huge)
    last = math.max(last, thread:get("ended") or 0)
    answers = answers + thread:get("answered")
    mistakes = mistakes + thread:get("wrong")
    asked = asked + thread:get("due")
    example = example or thread:get("example")
  end
  local errors = summary.errors
  io.write(string.format(
    '{"turns": %d, "due": %d, "wrong": %d, "errors": %d, "seconds": %.6f, "turns_per_s": %.1f, '
      .. '"p50_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f}\n',
    answers, asked, mistakes, errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    last - first, answers / (last - first), latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
  if example then
    io.stderr:write("an answer that was not right: " .. example .. "\n")
  end
end
