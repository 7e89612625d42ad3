// What is inside: the graph with the node that works, the timeline of a turn, the state, the events as they came.

import { fill, h } from "./dom.js";
import { code, pretty } from "./turn_view.js";

const EVENTS_MAX = 500;
const TABS = ["Graph", "Timeline", "State", "Events"];

export class Inspector {
  #tabs = h("div", { className: "tabs", role: "tablist", aria: { label: "inspector" } });
  #panel = h("div", { className: "scroll panel", role: "tabpanel", tabIndex: 0, id: "panel" });
  #tab = "Graph";
  #events = [];
  #session = null;
  #turn = null;
  #agent = null;
  #due = 0;

  constructor(api) {
    this.api = api;
    this.element = h("section", { className: "inspect", aria: { label: "inspector" } }, this.#tabs, this.#panel);
    this.#showTabs();
  }

  /** Looks at another conversation, of which this is the last turn that is known. */
  open(session, agent, turn) {
    if (session !== this.#session) [this.#session, this.#events, this.#turn] = [session, [], null];
    this.#turn ??= turn;
    this.#agent = agent;
    this.#show();
  }

  /** Takes note of an event. */
  saw(event, id) {
    if (event.turn) this.#turn = event.turn;
    if (event.type === "delta") return;
    this.#events.push({ id, ...event });
    if (this.#events.length > EVENTS_MAX) this.#events.shift();
    clearTimeout(this.#due);
    this.#due = setTimeout(() => this.#show(), 120);
  }

  #showTabs() {
    const one = (name) =>
      h("button", { type: "button", role: "tab", aria: { selected: String(name === this.#tab), controls: "panel" }, tabIndex: name === this.#tab ? 0 : -1, onclick: () => this.#pick(name), onkeydown: (it) => this.#step(it) }, name);
    fill(this.#tabs, TABS.map(one));
  }

  #pick(name) {
    this.#tab = name;
    this.#showTabs();
    this.#tabs.querySelector('[aria-selected="true"]').focus();
    this.#show();
  }

  #step(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) this.#pick(TABS.at((TABS.indexOf(this.#tab) + by) % TABS.length));
  }

  async #show() {
    if (!this.element.isConnected || !this.#session) return;
    const [tab, session] = [this.#tab, this.#session];
    const parts = await this[`_${tab.toLowerCase()}`]().catch((error) => [h("p", { className: "note" }, error.message)]);
    if (tab === this.#tab && session === this.#session) fill(this.#panel, parts);
  }

  async _graph() {
    if (!this.#agent) return [h("p", { className: "note" }, "No agent has answered yet.")];
    const live = await this.#timeline().then(nodeOf, () => null);
    const words = live ? `now: ${live}` : "nothing runs";
    return [h("div", { className: "picture" }, h("img", { src: this.api.graphUrl(this.#agent, live), alt: `graph of ${this.#agent}; ${words}` })), h("p", { className: "note" }, words)];
  }

  async _timeline() {
    const timeline = await this.#timeline();
    if (!timeline) return [h("p", { className: "note" }, "Nothing has happened yet.")];
    const line = (at, words, className = "") => h("li", { className }, h("time", { dateTime: at }, clock(at)), " ", words);
    return timeline.turns.map((turn) =>
      h(
        "section",
        {},
        h("h2", {}, turn.answers === "message" ? "Message" : turn.answers === "signal" ? "Answer" : "End of the wait", " · ", turn.status),
        h("ol", { className: "timeline" }, turn.entries.map((it) => line(it.at, entryWords(it), it.entry)), turn.ended_at && line(turn.ended_at, turn.status, turn.status)),
      ),
    );
  }

  async _state() {
    const { values, lists } = await this.api.exported(this.#session);
    return [
      h("h2", {}, "Values"), code(pretty(values)),
      Object.entries(lists ?? {}).map(([name, items]) => [h("h2", {}, `${name} (${items.length})`), items.length > 20 && h("p", { className: "note" }, "the last 20"), code(pretty(items.slice(-20).map((it) => it.body)))]),
    ].flat(2);
  }

  async _events() {
    const one = (it) => h("details", { className: "event" }, h("summary", {}, h("span", { className: "kind" }, it.type), h("span", { className: "state" }, it.id ?? "passing")), code(pretty(it)));
    return [h("div", {}, this.#events.toReversed().map(one))];
  }

  #timeline() {
    return this.#turn ? this.api.timeline(this.#session, this.#turn) : Promise.resolve(null);
  }
}

function nodeOf(timeline) {
  const turn = timeline?.turns.at(-1);
  if (!turn || (turn.status !== "open" && turn.status !== "suspended")) return null;
  const node = timeline.stands?.at?.[0]?.node ?? turn.ended_in?.node ?? turn.entries.findLast((it) => it.made_by)?.made_by.node;
  // The picture lights a node of the graph itself, also when what works is inside of it.
  return node?.split("/")[0] ?? null;
}

const cut = (text) => (text?.length > 90 ? `${text.slice(0, 90)}…` : (text ?? ""));

function entryWords(it) {
  const by = it.made_by?.node ? `${it.made_by.node}: ` : "";
  const calls = it.calls?.length ? ` calls ${it.calls.join(", ")}` : "";
  const words = {
    accepted: () => `said: ${cut(it.text)}`,
    signal: () => `${it.signal} ${it.how}${it.from ? ` by ${it.from}` : ""}`,
    message: () => `${by}${it.role}${calls}${it.text ? ` says: ${cut(it.text)}` : ""}`,
    tool_result: () => `${by}${it.tool || it.call} ${it.status}: ${cut(it.text)}`,
    discarded: () => `${by}made, and not kept: ${cut(it.text)}${calls}`,
  };
  return words[it.entry]?.() ?? it.entry;
}

const clock = (at) => new Date(at).toLocaleTimeString(undefined, { hour12: false }) + `.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;
