// The state of a conversation, computed from its history and its events. It does not use the DOM: tests run it without a browser.
//
// The unit is the turn: a message of the user, the answer, and how the turn ended. Messages have ids (`turn/k`), so the history and
// the event log may report the same message twice. Streamed pieces are replaced by the recorded message.

/** Text of a message: its own, or that of its text blocks. */
export function textOf(message) {
  if (typeof message.content === "string") return message.content;
  return (message.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n\n");
}

/** The model's thinking before a message; empty unless the agent shows thinking. */
export function thinkingOf(message) {
  const blocks = Array.isArray(message.content) ? message.content : [];
  return blocks.filter((block) => block.type === "thinking").map((block) => block.text).join("\n\n");
}

/** The URLs of the images of a message. */
export function imagesOf(message) {
  const blocks = Array.isArray(message.content) ? message.content : [];
  return blocks.filter((block) => block.type === "image").map((block) => block.source.url).filter(Boolean);
}

const invocationOf = (id) => id.split(".", 1)[0];
const turnOf = (id) => id.slice(0, id.lastIndexOf("/"));

/** A call that did not run has a JSON object with a status as its result (D8). */
const closedStatus = (message) => /^\{.*"status":\s*"(cancelled|denied|unknown|failed)"/s.exec(textOf(message))?.[1];

/** One conversation, as far as this page has read it. */
export class Conversation {
  /** Turns in the order in which they are shown. */
  turns = [];
  /** The place in the history of the oldest message that was read; 0 when nothing is older. */
  oldest = 0;
  #byId = new Map();
  /** Decisions of people about calls: by invocation, then by call. */
  #decisions = new Map();
  /** Invocations of which the timeline was read. */
  #timelinesRead = new Set();

  /** The turn with this id; a new one where there is none. */
  turn(id, at) {
    let turn = this.#byId.get(id);
    if (!turn) {
      turn = {
        id, at, status: "open", begun: false, entries: [], byId: new Map(), calls: new Map(), thinking: new Map(),
        wait: null, error: null, activity: null, retriedBy: null, takenBy: null,
      };
      this.#byId.set(id, turn);
      this.turns.push(turn);
    }
    return turn;
  }

  /** Whether a turn runs. */
  get running() {
    return this.turns.some((turn) => turn.status === "open" && turn.begun);
  }

  /** The turns that have no outcome. */
  get open() {
    return this.turns.filter((turn) => turn.status === "open");
  }

  /** The turn that waits for a person, if one does. */
  get waiting() {
    return this.turns.findLast((turn) => turn.status === "suspended" && turn.wait);
  }

  /** The text with which the conversation begins; nothing where its beginning was not read. */
  get beginning() {
    if (this.oldest !== 0) return "";
    for (const turn of this.turns) {
      const first = turn.entries.find((entry) => entry.message.role === "user");
      if (first) return textOf(first.message);
    }
    return "";
  }

  /** Whether a turn waits for another one, or for an answer of a person, before it runs. */
  isQueued(turn) {
    if (turn.status !== "open" || turn.begun) return false;
    const before = this.turns.slice(0, Math.max(0, this.turns.indexOf(turn)));
    return before.some((other) => other.status === "open") || Boolean(this.waiting);
  }

  /** Whether the messages of a turn are known not to be part of the history: then no copy can begin with them. */
  isOutsideHistory(turn) {
    return turn.status === "errored" && turn.place === undefined && turn.error?.retry_safe !== false && turn.effects !== true;
  }

  /** Whether a failed turn may be run again: it is the newest one. */
  canRetry(turn) {
    const newest = this.turns.findLast((other) => !other.takenBy && (other.entries.length > 0 || other.error));
    return turn.status === "errored" && turn === newest && !turn.retriedBy && turn.error?.bucket !== "session_terminating";
  }

  /** The state of a call: its result where it has one, whether it runs or waits, and who decided about it. */
  callState(turn, call) {
    const turns = this.#invocation(turn);
    const entries = turns.flatMap((other) => other.entries);
    const answer = entries.find(({ message }) => message.role === "tool" && message.tool_call_id === call.id);
    const live = turns.map((other) => other.calls.get(call.id)).findLast(Boolean);
    const decision = this.#decisions.get(invocationOf(turn.id))?.get(call.id) ?? null;
    const known = { answer, decision: decision && withVerdict(decision, answer), content: answer ? textOf(answer.message) : live?.content };
    if (answer) return { ...known, state: stateOfAnswer(answer, live) };
    const wait = turns.find((other) => other.wait)?.wait;
    if (wait) {
      const asked = wait.metadata?.call_id;
      return { ...known, state: asked === undefined || asked === call.id ? "waits" : decision ? "decided" : "queued" };
    }
    if (live) return { ...known, state: live.state };
    if (!turns.some((other) => other.status === "open")) return { ...known, state: "closed" };
    // A page that was opened late has missed the events of calls that started before.
    const othersRun = turns.some((other) => [...other.calls.values()].some(({ state }) => state === "running"));
    return { ...known, state: othersRun ? "queued" : "running" };
  }

  /** The message with the call that a turn waits for. */
  askingMessage(turn) {
    const asked = turn.wait?.metadata?.call_id;
    const entries = this.#invocation(turn).flatMap((other) => other.entries);
    return entries.findLast(({ message }) => (message.tool_calls ?? []).some(({ id }) => id === asked))?.message ?? null;
  }

  /** Whether decisions about calls of a turn may be missing here, since they were made before this page was opened. */
  lacksDecisions(turn) {
    const invocation = invocationOf(turn.id);
    if (this.#timelinesRead.has(invocation)) return false;
    return this.#invocation(turn).some((other) => (other.id !== invocation && other.fromHistory) || other.wait?.since !== undefined);
  }

  /** Takes the decisions from the timeline of an invocation; also none, so that they are not asked for again. */
  takeDecisions(turn, waits = []) {
    const known = this.#decisionsOf(turn.id);
    this.#timelinesRead.add(invocationOf(turn.id));
    for (const { status, metadata, answered_by: by, ended_at: at } of waits) {
      const call = metadata?.call_id;
      if (call !== undefined && status !== "pending" && !known.has(call)) known.set(call, { how: status, by, at });
    }
  }

  /** Stores an answer given on this page: the events do not distinguish an approval from a rejection. */
  noteAnswer(wait, turn, payload) {
    const call = wait.metadata?.call_id;
    if (call === undefined) return;
    const known = this.#decisionsOf(turn.id);
    known.set(call, { how: "consumed", at: Date.now(), ...known.get(call), approved: payload.approved });
  }

  /** The other turns whose appearance depends on this one. */
  related(turn) {
    return this.#invocation(turn).filter((other) => other !== turn);
  }

  #invocation(turn) {
    const name = invocationOf(turn.id);
    return this.turns.filter((other) => invocationOf(other.id) === name);
  }

  #decisionsOf(id) {
    const invocation = invocationOf(id);
    if (!this.#decisions.has(invocation)) this.#decisions.set(invocation, new Map());
    return this.#decisions.get(invocation);
  }

  /** Takes a page of history, newest page first. Turns that are known stay as they are. */
  takeHistory({ items = [], failed = [] }) {
    const known = this.turns;
    this.turns = [];
    for (const item of items) {
      // Imported messages have no turn: each is shown as a turn of its own.
      const id = item.id ?? `seq-${item.seq}/0`;
      const turn = this.turn(turnOf(id), item.at);
      if (!this.turns.includes(turn)) this.turns.push(turn);
      turn.place ??= item.seq;
      turn.fromHistory = true;
      this.#put(turn, id, { message: item, side: item.side, recorded: true });
      turn.begun = true;
      if (turn.status === "open" && !known.includes(turn)) turn.status = "completed";
    }
    for (const one of failed) this.#takeFailed(one, known);
    this.turns.push(...known.filter((turn) => !this.turns.includes(turn)));
    if (items.length > 0) this.oldest = items[0].seq;
  }

  #takeFailed({ turn: id, place, accepted_at: at, message, made = [], effects, error, retried_by: retriedBy }, known) {
    const isNew = !this.#byId.has(id);
    const turn = this.turn(id, at);
    Object.assign(turn, { status: "errored", begun: true, effects, error, retriedBy: retriedBy ?? turn.retriedBy });
    if (isNew || !known.includes(turn)) {
      // Messages outside of the history have no ids there: they get the ids from their events.
      if (message) this.#put(turn, `${id}/0`, { message, recorded: true });
      let k = Math.max(0, ...turn.entries.map((entry) => entry.k + 1));
      for (const { side, ...message } of made) this.#put(turn, `${id}/${k++}`, { message, side, recorded: true, partial: isPartial(message) });
    }
    if (turn.place !== undefined || known.includes(turn)) return;
    this.turns = this.turns.filter((other) => other !== turn);
    const after = this.turns.findIndex((other) => other.place !== undefined && other.place >= place);
    this.turns.splice(after < 0 ? this.turns.length : after, 0, turn);
  }

  /** Takes an event and returns the turn that it changed, if any. */
  apply(event) {
    if (!event.turn) return null;
    const turn = this.turn(event.turn, event.at);
    switch (event.type) {
      case "turn.accepted":
        turn.at = event.at;
        if (event.message) this.#put(turn, `${event.turn}/0`, { message: event.message, recorded: true });
        break;
      case "turn.started":
        this.#runs(turn);
        break;
      case "turn.restarted":
        this.#runs(turn);
        this.#dropUnrecorded(turn);
        turn.thinking.clear();
        turn.calls.clear();
        turn.activity = { state: "restarted" };
        break;
      case "turn.retrying":
        this.#begin(turn);
        turn.activity = { state: "retrying", attempt: event.attempt, category: event.category, until: onThisClock(event) };
        break;
      case "message.taken":
        this.#begin(turn);
        this.#markTaken(turn, event.side);
        if (!turn.byId.get(event.message_id)?.recorded) this.#put(turn, event.message_id, { message: event.message, side: event.side, recorded: false, isTaken: true });
        break;
      case "message.appended":
        this.#begin(turn);
        this.#markTaken(turn, event.side);
        turn.activity = null;
        this.#put(turn, event.message_id, { message: event.message, side: event.side, recorded: true });
        break;
      case "delta":
        this.#begin(turn);
        if (turn.activity?.state === "retrying") turn.activity = null;
        this.#takePiece(turn, event);
        break;
      case "thinking.delta":
        this.#begin(turn);
        if (turn.activity?.state === "retrying") turn.activity = null;
        this.#takeThought(turn, event);
        break;
      case "tool.started":
        this.#begin(turn);
        turn.activity = null;
        turn.calls.set(event.call, { state: "running" });
        break;
      case "tool.finished":
        turn.calls.set(event.call, { state: event.success ? "done" : "failed", content: event.content });
        break;
      case "turn.suspended":
        this.#begin(turn);
        Object.assign(turn, { status: "suspended", activity: null, wait: event.outcome.resumed_by ? null : event.outcome.wait });
        break;
      case "signal.received":
        this.#takeSignal(turn, event);
        break;
      case "turn.completed":
        this.#dropUnrecorded(turn);
        this.#end(turn, "completed");
        turn.outcome = event.outcome;
        break;
      case "turn.errored":
        // A person has read this much of the answer: it stays, and is marked as not complete.
        this.#dropUnrecorded(turn, (entry) => entry.isTaken);
        for (const entry of turn.entries) if (!entry.recorded) Object.assign(entry, { recorded: true, partial: true, version: entry.version + 1 });
        this.#end(turn, "errored");
        turn.error = event.outcome;
        break;
      case "session.forked":
        turn.status = "completed";
        break;
      default:
        return null;
    }
    return turn;
  }

  #takeSignal(turn, { wait: number, how, from, at }) {
    if (how === "refused") return;
    for (const other of this.turns.filter(({ wait }) => wait?.number === number)) {
      const call = other.wait.metadata?.call_id;
      const known = this.#decisionsOf(other.id);
      if (call !== undefined) known.set(call, { ...known.get(call), how, by: from, at });
      other.wait = null;
    }
    this.#begin(turn);
  }

  /** Begins a turn that runs now, also one whose first messages are history already. */
  #runs(turn) {
    if (turn.status === "completed") turn.status = "open";
    this.#begin(turn);
  }

  /** A turn that was queued is shown where it begins. */
  #begin(turn) {
    if (turn.begun) return;
    turn.begun = true;
    this.turns = this.turns.filter((other) => other !== turn);
    const last = this.turns.findLastIndex((other) => other.begun || other.status !== "open");
    this.turns.splice(last + 1, 0, turn);
  }

  #end(turn, status) {
    this.#begin(turn);
    Object.assign(turn, { status, activity: null });
  }

  /** A message that steers is shown in the turn that takes it, and no more as a turn of its own. */
  #markTaken(turn, side) {
    const own = this.#byId.get(side?.accepted_as);
    if (own) own.takenBy = turn.id;
  }

  /** Removes shown entries that were not recorded: the recorded messages replace them. A message that was not taken after all has a turn of its own. */
  #dropUnrecorded(turn, isDropped = () => true) {
    for (const entry of turn.entries.filter((one) => !one.recorded && isDropped(one))) {
      turn.byId.delete(entry.id);
      turn.entries = turn.entries.filter((one) => one !== entry);
      const own = entry.isTaken && this.#byId.get(entry.side.accepted_as);
      if (own) own.takenBy = null;
    }
  }

  #put(turn, id, fields) {
    let entry = turn.byId.get(id);
    if (!entry) {
      entry = { id, k: Number(id.slice(id.lastIndexOf("/") + 1)) };
      turn.byId.set(id, entry);
      turn.entries.push(entry);
      turn.entries.sort((a, b) => a.k - b.k);
    }
    Object.assign(entry, fields);
    entry.version = (entry.version ?? 0) + 1;
  }

  #takePiece(turn, { message_id: id, run, n, text, so_far: soFar, side }) {
    const entry = turn.byId.get(id);
    if (entry?.recorded || (entry && run < entry.run)) return;
    const isNewRun = !entry || run > entry.run || soFar;
    const before = isNewRun ? "" : entry.message.content;
    this.#put(turn, id, { run, n, side: side ?? entry?.side, message: { role: "assistant", content: before + text }, recorded: false });
  }

  #takeThought(turn, { message_id: messageId, id = messageId, run, text, so_far: soFar }) {
    const known = turn.thinking.get(id);
    if (known && run < known.run) return;
    const isNewRun = !known || run > known.run || soFar;
    turn.thinking.set(id, { run, text: isNewRun ? text : known.text + text });
  }
}

/** When a retry is due, by the clock of this machine, which may differ from the server's. */
function onThisClock({ at, until }) {
  const due = Date.parse(until);
  return Math.max(Date.now(), Math.min(due, Date.now() + due - Date.parse(at)));
}

/** Text of a failed turn without calls was not finished: otherwise the turn would have completed. */
const isPartial = (message) => message.role === "assistant" && !message.tool_calls?.length;

function withVerdict(decision, answer) {
  if (decision.how !== "consumed" || !answer) return decision;
  const denied = answer.side?.denied ?? (closedStatus(answer.message) === "denied" ? "" : undefined);
  return denied === undefined ? { ...decision, approved: decision.approved ?? true } : { ...decision, approved: false, reason: denied };
}

function stateOfAnswer({ message, side }, live) {
  // A tool that ran may return any text, also one that looks like a closed call: the side record decides.
  if (typeof side?.success === "boolean") return side.success ? "done" : "failed";
  if (side?.denied !== undefined) return "closed";
  if (live && live.state !== "running") return live.state;
  return closedStatus(message) ? "closed" : "done";
}
