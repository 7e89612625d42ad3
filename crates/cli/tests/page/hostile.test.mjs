// What others say is text: nothing of it acts, nothing of it reaches out. INV-16

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { House, browse, config, model, open, run, say, shown } from "./house.mjs";

const HOSTILE = [
  "<script>window.pwned = 1</script>",
  "<img src=x onerror='window.pwned = 1'>",
  "<svg onload='window.pwned = 1'><animate onbegin='window.pwned = 1' attributeName=x dur=1s></svg>",
  "<iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>",
  "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.pwned=1&gt;'>",
  "<form action='https://evil.example'><button>Approve</button></form>",
  "<a href='https://evil.example' ping='https://evil.example/p' style='position:fixed;inset:0'>x</a>",
  "<details open ontoggle='window.pwned = 1'>x</details>",
  "<input autofocus onfocus='window.pwned = 1'>",
  "<base href='https://evil.example/'>",
  "<meta http-equiv=refresh content='0;url=https://evil.example'>",
  "<link rel=stylesheet href='https://evil.example/x.css'>",
  "<style>body{display:none}</style>",
  "[click](javascript:window.pwned=1)",
  "[click](JaVaScRiPt:window.pwned=1)",
  "[click](&#106;avascript:window.pwned=1)",
  "[click](data:text/html,<script>window.pwned=1</script>)",
  "[click](vbscript:x)",
  "[click](\u0001javascript:window.pwned=1)",
  "![x](https://evil.example/pixel.png)",
  "![x](javascript:window.pwned=1)",
  "![x\" onerror=\"window.pwned=1](x)",
  "[x](https://evil.example/\"onmouseover=\"window.pwned=1)",
  "<https://evil.example/?q=<script>>",
  "[a]: javascript:window.pwned=1\n\n[a]",
  "```html\n<script>window.pwned = 1</script>\n```",
  "`<img src=x onerror=window.pwned=1>`",
  "| <script>window.pwned=1</script> |\n|---|\n| <img src=x onerror=window.pwned=1> |",
  "\u202Etxt.exe\u202C and \u2066hidden\u2069",
  "<div id=status>spoofed</div><div class=approval>Approve</div>",
  "<a id=api></a><a id=api name=send></a><form name=composer></form>",
  "\u001b[31mred\u001b[0m \u0007",
  "x".repeat(20_000),
  `${"> ".repeat(400)}deep`,
  `${"[".repeat(500)}x${"](y)".repeat(500)}`,
];

let browser;
let house;
let talker;
before(async () => {
  browser = await browse();
  talker = await model((request) => [HOSTILE[Number(request.messages.at(-1).content)] ?? "I see."], 0);
  house = await new House("--config", config(talker.url)).start();
});
after(async () => {
  await browser?.close();
  await house?.kill();
  talker?.stop();
});

