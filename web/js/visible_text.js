// Text of others as people may see it: characters that show nothing, or that change the order of the rest, become escapes.
//
// The terminal has the same function in Rust (crates/draw/src/visible_text.rs); one table of cases tests both
// (crates/draw/tests/visible_text.json).

/** Control characters except newline and tab; format, filler and tag characters; line separators; blank letters; no characters. */
const UNSEEN =
  /[\0-\x08\x0B-\x1F\x7F-\x9F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F\u2028-\u202E\u2060-\u206F\u2800\u3164\uD800-\uDFFF\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\uFFFE\uFFFF\u{110BD}\u{110CD}\u{13430}-\u{1343F}\u{1BCA0}-\u{1BCA3}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}]/u;

/** A character that shows nothing, or a run of blanks. */
const UNSEEN_OR_BLANKS = new RegExp(`${UNSEEN.source}|[ \\t\\u00A0\\u1680\\u2000-\\u200A\\u202F\\u205F\\u3000]+`, "gu");
const ALL_UNSEEN = new RegExp(UNSEEN.source, "gu");

/** So many plain spaces in a row are still seen as what they are. */
const SPACES_MAX = 8;

/** Scripts whose letters join, or do not, by the characters U+200C and U+200D. */
const JOINING = /^[\u0620-\u0DFF]$/u;
const PICTOGRAPH =
  /^[\u00A9\u00AE\u203C\u2049\u2122\u2139\u2190-\u21FF\u2300-\u23FF\u24C2\u25A0-\u27BF\u2934\u2935\u2B00-\u2BFF\u3030\u303D\u3297\u3299\uFE0F\u{1F000}-\u{1FAFF}]$/u;
const KEYCAP = /^[#*0-9]$/;

/** Returns a text of others with an escape for each character that nobody sees, as `\u{202e}`. Newlines and tabs stay. */
export function visibleText(text) {
  return text.replaceAll("\r\n", "\n").replace(ALL_UNSEEN, (it, at, all) => (belongs(it, at, all) ? it : escaped(it, 1)));
}

/**
 * Returns text of which every character counts, such as the arguments of an action that a person approves: blanks other than
 * a few spaces are escapes, too, as `\u{a0 x 6000}` where they are many. Blanks at the beginning of a line are indentation
 * and stay: give it JSON, in which a newline of a value is no newline.
 */
export function visibleValue(text) {
  return text.replace(UNSEEN_OR_BLANKS, (it, at, all) => {
    if (UNSEEN.test(it)) return belongs(it, at, all) ? it : escaped(it, 1);
    const isFew = /^ +$/.test(it) && (it.length <= SPACES_MAX || at === 0 || all[at - 1] === "\n");
    if (isFew || (it.length === 1 && it !== "\t")) return it;
    return it.replace(/(.)\1*/gu, (run, blank) => escaped(blank, run.length));
  });
}

/** Joiners and variation selectors are part of what is seen where they stand between letters or pictographs. */
function belongs(it, at, all) {
  const before = characterBefore(all, at);
  const after = at + it.length < all.length ? String.fromCodePoint(all.codePointAt(at + it.length)) : "";
  if (it === "\u200C" || it === "\u200D") {
    if (JOINING.test(before) && JOINING.test(after)) return true;
    return it === "\u200D" && PICTOGRAPH.test(before) && PICTOGRAPH.test(after) && after !== "\uFE0F";
  }
  if (it === "\uFE0E" || it === "\uFE0F") return (PICTOGRAPH.test(before) && before !== "\uFE0F") || (KEYCAP.test(before) && after === "\u20E3");
  return false;
}

function characterBefore(all, at) {
  if (at === 0) return "";
  const isPair = at > 1 && /[\uDC00-\uDFFF]/.test(all[at - 1]) && /[\uD800-\uDBFF]/.test(all[at - 2]);
  return all.slice(at - (isPair ? 2 : 1), at);
}

function escaped(character, count) {
  const number = character.codePointAt(0).toString(16);
  return count > 1 ? `\\u{${number} x ${count}}` : `\\u{${number}}`;
}
