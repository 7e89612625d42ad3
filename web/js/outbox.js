// Messages that the server has not accepted yet: kept where a reload finds them, and sent again until they are answered.

import { passes } from "./api.js";

const PLACE = "singletree.outbox.";
const FIRST_MS = 300;
const LAST_MS = 5000;

/**
 * Each item is `{key, at, session, agent, content, steer}`. The idempotency key makes it safe to send again. `deliver(item)` sends
 * it; `onChange()` is called when the items changed; `onRefused(item, problem)` when one is not sent again.
 */
export class Outbox {
  #items;
  #actions;
  #running = new Set();
  #wake = new Set();

  constructor(actions) {
    this.#actions = actions;
    this.#items = read();
  }

  /** The items of a conversation, the oldest first. */
  of(session) {
    return this.#items.filter((item) => item.session === session);
  }

  /** Sends the items that were left in the browser's storage. */
  resume() {
    for (const session of new Set(this.#items.map((item) => item.session))) this.#run(session);
  }

  /** Refuses all unsent items: the next sign-in may be of another person. */
  giveBack() {
    for (const item of this.#items.splice(0)) {
      forget(item);
      this.#actions.onRefused(item);
    }
  }

  /** Whether nothing is left. */
  get isEmpty() {
    return this.#items.length === 0;
  }

  /** Forgets everything, here and in the browser's storage. */
  clear() {
    for (const item of this.#items.splice(0)) forget(item);
  }

  /** Takes an item and sends it after those before it. */
  add(item) {
    this.#items.push(item);
    keep(item);
    this.#actions.onChange();
    this.#run(item.session);
  }

  /** Tries at once: the server answers again. */
  hurry() {
    for (const wake of this.#wake) wake();
  }

  async #run(session) {
    if (this.#running.has(session)) return;
    this.#running.add(session);
    await this.#sendAll(session);
    this.#running.delete(session);
  }

  async #sendAll(session) {
    for (let pause = FIRST_MS; ; ) {
      const [item] = this.of(session);
      if (!item) return;
      try {
        await this.#actions.deliver(item);
      } catch (problem) {
        if (passes(problem)) {
          await this.#sleep((problem.retryAfter ?? 0) * 1000 || pause);
          pause = Math.min(pause * 2, LAST_MS);
          continue;
        }
        if (this.#items.includes(item)) this.#actions.onRefused(item, problem);
      }
      this.#items = this.#items.filter((other) => other !== item);
      forget(item);
      this.#actions.onChange();
      pause = FIRST_MS;
    }
  }

  #sleep(ms) {
    return new Promise((resolve) => {
      const done = () => (clearTimeout(timer), this.#wake.delete(done), resolve());
      const timer = setTimeout(done, ms);
      this.#wake.add(done);
    });
  }
}

// Each item has a place of its own, so that two tabs do not overwrite each other's. Where the browser stores nothing, an item
// lasts as long as the page.
function keep(item) {
  try {
    localStorage.setItem(PLACE + item.key, JSON.stringify(item));
  } catch {}
}

function forget(item) {
  try {
    localStorage.removeItem(PLACE + item.key);
  } catch {}
}

function read() {
  try {
    const kept = Object.keys(localStorage).filter((name) => name.startsWith(PLACE));
    return kept.flatMap(stored).sort((a, b) => a.at - b.at);
  } catch {
    return [];
  }
}

/** An item that cannot be read is left out. */
function stored(place) {
  try {
    const item = JSON.parse(localStorage.getItem(place));
    return item.session && place === PLACE + item.key ? [item] : [];
  } catch {
    return [];
  }
}
