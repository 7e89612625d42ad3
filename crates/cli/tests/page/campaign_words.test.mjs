// The texts of the campaign pages are whole: each in six languages, each with its values.

import assert from "node:assert/strict";
import { test } from "node:test";
import { linkTexts } from "../../../../web/js/campaign_links.js";
import { words } from "../../../../web/js/campaign_words.js";

test("every text has all languages and all values", () => {
  assert.deepEqual([words.incomplete(), linkTexts.incomplete()], [[], []]);
  assert.equal(words("planVersion", { version: 3 }), "Plan, version 3");
});
