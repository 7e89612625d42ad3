// How a turn looks: what was said, what came of it, what tools did, how it ended.

import { imagesOf, textOf } from "./conversation.js";
import { fill, h, icon } from "./dom.js";
import { show } from "./markdown.js";
import { visibleText } from "./visible_text.js";

const COLOURS = 8;

/** Why a turn ends that came while the conversation waited for a person. */
export const WAITS = "chat_session_suspended";

/** A colour for an agent: its own number of the palette, the same everywhere. */
export function colourOf(name) {
  let sum = 0;
  for (const it of name) sum = (sum * 31 + it.codePointAt(0)) % 9973;
  return sum % COLOURS;
}

/** Makes or renews the element of a turn. `acts` is what can be done with it. */
export function turnView(turn, acts, element) {
  const root = element ?? h("article", { className: "turn" });
  const open = new Set([...root.querySelectorAll("details[open]")].map((it) => it.dataset.call));
  const results = acts.results(turn);
  const parts = [];
  for (const entry of turn.entries) {
    if (entry.message.role === "user") parts.push(...drawn(() => [userPart(entry, turn, acts)]));
    else if (entry.message.role === "assistant") parts.push(...drawn(() => agentParts(entry, turn, { acts, results, open, root })));
  }
  parts.push(...endParts(turn, acts));
  fill(root, parts);
  root.setAttribute("aria-busy", String(turn.status === "open"));
  return root;
}

/** Draws a part by itself: one that cannot be drawn is told, and keeps none of the others away, least of all what is asked. */
function drawn(draw) {
  try {
    return draw();
  } catch (error) {
    console.warn("a part of a turn cannot be shown", error);
    return [h("p", { className: "note", role: "alert" }, "A part of this turn cannot be shown.")];
  }
}

function userPart(entry, turn, acts) {
  const images = imagesOf(entry.message).map((url) => image(acts.imageUrl(url)));
  const queued = turn.status === "open" && !turn.begun;
  const note = turn.unsent ? "on its way" : "waits its turn";
  return h(
    "div",
    { className: `said${turn.unsent ? " unsent" : queued ? " queued" : ""}` },
    h("h2", { className: "unseen" }, "You said"),
    images,
    h("div", { className: "text plain", dir: "auto" }, visibleText(textOf(entry.message))),
    queued && h("p", { className: "note" }, note),
    !turn.unsent && h("div", { className: "acts" }, button("edit", "Edit in a fork", () => acts.edit(entry)), copyButton(entry, acts)),
  );
}

function agentParts(entry, turn, { acts, results, open, root }) {
  const { message, side } = entry;
  const text = textOf(message);
  const agent = side?.agent ?? acts.agentOf(turn);
  const parts = [];
  if (text) {
    const answer = keptIn(root, "answer", entry);
    answer.className = `answer tone-${colourOf(agent)}${entry.recorded ? "" : " on-its-way"}`;
    fill(
      answer,
      h("h2", { className: "who" }, agent),
      textPart(entry, text, answer),
      side?.interrupted && h("p", { className: "note" }, "interrupted"),
      entry.recorded && h("div", { className: "acts" }, button("again", "Regenerate in a fork", () => acts.again(entry)), copyButton(entry, acts)),
    );
    parts.push(answer);
  }
  for (const call of message.tool_calls ?? []) parts.push(callPart(call, turn, { results, open }));
  return parts;
}

/** The element of an entry: the one that is there, since moving a long text lays all of it out again. */
function keptIn(root, className, entry) {
  return root.querySelector(`.${className}[data-of="${CSS.escape(entry.id)}"]`) ?? h("div", { className, data: { of: entry.id } });
}

function textPart(entry, text, answer) {
  const part = keptIn(answer, "text", entry);
  part.dir = "auto";
  if (part.source !== text) show(part, text);
  part.source = text;
  return part;
}

function callPart(call, turn, { results, open }) {
  const result = results.get(call.id);
  const live = turn.calls.get(call.id);
  const asked = turn.wait?.metadata?.call_id;
  const state = result ? stateOf(result, live) : turn.wait ? (asked === undefined || asked === call.id ? "waits" : "queued") : turn.status === "open" ? "running" : (live?.state ?? "running");
  const words = { running: "running", waits: "waits for you", queued: "waits its turn", done: "done", failed: "failed", closed: "not run" };
  const body = result ? textOf(result) : live?.content;
  return h(
    "details",
    { className: `call ${state}`, data: { call: call.id }, open: open.has(call.id) },
    h("summary", {}, icon(state === "failed" ? "cross" : "tool"), h("span", { className: "name" }, visibleText(call.name)), h("span", { className: "state" }, words[state])),
    h("dl", {}, h("dt", {}, "Arguments"), h("dd", {}, code(pretty(call.arguments))), body !== undefined && [h("dt", {}, "Result"), h("dd", {}, code(body))]),
  );
}

function stateOf(result, live) {
  // A tool that ran may return any text, also one that looks like a closed call: what is recorded beside the message counts.
  if (typeof result.side?.success === "boolean") return result.side.success ? "done" : "failed";
  if (live && (live.state === "done" || live.state === "failed")) return live.state;
  // What closes a call that was not run is a JSON object that says so (D8).
  if (/^\{.*"status":\s*"(cancelled|denied|unknown|failed)"/.test(textOf(result))) return "closed";
  return live?.state === "failed" ? "failed" : "done";
}

function endParts(turn, acts) {
  const parts = [];
  if (turn.status === "open" && turn.begun && !turn.entries.some((it) => !it.recorded)) {
    parts.push(h("p", { className: "thinking", role: "status" }, h("span", { className: "unseen" }, "The agent works"), h("i"), h("i"), h("i")));
  }
  if (turn.wait) parts.push(acts.approval(turn));
  if (turn.forked) parts.push(h("p", { className: "note divider" }, `continues ${turn.forked.parent}`));
  if (turn.error?.category === "chat_turn_cancelled") {
    if (!turn.entries.some((it) => it.side?.interrupted)) parts.push(h("p", { className: "note" }, "stopped"));
  } else if (turn.error?.category === WAITS) {
    parts.push(h("p", { className: "note turned-back", role: "alert" }, "This conversation waits for an answer: give it above, then say this again."));
  } else if (turn.error) {
    const { category, reply, diagnostic, retry_safe: retrySafe } = turn.error;
    parts.push(
      h(
        "div",
        { className: "failure", role: "alert" },
        h("p", {}, visibleText(reply || "This turn failed.")),
        h("p", { className: "note" }, h("code", {}, category ?? ""), diagnostic ? ` ${visibleText(diagnostic)}` : ""),
        retrySafe && button("again", "Try again", () => acts.retry(turn), "wordy"),
      ),
    );
  }
  return parts;
}

/** JSON as people read it. */
export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? {}, null, 2));

/** Text as it is, in a box that scrolls. */
export const code = (text) => h("pre", { tabIndex: 0, role: "region", aria: { label: "value" } }, h("code", { dir: "ltr" }, visibleText(text)));

/** A button with an icon; the words are its name. */
export function button(name, words, onclick, className = "quiet") {
  const wordy = className.includes("wordy");
  return h("button", { type: "button", className, onclick, title: words, aria: wordy ? {} : { label: words } }, icon(name), wordy && words);
}

function copyButton(entry, acts) {
  return button("copy", "Copy", () => acts.copy(textOf(entry.message)));
}

function image(url) {
  return url ? h("img", { src: url, alt: "attached image", loading: "lazy" }) : h("p", { className: "note" }, "an image elsewhere");
}