test("hostile texts of models render inert", async () => {
  const page = await open(browser, house);
  for (let n = 0; n < HOSTILE.length; n += 1) {
    await say(page, String(n));
    await page.waitForFunction((it) => document.querySelectorAll(".answer").length >= 1 && !document.querySelector(".on-its-way, .working") && [...document.querySelectorAll(".said .text")].at(-1)?.textContent === it, String(n));
    const made = await page.$$eval(".answer .text *", (all) => all.map((it) => `${it.tagName} ${it.getAttributeNames().filter((name) => !["href", "target", "rel", "title", "align", "start", "class", "tabindex", "role", "aria-label"].includes(name))}`.trim()));
    const allowed = /^(A|BLOCKQUOTE|BR|CODE|DEL|EM|H[1-6]|HR|LI|OL|P|PRE|STRONG|TABLE|TBODY|TD|TH|THEAD|TR|UL|DIV)$/;
    assert.deepEqual(made.filter((it) => !allowed.test(it)), [], HOSTILE[n].slice(0, 80));
    for (const href of await page.$$eval(".answer .text a", (all) => all.map((it) => it.href))) assert.match(href, /^(https?|mailto):/, HOSTILE[n]);
  }
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.ok(!(await page.locator("#turns").innerText()).includes("\u202E"), "what turns a text round is shown as what it is");
  assert.equal(await page.locator(".approval").count(), 0);
  assert.deepEqual(page.foreign, [], "nothing reaches out");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

const GROWING = `# A title
Words that **go on** and on,
over lines[^1].
===

- one
- two

  still two

    - deep
3. three

\`\`\`rust
fn main() {

}
\`\`\`
> said [before][later] it is defined
lazily so

| a | b |
|---|:-:|
| 1 | 2 |
not a table [later]

***

[later]: https://example.org/ "a title"

the end <b>of</b> it`;

test("a text that grows looks at every moment as if it had come at once", async () => {
  const page = await open(browser, house);
  const texts = [GROWING, ...HOSTILE.filter((it) => it.length < 200), HOSTILE.filter((it) => it.length < 200).join("\n\n")];
  const unlike = await page.evaluate(async (texts) => {
    const { show } = await import("/page/js/markdown.js");
    const unlike = [];
    for (const text of texts) {
      const grown = document.createElement("div");
      for (let n = 1; n <= text.length; n += 1) {
        const whole = document.createElement("div");
        show(whole, text.slice(0, n));
        show(grown, text.slice(0, n));
        if (grown.innerHTML !== whole.innerHTML) unlike.push([text.slice(0, n), grown.innerHTML, whole.innerHTML]);
      }
      show(grown, texts[0]);
      const first = grown.firstChild;
      show(grown, `${texts[0]} and on`);
      if (grown.firstChild !== first) unlike.push(["a block that did not change was made again"]);
    }
    return unlike.slice(0, 3);
  }, texts);
  assert.deepEqual(unlike, []);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await page.context().close();
});

test("hostile texts of people and hostile names render inert", async () => {
  const page = await open(browser, house, { at: `/#/s/${encodeURIComponent("<img src=x onerror=window.pwned=1>")}` });
  await page.waitForTimeout(50);
  for (const text of HOSTILE.slice(0, 30)) {
    await page.evaluate((it) => (document.querySelector(".composer textarea").value = it), text);
  }
  await page.goto(`${house.url}/`);
  await say(page, HOSTILE[1]);
  await page.locator(".said .text").first().waitFor();
  assert.equal(await page.locator(".said .text *").count(), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await page.context().close();
});

test("no inline script, no foreign host: the policy says so, and the page keeps it", async () => {
  const answer = await fetch(`${house.url}/`);
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.ok(!/unsafe|\*|https?:/.test(policy), policy);
  const html = await answer.text();
  assert.ok(!/<script(?![^>]*src=)|\son\w+=|\sstyle=/.test(html), "nothing inline");
  assert.ok(!/https?:\/\/(?!www\.w3\.org)/.test(html), "no foreign host");
});

test("a key is neither in the page nor in storage nor in a URL", async () => {
  const here = new House();
  const made = JSON.parse(run("keys", "create", "--name", "page test", "--tenant", "shop", "--db", here.db, "--json"));
  const key = made.secret;
  assert.match(key, /^st_/);
  const guarded = Object.assign(new House("--auth"), { db: here.db });
  await guarded.start();
  const page = await open(browser, guarded);
  await page.fill("dialog input", "st_0000000000000000_wrong");
  await page.click("dialog button");
  await page.locator("dialog [role=alert]", { hasText: /./ }).waitFor();
  await page.fill("dialog input", key);
  await page.click("dialog button");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  await say(page, "What is 6 * 7?");
  assert.match((await shown(page)).at(-1), /42/);
  // Who signs in again may be another: what was left is given back, and not said in that name.
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await say(page, "left behind");
  await page.locator("dialog").waitFor();
  assert.equal(await page.inputValue(".composer textarea"), "left behind");
  await page.evaluate(() => localStorage.setItem("singletree.outbox.k", JSON.stringify({ key: "k", at: 1, session: "other", agent: "", content: "of another" })));
  await page.evaluate(() => localStorage.setItem("singletree.outbox.x", "{"));
  await page.reload();
  await page.fill("dialog input", key);
  await page.click("dialog button");
  await page.waitForFunction(() => !document.querySelector("dialog") && document.querySelectorAll(".text").length === 2);
  await page.evaluate(() => (location.hash = "#/s/other"));
  await page.waitForFunction(() => document.querySelector(".composer textarea").value === "of another");
  await page.context().addCookies(cookies);
  const kept = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, document.cookie, location.href, [...document.querySelectorAll("input")].map((it) => it.value)]));
  const secret = key.slice(key.lastIndexOf("_") + 1);
  assert.ok(!kept.includes(secret), "the key is not kept");
  const [cookie] = await page.context().cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict" && !cookie.value.includes(secret));
  await page.context().close();
  await guarded.kill();
});
