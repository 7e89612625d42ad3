// The page, whose server's model errs: `node erring.mjs TOOLS URL CASES`. Prints the result of each case by its session, as one
// JSON object; `session` is the one that the page has made.
//
// TOOLS is where node_modules is, URL the server, CASES a list of `{session, text}` as JSON.
import { isDeepStrictEqual } from "node:util";
import { difference, inParallel, isSentence, short } from "../clients/erring.mjs";
import { browse, open, say, sessionOf, shown } from "./house.mjs";

const [, url, cases] = process.argv.slice(2);
const browser = await browse();

/** Returns the parts of a conversation that a person sees, when nothing is on its way. */
async function view(page) {
  const texts = await shown(page);
  const all = (selector) => page.$$eval(selector, (found) => found.map((element) => element.textContent.trim()));
  return { texts, calls: await all(".call .state"), failures: await all(".failure > p:first-child"), notes: await all(".unfinished") };
}

async function run({ text }, page) {
  if (await page.locator("#empty").isHidden()) await page.click("#new");
  await page.locator("#empty").waitFor();
  await say(page, text);
  await page.locator(".said", { hasText: text }).waitFor();
  const before = await view(page);
  await page.reload();
  const after = await view(page);
  const answers = await page.$$eval(".answer .text", (found) => found.map((element) => element.innerText.trim()));
  const told = { session: sessionOf(page), failed: before.failures.length > 0, text: short(answers.at(-1)) };
  const faults = page.faults.splice(0);
  if (faults.length > 0) return { ...told, fault: `errors of the page: ${faults.join("; ")}` };
  if (!isDeepStrictEqual(before, after)) return { ...told, fault: difference(before, after) };
  return before.failures.every(isSentence) ? told : { ...told, fault: `the failure says nothing: ${before.failures}` };
}

const begin = () => open(browser, { url }, { reducedMotion: "reduce" });
const results = await inParallel(JSON.parse(cases), run, { atOnce: 4, begin });
await browser.close();
console.log(JSON.stringify(results));
process.exit(0);
