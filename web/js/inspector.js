// The inspector: the graph with the node that works, the timeline and the trace of an answer, what was narrated, the artifacts, the
// state, the events.

import { ArtifactPanel } from "./artifact_panel.js";
import { code, pretty } from "./call_view.js";
import { fill, h } from "./dom.js";
import { NarrationPanel } from "./narration_panel.js";
import { traceView } from "./trace_view.js";

const EVENTS_MAX = 500;
const TABS = ["Graph", "Timeline", "Trace", "Narration", "Artifacts", "State", "Events"];
/** Events that come too often to be listed. */
const PIECES = ["delta", "thinking.delta"];

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
    this.narration = new NarrationPanel(api);
    this.artifacts = new ArtifactPanel(api, () => this.#show());
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

  /** Takes an event. */
  take(event, id) {
    if (event.turn) this.#turn = event.turn;
    if (PIECES.includes(event.type)) return;
    this.#events.push({ id, ...event });
    if (this.#events.length > EVENTS_MAX) this.#events.shift();
    clearTimeout(this.#due);
    this.#due = setTimeout(() => this.#show(), 120);
  }

  #showTabs() {
    const tab = (name) =>
      h("button", { type: "button", role: "tab", aria: { selected: String(name === this.#tab), controls: "panel" }, tabIndex: name === this.#tab ? 0 : -1, onclick: () => this.#pick(name), onkeydown: (event) => this.#step(event) }, name);
    fill(this.#tabs, TABS.map(tab));
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
    const parts = await this[`_${tab.toLowerCase()}`]().catch((error) => [note(error.message)]);
    if (tab === this.#tab && session === this.#session) fill(this.#panel, parts);
  }

  async _graph() {
    if (!this.#agent) return [note("No agent has answered yet.")];
    const { node, words } = await this.#timeline().then(position, () => position(null));
    return [h("div", { className: "picture" }, h("img", { src: this.api.graphUrl(this.#agent, node), alt: `graph of ${this.#agent}; ${words}` })), note(words)];
  }

  async _timeline() {
    const timeline = await this.#timeline();
    if (!timeline) return [note("Nothing has happened yet.")];
    const line = (at, words, className = "") => h("li", { className }, h("time", { dateTime: at }, clock(at)), " ", words);
    return timeline.turns.map((turn) =>
      h(
        "section",
        {},
        h("h2", {}, HEADINGS[turn.answers] ?? "End of the wait", " · ", STATES[turn.status] ?? turn.status),
        h("ol", { className: "timeline" }, turn.entries.map((entry) => line(entry.at, entryWords(entry), entry.entry)), turn.ended_at && line(turn.ended_at, STATES[turn.status] ?? turn.status, turn.status)),
      ),
    );
  }

  async _trace() {
    if (!this.#turn) return [note("Nothing has happened yet.")];
    return traceView(await this.api.trace(this.#session, this.#turn));
  }

  async _narration() {
    return this.narration.parts(this.#session);
  }

  async _artifacts() {
    // A conversation without messages is not kept yet, and keeps nothing.
    if (!this.#turn) return [note("Documents can be kept here after the first message.")];
    return this.artifacts.parts(this.#session);
  }

  async _state() {
    const { values, lists } = await this.api.exported(this.#session);
    return [
      h("h2", {}, "Values"), code(pretty(values)),
      Object.entries(lists ?? {}).map(([name, items]) => [h("h2", {}, `${name} (${items.length})`), items.length > 20 && note("The last 20 are shown."), code(pretty(items.slice(-20).map((item) => item.body)))]),
    ].flat(2);
  }

  async _events() {
    if (this.#events.length === 0) return [note("Events are listed here as they happen. None has happened since this conversation was opened; the timeline shows what happened before.")];
    const row = (event) => h("details", { className: "event" }, h("summary", {}, h("span", { className: "kind" }, event.type), h("span", { className: "state" }, event.id ?? "not stored")), code(pretty(event)));
    return [h("div", {}, this.#events.toReversed().map(row))];
  }

  #timeline() {
    return this.#turn ? this.api.timeline(this.#session, this.#turn) : Promise.resolve(null);
  }
}

const note = (words) => h("p", { className: "note" }, words);

const HEADINGS = { message: "Message", signal: "Answer of a person" };
const STATES = { open: "in progress", suspended: "waits for an answer", completed: "finished", errored: "failed" };

/** The node to highlight, and a text about it. The current node is stored when a step ends: the first step has none. */
function position(timeline) {
  const turn = timeline?.turns.at(-1);
  if (!turn || (turn.status !== "open" && turn.status !== "suspended")) return { node: null, words: "The agent is not working." };
  const now = timeline.stands?.at?.[0]?.node ?? turn.ended_in?.node;
  const last = turn.entries.findLast((entry) => entry.made_by)?.made_by.node;
  const words = now ? `now: ${now}` : last ? `The agent is working. Last finished: ${last}` : "The agent is working on its first step.";
  // The picture lights a node of the graph itself, also when what works is inside of it.
  return { node: (now ?? last)?.split("/")[0] ?? null, words };
}

const cut = (text) => (text?.length > 90 ? `${text.slice(0, 90)}…` : (text ?? ""));

function entryWords(entry) {
  const by = entry.made_by?.node ? `${entry.made_by.node}: ` : "";
  const calls = entry.calls?.length ? ` calls ${entry.calls.join(", ")}` : "";
  const words = {
    accepted: () => (entry.text ? `message: ${cut(entry.text)}` : "accepted"),
    signal: () => `${entry.signal} ${entry.how}${entry.from ? ` by ${entry.from}` : ""}`,
    message: () => `${by}${entry.role}${calls}${entry.text ? `: ${cut(entry.text)}` : ""}`,
    tool_result: () => `${by}${entry.tool || entry.call} ${entry.status}: ${cut(entry.text)}`,
    discarded: () => `${by}not kept: ${cut(entry.text)}${calls}`,
  };
  return words[entry.entry]?.() ?? entry.entry;
}

const clock = (at) => new Date(at).toLocaleTimeString(undefined, { hour12: false }) + `.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;
