// What a person said that the server has not accepted yet: kept where a reload finds it, said again until it is answered.

import { passes } from "./api.js";

const PLACE = "singletree.outbox.";
const FIRST_MS = 300;
const LAST_MS = 5000;

/**
 * Each item is `{key, at, session, agent, content, steer}`. The key makes it safe to say again: what was accepted is not accepted
 * twice. `deliver(item)` says it; `onChange()` is called when there are others than before; `onRefused(item, problem)` when one
 * is not said again.
 */
export class Outbox {
  #items;
  #acts;
  #running = new Set();
  #wake = new Set();

  constructor(acts) {
    this.#acts = acts;
    this.#items = read();
  }

  /** What is on its way from a conversation, the oldest first. */
  of(session) {
    return this.#items.filter((it) => it.session === session);
  }

  /** Says again what is left from before. */
  resume() {
    for (const session of new Set(this.#items.map((it) => it.session))) this.#run(session);
  }

  /** Gives back what is left, unsaid: who signs in now may be another than who wrote it. */
  giveBack() {
    for (const item of this.#items.splice(0)) {
      forget(item);
      this.#acts.onRefused(item);
    }
  }

  /** Whether anything is on its way. */
  get isEmpty() {
    return this.#items.length === 0;
  }

  /** Forgets everything, here and in the browser's storage. */
  clear() {
    for (const item of this.#items.splice(0)) forget(item);
  }

  /** Takes an item and says it after those before it. */
  add(item) {
    this.#items.push(item);
    keep(item);
    this.#acts.onChange();
    this.#run(item.session);
  }

  /** Tries at once: the server has been heard of again. */
  hurry() {
    for (const it of this.#wake) it();
  }

  async #run(session) {
    if (this.#running.has(session)) return;
    this.#running.add(session);
    await this.#sayAll(session);
    this.#running.delete(session);
  }

  async #sayAll(session) {
    for (let pause = FIRST_MS; ; ) {
      const [item] = this.of(session);
      if (!item) return;
      try {
        await this.#acts.deliver(item);
      } catch (problem) {
        if (passes(problem)) {
          await this.#sleep((problem.retryAfter ?? 0) * 1000 || pause);
          pause = Math.min(pause * 2, LAST_MS);
          continue;
        }
        if (this.#items.includes(item)) this.#acts.onRefused(item, problem);
      }
      this.#items = this.#items.filter((it) => it !== item);
      forget(item);
      this.#acts.onChange();
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

// Each item has a place of its own: pages that are open beside each other do not write over one another. Where nothing can be
// kept, or no more, it is still said as long as this page is open.
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
    const kept = Object.keys(localStorage).filter((it) => it.startsWith(PLACE));
    return kept.flatMap(one).sort((a, b) => a.at - b.at);
  } catch {
    return [];
  }
}

/** What cannot be read holds up nothing else. */
function one(place) {
  try {
    const item = JSON.parse(localStorage.getItem(place));
    return item.session && place === PLACE + item.key ? [item] : [];
  } catch {
    return [];
  }
}
