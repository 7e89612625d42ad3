// Shows all arguments of an action to the person who decides about it; strings are shown as text, not as JSON.
//
// Every value has its own box, so that no text can look like another argument. Invisible characters are shown as
// escapes (visible_text.js).

import { h } from "./dom.js";
import { visibleValue } from "./visible_text.js";

/** Deeper values are shown as JSON. */
const DEPTH_MAX = 4;
/** A line may be indented by so many spaces; more would move its text out of sight. */
const INDENT_MAX = 40;

/** Shows a value and, for objects and lists, everything in it. */
export function valueView(value, depth = 0) {
  if (typeof value === "string") return textView(value);
  if (value === null || typeof value !== "object") return h("code", { className: "literal", dir: "ltr" }, String(value));
  const members = Object.entries(value);
  if (members.length === 0) return h("code", { className: "literal", dir: "ltr" }, Array.isArray(value) ? "[] (empty list)" : "{} (nothing)");
  if (depth >= DEPTH_MAX) return jsonView(value);
  const label = (name) => (Array.isArray(value) ? `${Number(name) + 1}.` : oneLine(name));
  return h(
    "dl",
    { className: "members" },
    members.flatMap(([name, member]) => [h("dt", {}, label(name)), h("dd", { data: { name } }, valueView(member, depth + 1))]),
  );
}

/** A value as JSON, in which every character counts. */
export function jsonView(value) {
  return h("pre", { className: "exactly" }, h("code", { dir: "ltr" }, visibleValue(JSON.stringify(value, null, 2))));
}

/** A text on one line. */
export const oneLine = (text) => visibleValue(text).replaceAll("\n", "\\n");

function textView(text) {
  const note = noteOn(text);
  const shown = visibleValue(text).replace(new RegExp(`^ {${INDENT_MAX + 1},}`, "gm"), (run) => `\\u{20 x ${run.length}}`);
  return h("div", {}, h("pre", { className: "exactly" }, h("code", { dir: "auto" }, shown)), note && h("p", { className: "note" }, note));
}

/** Describes blanks and line breaks that cannot be seen in the box of a text. */
function noteOn(text) {
  if (text === "") return "(an empty text)";
  if (text.trim() === "") return `(only blanks and line breaks: ${text.length} characters)`;
  const sides = [/^\s/.test(text) && "begins", /\s$/.test(text) && "ends"].filter(Boolean);
  return sides.length > 0 ? `(${sides.join(" and ")} with blanks or line breaks)` : null;
}
