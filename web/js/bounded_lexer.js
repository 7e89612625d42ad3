// The Markdown parser with bounds: whatever a text contains, reading it neither overflows the stack nor stops the page.

import { Lexer, Tokenizer } from "../vendor/marked-18.2.1/marked.esm.js";

/** A text that is longer is not read as Markdown, in characters. */
const TEXT_MAX = 200_000;
/** A paragraph that is longer is plain text, in characters: some patterns cost the square of it. */
const INLINE_MAX = 10_000;
/** Quotes, lists and emphasis that stand deeper in one another are plain text. */
const DEPTH_MAX = 24;
/** So many steps a text may take. */
const STEPS_MAX = 40_000;
/** How long reading a text may take where none of the other bounds stops it, in milliseconds. */
const TIME_MAX = 1_000;

/** The text costs too much to be read as Markdown: show it as it is. */
export class TooCostly extends Error {}

/** Reads Markdown into tokens; throws `TooCostly` where that would take too long. */
export function tokensOf(text, options) {
  if (text.length > TEXT_MAX) throw new TooCostly();
  try {
    return new BoundedLexer({ ...options, tokenizer: new CountingTokenizer() }).lex(text);
  } catch (error) {
    // The stack overflowed, or the parser has a fault: the text is shown all the same.
    throw error instanceof TooCostly ? error : new TooCostly(undefined, { cause: error });
  }
}

class BoundedLexer extends Lexer {
  #depth = 0;

  blockTokens(text, tokens = [], ...rest) {
    return this.#below(text, tokens, () => super.blockTokens(text, tokens, ...rest));
  }

  inlineTokens(text, tokens = []) {
    if (text.length > INLINE_MAX) return plainly(text, tokens);
    return this.#below(text, tokens, () => super.inlineTokens(text, tokens));
  }

  #below(text, tokens, read) {
    if (this.#depth >= DEPTH_MAX) return plainly(text, tokens);
    this.#depth += 1;
    try {
      return read();
    } finally {
      this.#depth -= 1;
    }
  }
}

function plainly(text, tokens) {
  tokens.push({ type: "text", raw: text, text, escaped: false });
  return tokens;
}

/** Counts the steps: the parser tries these two first, for each block and for each piece of a line. */
class CountingTokenizer extends Tokenizer {
  #steps = 0;
  #end = performance.now() + TIME_MAX;

  space(text) {
    this.#count();
    return super.space(text);
  }

  escape(text) {
    this.#count();
    return super.escape(text);
  }

  #count() {
    this.#steps += 1;
    if (this.#steps > STEPS_MAX || performance.now() > this.#end) throw new TooCostly();
  }
}
