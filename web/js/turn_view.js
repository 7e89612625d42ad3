// The appearance of a turn: the message, the answer, the tool calls, and how it ended.

import { callParts } from "./call_view.js";
import { imagesOf, textOf, thinkingOf } from "./conversation.js";
import { fill, h, icon } from "./dom.js";
import { show } from "./markdown.js";
import { tick } from "./ticking.js";
import { visibleText } from "./visible_text.js";

const COLOURS = 8;

/** The category of a turn that was refused because the conversation waits for a person. */
export const SUSPENDED = "chat_session_suspended";
const CANCELLED = "chat_turn_cancelled";

/** A colour for an agent: its own number of the palette, the same everywhere. */
export function colourOf(name) {
  let sum = 0;
  for (const character of name) sum = (sum * 31 + character.codePointAt(0)) % 9973;
  return sum % COLOURS;
}

/** Makes or renews the element of a turn. `actions` has the actions of the reader, and queries about the turn. */
export function turnView(turn, actions, element) {
  const root = element ?? h("article", { className: "turn" });
  const open = new Set([...root.querySelectorAll("details[open]")].map((details) => details.dataset.call));
  const hadFocus = root.contains(document.activeElement);
  const parts = [];
  for (const entry of turn.entries) {
    if (entry.message.role === "user") parts.push(...drawn(() => [userPart(entry, turn, actions)]));
    else if (entry.message.role === "assistant") parts.push(...drawn(() => agentParts(entry, turn, { actions, open, root })));
  }
  for (const [id, thought] of turn.thinking) {
    if (!turn.byId.has(id)) parts.push(thinkingPart(id, thought.text, open, turn.status === "open"));
  }
  parts.push(...endParts(turn, actions, open));
  fill(root, parts);
  root.setAttribute("aria-busy", String(turn.status === "open"));
  if (hadFocus && !root.contains(document.activeElement)) actions.focusLost();
  return root;
}

/** Draws a part by itself: a part that cannot be drawn says so and hides no other, in particular no approval. */
function drawn(draw) {
  try {
    return draw();
  } catch (error) {
    console.warn("a part of a turn cannot be shown", error);
    return [h("p", { className: "note", role: "alert" }, "A part of this message cannot be shown.")];
  }
}

function userPart(entry, turn, actions) {
  const images = imagesOf(entry.message).map((url) => image(actions.imageUrl(url)));
  const isQueued = !turn.unsent && actions.isQueued(turn);
  const waits = actions.steers(turn) ? "The agent reads it at its next step" : "Waits until the current answer is finished";
  const note = turn.unsent ? "Sending…" : actions.waitsForAnswer() ? "Waits until the question above is answered" : waits;
  return h(
    "div",
    { className: `said${turn.unsent ? " unsent" : isQueued ? " queued" : ""}` },
    h("h2", { className: "unseen" }, "You wrote"),
    images,
    h("div", { className: "text plain", dir: "auto" }, visibleText(textOf(entry.message))),
    (turn.unsent || isQueued) && h("p", { className: "note" }, note),
    !turn.unsent && entry.recorded && h("div", { className: "acts" }, editButton(entry, turn, actions), copyButton(entry, actions)),
  );
}

/** A message that is not part of the history is edited as a new message: a copy would begin without it. */
function editButton(entry, turn, actions) {
  if (actions.isOutsideHistory(turn)) return button("edit", "Edit and send again", () => actions.edit({ ...entry, id: null }));
  return button("edit", "Edit and continue in a copy", () => actions.edit(entry));
}

/** Notes below an incomplete answer, by the model's finish reason. */
const UNFINISHED = {
  length: "This answer is cut off: it reached the model's length limit.",
  content_filter: "This answer is cut off: the model's provider withheld the rest (content filter).",
  error: "This answer is cut off: the model reported an error.",
};

function agentParts(entry, turn, { actions, open, root }) {
  const { message, side } = entry;
  const text = textOf(message);
  const agent = side?.agent ?? actions.agentOf(turn);
  const thought = thinkingOf(message) || turn.thinking.get(entry.id)?.text;
  const parts = thought ? [thinkingPart(entry.id, thought, open, false)] : [];
  const unfinished = UNFINISHED[side?.finish_reason] ?? (entry.partial ? "This answer is not complete." : side?.interrupted && "Stopped before the answer was finished.");
  if (text) {
    const answer = keptIn(root, "answer", entry);
    answer.className = `answer tone-${colourOf(agent)}${entry.recorded ? "" : " on-its-way"}`;
    fill(
      answer,
      h("h2", { className: "who" }, actions.nameOf(agent)),
      textPart(entry, text, answer),
      unfinished && h("p", { className: "note unfinished" }, unfinished),
      entry.recorded && h("div", { className: "acts" }, !entry.partial && button("again", "Another answer, in a copy", () => actions.regenerate(entry)), copyButton(entry, actions)),
    );
    parts.push(answer);
  } else if (entry.recorded && unfinished) {
    parts.push(h("p", { className: "note unfinished" }, unfinished));
  }
  for (const call of message.tool_calls ?? []) parts.push(...callParts(call, actions.callState(turn, call), open.has(call.id)));
  return parts;
}

