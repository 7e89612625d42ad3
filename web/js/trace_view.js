// The trace of an answer: its nodes, model calls and tools, each below the one that it is in, with a bar for its time.

import { h } from "./dom.js";

/** Deeper rows are not indented further. */
const INDENT_MAX = 6;
const KINDS = { turn: "turn", node: "node", model: "model call", tool: "tool" };

/** Shows the turns of an invocation. What was between two of them was a wait, and has no row. */
export function traceView({ trace, turns }) {
  return [...turns.map((turn, index) => turnView(turn, index, turns.length)), h("p", { className: "note" }, "Trace ", h("code", {}, trace))];
}

function turnView({ spans, is_ended, is_partial }, index, count) {
  const heading = count > 1 ? h("h2", {}, `Part ${index + 1} of ${count}`) : null;
  const words = is_partial ? "No records of this part are kept." : is_ended ? null : spans.length ? "It is not over: a span is shown once it has been recorded." : "Nothing is recorded yet.";
  const [begin, end] = [Math.min(...spans.map((span) => span.started_at)), Math.max(...spans.map((span) => span.started_at + span.took))];
  const head = h("thead", {}, h("tr", {}, ["Span", "Time", "When"].map((name) => h("th", { scope: "col" }, name))));
  const table = spans.length > 0 && h("table", { className: "trace", aria: { label: count > 1 ? `spans of part ${index + 1}` : "spans of the answer" } }, head, h("tbody", {}, spans.map((span) => row(span, begin, end))));
  return h("section", {}, heading, words && h("p", { className: "note" }, words), table);
}

function row(span, begin, end) {
  const bar = h("span", { className: "bar", data: { kind: span.kind } });
  const whole = Math.max(end - begin, 1);
  bar.style.marginInlineStart = `${((span.started_at - begin) / whole) * 100}%`;
  bar.style.inlineSize = `${(span.took / whole) * 100}%`;
  const note = [span.is_failed && h("span", { className: "unseen" }, "failed: "), span.note];
  const name = h("th", { scope: "row" }, h("span", { className: "kind" }, KINDS[span.kind] ?? span.kind), " ", h("span", { className: "name" }, span.name), span.note && h("span", { className: "about" }, note));
  name.style.paddingInlineStart = `${Math.min(span.depth, INDENT_MAX)}em`;
  const after = `after ${duration(span.started_at - begin)}`;
  return h("tr", { className: span.is_failed ? "errored" : "" }, name, h("td", { className: "took" }, duration(span.took)), h("td", { className: "when", title: after }, h("span", { className: "unseen" }, after), h("span", { className: "lane", aria: { hidden: "true" } }, bar)));
}

/** A time of milliseconds, in words. */
export function duration(millis) {
  if (millis < 1000) return `${millis} ms`;
  if (millis < 60_000) return `${(millis / 1000).toFixed(2)} s`;
  const seconds = Math.round(millis / 1000);
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
