// Server-sent events over fetch: with an end that is told from a break, and a pace of coming again.

/** Splits a stream of text into events: feed pieces, get `{id, event, data, retry}`. */
export class EventSplitter {
  #rest = "";

  /** Returns the events that end within this piece. */
  push(piece) {
    this.#rest += piece;
    const events = [];
    for (;;) {
      const end = /\r\n\r\n|\n\n/.exec(this.#rest);
      if (!end) return events;
      const event = parse(this.#rest.slice(0, end.index));
      this.#rest = this.#rest.slice(end.index + end[0].length);
      if (event) events.push(event);
    }
  }
}

function parse(block) {
  const event = { data: null };
  for (const line of block.split(/\r?\n/)) {
    const at = line.indexOf(":");
    if (at === 0 || line === "") continue;
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
    else if (name === "id" || name === "event" || name === "retry") event[name] = value;
  }
  return event.data === null && event.retry === undefined ? null : event;
}

const FIRST_MS = 250;
const LAST_MS = 3000;

/**
 * Follows a stream for ever: after a break it comes again from the last id that it saw.
 *
 * `open(lastId, signal)` gives a Response. `onEvent` gets each event, `onState` one of `open`, `lost`, `refused` (with the
 * response). Returns a function that ends it.
 */
export function follow(open, { after, onEvent, onState }) {
  const ending = new AbortController();
  let lastId = after;
  (async () => {
    let pause = FIRST_MS;
    while (!ending.signal.aborted) {
      try {
        const response = await open(lastId, ending.signal);
        if (!response.ok) {
          if (response.status < 500 && response.status !== 429) return onState("refused", response);
          throw new Error(`answered ${response.status}`);
        }
        onState("open");
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        const splitter = new EventSplitter();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          pause = FIRST_MS;
          for (const event of splitter.push(value)) {
            if (event.id) lastId = event.id;
            if (event.data !== null) onEvent(event);
          }
        }
      } catch (error) {
        if (ending.signal.aborted) return;
      }
      onState("lost");
      await sleep(pause * (0.75 + Math.random() / 2), ending.signal);
      pause = Math.min(pause * 2, LAST_MS);
    }
  })();
  return () => ending.abort();
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    // Who comes back to the page, or to the network, does not wait.
    const now = () => (clearTimeout(timer), resolve());
    addEventListener("online", now, { once: true, signal });
    document.addEventListener("visibilitychange", now, { once: true, signal });
  });
}
