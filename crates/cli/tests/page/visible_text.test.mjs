// Text of others: what nobody sees is shown, the same on the page and in the terminal. S6

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { visibleText, visibleValue } from "../../../../web/js/visible_text.js";

const cases = JSON.parse(readFileSync(new URL("../../../draw/tests/visible_text.json", import.meta.url)));

test("what nobody sees becomes an escape", () => {
  assert.ok(cases.length > 20);
  for (const { name, text, seen, value } of cases) {
    assert.equal(visibleText(text), seen, name);
    assert.equal(visibleValue(text), value, name);
  }
});

test("half of a character is shown as what it is", () => {
  assert.equal(visibleText("a\ud800b"), "a\\u{d800}b");
});