/** The model's thinking, folded: it is not part of the answer. */
function thinkingPart(id, text, open, isOpenEnded) {
  const key = `thinking ${id}`;
  return h(
    "details",
    { className: "thinking", data: { call: key }, open: open.has(key) },
    h("summary", {}, isOpenEnded ? "Thinking…" : "Thinking"),
    h("div", { className: "as-it-is", dir: "auto" }, visibleText(text)),
  );
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

function endParts(turn, actions, open) {
  const parts = [];
  const isStreaming = turn.entries.some((entry) => !entry.recorded);
  if (turn.activity?.state === "restarted") parts.push(h("p", { className: "note restarted", role: "status" }, "The server was restarted. This answer starts again."));
  if (turn.activity?.state === "retrying") parts.push(retryingPart(turn.activity));
  if (turn.status === "open" && !isStreaming && !actions.isQueued(turn)) {
    parts.push(h("p", { className: "working", role: "status" }, h("span", { className: "unseen" }, "The agent is working"), h("i"), h("i"), h("i")));
  }
  if (turn.wait) parts.push(actions.approval(turn));
  if (turn.outcome?.empty_answer) parts.push(h("p", { className: "note" }, "The model gave no answer."));
  if (turn.error) parts.push(...failureParts(turn, actions, open));
  return parts;
}

const RETRIED = {
  provider_rate_limit: "The model service is busy.",
  provider_unavailable: "The model service cannot be reached.",
};

function retryingPart({ category, attempt, until }) {
  const left = () => Math.max(0, Math.ceil((until - Date.now()) / 1000));
  const countdown = tick(h("span", { aria: { hidden: "true" } }), () => (left() > 0 ? `Trying again in ${left()} s.` : "Trying again…"));
  const count = attempt > 1 ? ` Attempt ${attempt - 1} failed.` : "";
  return h("p", { className: "note retrying", role: "status" }, `${RETRIED[category] ?? "The model did not answer."}${count} `, countdown, h("span", { className: "unseen" }, "It is tried again."));
}

function failureParts(turn, actions, open) {
  const key = `failure ${turn.id}`;
  const { category, reply, diagnostic, message = diagnostic, hint } = turn.error;
  const retry = actions.canRetry(turn) && button("again", "Try again", () => actions.retry(turn), "wordy");
  if (category === CANCELLED) {
    const isNoted = turn.entries.some((entry) => entry.side?.interrupted || entry.partial);
    return [!isNoted && h("p", { className: "note" }, "Stopped."), retry && h("p", {}, retry)].filter(Boolean);
  }
  if (category === SUSPENDED) {
    const still = actions.waitsForAnswer() ? " Answer the question first." : "";
    return [h("p", { className: "note turned-back" }, `Not sent: this conversation was waiting for an answer to a question.${still}`)];
  }
  return [
    h(
      "div",
      { className: "failure", role: "alert" },
      h("p", {}, visibleText(reply || "This message could not be answered.")),
      h(
        "details",
        { data: { call: key }, open: open.has(key) },
        h("summary", {}, "Details"),
        h("p", { className: "note" }, h("code", {}, category ?? ""), message ? ` ${visibleText(message)}` : ""),
        hint && h("p", { className: "note" }, visibleText(hint)),
      ),
      turn.retriedBy && h("p", { className: "note" }, "It was tried again below."),
      retry,
    ),
  ];
}

/** A button with an icon; the words are its name. */
export function button(name, words, onclick, className = "quiet") {
  const wordy = className.includes("wordy");
  return h("button", { type: "button", className, onclick, title: words, aria: wordy ? {} : { label: words } }, icon(name), wordy && words);
}

function copyButton(entry, actions) {
  return button("copy", "Copy", () => actions.copy(textOf(entry.message)));
}

function image(url) {
  return url ? h("img", { src: url, alt: "attached image", loading: "lazy" }) : h("p", { className: "note" }, "An image on another website. It is not loaded.");
}
