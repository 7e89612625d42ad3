// What a conversation looks like, folded from its history and its events. No DOM here: tests run it as it is.
//
// The unit is the turn: what a person said, what came of it, how it ended. Messages have names (`turn/k`), so that what the
// history says and what the log says are the same thing told twice; pieces are a view that the recorded message replaces.

/** Text of a message: its own, or that of its text blocks. */
export function textOf(message) {
  if (typeof message.content === "string") return message.content;
  return (message.content ?? []).filter((it) => it.type === "text").map((it) => it.text).join("\n\n");
}

/** The images of a message, by where they are. */
export function imagesOf(message) {
  const blocks = Array.isArray(message.content) ? message.content : [];
  return blocks.filter((it) => it.type === "image").map((it) => it.source.url).filter(Boolean);
}

const invocationOf = (id) => id.split(".", 1)[0];
const turnOf = (id) => id.slice(0, id.lastIndexOf("/"));

/** One conversation, as far as it is known here. */
export class Conversation {
  /** Turns in the order in which they are shown. */
  turns = [];
  /** The place in the history of the oldest message that is here; 0 when nothing is older. */
  oldest = 0;
  /** What waits for a person, by turn. */
  #byId = new Map();

  /** The turn of this name, made where there is none. */
  turn(id, at) {
    let turn = this.#byId.get(id);
    if (!turn) {
      turn = { id, at, status: "open", begun: false, entries: [], byId: new Map(), calls: new Map(), wait: null, error: null };
      this.#byId.set(id, turn);
      this.turns.push(turn);
    }
    return turn;
  }

  /** Says whether something runs. */
  get running() {
    return this.turns.some((it) => it.status === "open" && it.begun);
  }

  /** The turns that have no outcome. */
  get open() {
    return this.turns.filter((it) => it.status === "open");
  }

  /** The turn that waits for a person, if one does. */
  get waiting() {
    return this.turns.findLast((it) => it.status === "suspended" && it.wait);
  }

  /** The tool messages of an invocation, with what is known beside them, by their call: an answer to a call may come with the turn that resumes. */
  results(turn) {
    const results = new Map();
    for (const it of this.#invocation(turn)) {
      for (const { message, side } of it.entries) if (message.role === "tool") results.set(message.tool_call_id, { ...message, side });
    }
    return results;
  }

  /** Which one of the calls that were made together it is that waits for a person, and how many these are. */
  placeOf(turn) {
    const asked = turn.wait.metadata?.call_id;
    const made = this.#invocation(turn).flatMap((it) => it.entries.map(({ message }) => message.tool_calls ?? []));
    const calls = made.findLast((it) => it.some(({ id }) => id === asked)) ?? [];
    return { nth: calls.findIndex(({ id }) => id === asked) + 1, of: calls.length };
  }

  /** The other turns that look otherwise when this one changes. */
  alike(turn) {
    return this.#invocation(turn).filter((it) => it !== turn);
  }

  #invocation(turn) {
    const name = invocationOf(turn.id);
    return this.turns.filter((it) => invocationOf(it.id) === name);
  }

  /** Takes a page of history, newest page first: what is here already stays. */
  takeHistory(items) {
    const known = this.turns;
    this.turns = [];
    for (const item of items) {
      // What came with an import, or by other ways, has no turn: each is one of its own.
      const id = item.id ?? `seq-${item.seq}/0`;
      const turn = this.turn(turnOf(id), item.at);
      if (!this.turns.includes(turn)) this.turns.push(turn);
      this.#put(turn, id, { message: item, side: item.side, recorded: true });
      turn.begun = true;
      if (turn.status === "open" && !known.includes(turn)) turn.status = "completed";
    }
    this.turns.push(...known.filter((it) => !this.turns.includes(it)));
    if (items.length > 0) this.oldest = items[0].seq;
  }

  /** Takes an event and returns the turn that it changed, if any. */
  apply(event) {
    const turn = this.turn(event.turn, event.at);
    switch (event.type) {
      case "turn.accepted":
        turn.at = event.at;
        if (event.message) this.#put(turn, `${event.turn}/0`, { message: event.message, recorded: true });
        break;
      case "message.appended":
        this.#begin(turn);
        this.#put(turn, event.message_id, { message: event.message, side: event.side, recorded: true });
        break;
      case "delta":
        this.#begin(turn);
        this.#piece(turn, event);
        break;
      case "tool.started":
        this.#begin(turn);
        turn.calls.set(event.call, { state: "running" });
        break;
      case "tool.finished":
        turn.calls.set(event.call, { state: event.success ? "done" : "failed", content: event.content });
        break;
      case "turn.suspended":
        this.#begin(turn);
        turn.status = "suspended";
        turn.wait = event.outcome.resumed_by ? null : event.outcome.wait;
        break;
      case "signal.received":
        for (const other of this.turns) if (other.wait?.number === event.wait && event.how !== "refused") other.wait = null;
        if (event.how !== "refused") this.#begin(turn);
        break;
      case "turn.completed":
        this.#end(turn, "completed");
        break;
      case "turn.errored":
        this.#end(turn, "errored");
        turn.error = event.outcome;
        break;
      case "session.forked":
        turn.status = "completed";
        turn.forked = { parent: event.parent, offset: event.offset };
        break;
      default:
        return null;
    }
    return turn;
  }

  /** A turn that waited for others stands where it begins. */
  #begin(turn) {
    if (turn.begun) return;
    turn.begun = true;
    this.turns = this.turns.filter((it) => it !== turn);
    const last = this.turns.findLastIndex((it) => it.begun || it.status !== "open");
    this.turns.splice(last + 1, 0, turn);
  }

  #end(turn, status) {
    this.#begin(turn);
    turn.status = status;
    // What was only shown is taken back: the record says what became of it.
    for (const entry of turn.entries.filter((it) => !it.recorded)) {
      turn.byId.delete(entry.id);
    }
    turn.entries = turn.entries.filter((it) => it.recorded);
  }

  #put(turn, id, what) {
    let entry = turn.byId.get(id);
    if (!entry) {
      entry = { id, k: Number(id.slice(id.lastIndexOf("/") + 1)) };
      turn.byId.set(id, entry);
      turn.entries.push(entry);
      turn.entries.sort((a, b) => a.k - b.k);
    }
    Object.assign(entry, what);
    entry.version = (entry.version ?? 0) + 1;
  }

  #piece(turn, { message_id: id, run, n, text, so_far: soFar }) {
    const entry = turn.byId.get(id);
    if (entry?.recorded || (entry && run < entry.run)) return;
    const again = !entry || run > entry.run || soFar;
    const before = again ? "" : entry.message.content;
    this.#put(turn, id, { run, n, message: { role: "assistant", content: before + text }, recorded: false });
  }
}
