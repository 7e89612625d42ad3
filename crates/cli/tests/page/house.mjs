// A server of ours that can be killed, a browser, and a model that says what a test wants.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRequire } from "node:module";

const { SINGLETREE_TOOLS: tools, SINGLETREE_BIN: bin, SINGLETREE_CHROMIUM: chromium } = process.env;
const require = createRequire(join(tools, "node_modules", "x.js"));

/** The browser. */
export async function browse() {
  const { chromium: driver } = require("playwright-core");
  return driver.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"] });
}

/** The checker of accessibility, as a script for a page. */
export const axe = () => require.resolve("axe-core/axe.min.js");

/** A folder that is gone afterwards. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "singletree-page-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Runs a command of the program to its end and returns what it prints. */
export function run(...args) {
  const ran = spawnSync(bin, args, { encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`singletree ${args.join(" ")}: ${ran.status}\n${ran.stderr}`);
  return ran.stdout;
}

/** A server over a database, on one port for all its lives. */
export class House {
  #process = null;
  #args;

  constructor(...args) {
    this.db = join(folder(), "chat.db");
    this.#args = args;
    this.port = 0;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async start() {
    this.port ||= await freePort();
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--db", this.db, ...this.#args];
    const child = spawn(bin, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    // A failed test leaves its server running: the server must not keep this process alive, nor outlive it.
    for (const handle of [child, child.stdout, child.stderr]) handle.unref();
    process.on("exit", () => child.kill("SIGKILL"));
    let told = "";
    this.#process.stderr.on("data", (it) => (told += it));
    this.#process.stdout.resume();
    const ended = once(this.#process, "exit").then(([code]) => Promise.reject(new Error(`the server ended with ${code}: ${told}`)));
    ended.catch(() => {});
    const ready = (async () => {
      for (;;) {
        const answer = await fetch(`${this.url}/healthz`).catch(() => null);
        if (answer?.ok) return;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    })();
    await Promise.race([ready, ended]);
    return this;
  }

  /** Kills it, as a power cut would. */
  async kill() {
    this.#process.ref();
    const gone = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await gone;
  }

  async json(path, init) {
    const answer = await fetch(this.url + path, init);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** The texts of a conversation as the server has it, of people and agents. */
  async transcript(session) {
    const { items } = await this.json(`/v1/sessions/${session}/messages?limit=1000`);
    return items.filter((it) => it.role === "user" || (it.role === "assistant" && it.content)).map((it) => it.content);
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/**
 * A model server that streams `pieces(request)`, one each `every` milliseconds: texts, `{thinking}`,
 * `{tool, arguments}` for calls, `{until}` to wait for a promise, `{finish}` to set the finish reason. It refuses the
 * request if the first piece is `{status, headers}`.
 */
export async function model(pieces, every = 5) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const it of request) body += it;
    const answer = [...pieces(JSON.parse(body))];
    if (answer[0]?.status) return response.writeHead(answer[0].status, answer[0].headers).end('{"error":{"message":"refused by the test"}}');
    if (!JSON.parse(body).stream) return answerWhole(response, answer);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const say = (delta, reason = null) => response.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`);
    say({ role: "assistant", content: "" });
    const began = performance.now();
    let [n, calls, reason] = [0, 0, null];
    for (const piece of answer) {
      if (typeof piece === "string") say({ content: piece });
      else if (piece.thinking) say({ reasoning_content: piece.thinking });
      else if (piece.until) await piece.until;
      else if (piece.finish) reason = piece.finish;
      else say({ tool_calls: [{ index: calls, id: `call-${calls++}`, type: "function", function: { name: piece.tool, arguments: JSON.stringify(piece.arguments) } }] });
      n += 1;
      const ahead = n * every - (performance.now() - began);
      if (ahead > 1) await new Promise((resolve) => setTimeout(resolve, ahead));
    }
    say({}, reason ?? (calls > 0 ? "tool_calls" : "stop"));
    response.end("data: [DONE]\n\n");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

/** Answers with one document, for requests that do not stream. */
async function answerWhole(response, pieces) {
  const calls = [];
  let content = "";
  for (const piece of pieces) {
    if (typeof piece === "string") content += piece;
    else if (piece.until) await piece.until;
    else if (piece.tool) calls.push({ id: `call-${calls.length}`, type: "function", function: { name: piece.tool, arguments: JSON.stringify(piece.arguments) } });
  }
  const message = { role: "assistant", content, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
  const choice = { index: 0, message, finish_reason: calls.length > 0 ? "tool_calls" : "stop" };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "m", choices: [choice], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }));
}

/** A configuration with one agent over a model's server; `tools` is a list as TOML writes it. */
export function config(url, tools = "[]", more = "") {
  const file = join(folder(), "singletree.toml");
  writeFileSync(file, `[models.main]\nwire = "openai"\nname = "m"\nbase_url = "${url}"\n\n[agents.tester]\ninstructions = "You are tested."\ntools = ${tools}\n${more}`);
  return file;
}

/** Opens the page and records its errors and its foreign requests; with `clock` the test controls its time. */
export async function open(browser, house, { clock = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, ...options });
  // Files of the page as they are now, to try a change without building the program.
  const { SINGLETREE_WEB: files } = process.env;
  if (files) await context.route((url) => url.pathname === "/" || /\.(js|css)$/.test(url.pathname), (route) => route.fulfill({ path: join(files, new URL(route.request().url()).pathname.replace("/page/", "/").replace(/\/$/, "/index.html")) }));
  const page = await context.newPage();
  // Other tests use the same two processors: only a page that takes longer than this is stuck.
  page.setDefaultTimeout(120_000);
  if (clock) await page.clock.install();
  page.faults = [];
  page.foreign = [];
  page.on("pageerror", (it) => page.faults.push(it.message));
  page.on("console", (it) => it.type() === "error" && !/Failed to load resource|net::ERR/.test(it.text()) && page.faults.push(it.text()));
  page.on("request", (it) => it.url().startsWith(house.url) || page.foreign.push(it.url()));
  await page.goto(house.url + (options.at ?? "/"));
  return page;
}

export const say = async (page, text) => {
  await page.fill(".composer textarea", text);
  await page.press(".composer textarea", "Enter");
};

/** What the page shows of what was said, as text, when nothing is on its way. */
export async function shown(page) {
  await page.waitForFunction(() => document.querySelector(".text") && !document.querySelector(".on-its-way, .working, .queued, .unsent"));
  return page.$$eval(".text", (all) => all.map((it) => it.innerText.trim()));
}

export const sessionOf = (page) => decodeURIComponent(new URL(page.url()).hash.slice(4));
