// The native API. The key never comes here: whoever signed in has a cookie that scripts cannot read.

import { follow } from "./sse.js";

/** Why a call was not answered as asked: the server's own words. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.category = body?.category ?? "unknown";
    this.hint = body?.hint;
    this.retryAfter = body?.retry_after;
    this.body = body;
  }
}

const at = (...parts) => parts.map((it) => (it.startsWith("/") ? it : `/${encodeURIComponent(it)}`)).join("");

async function call(method, path, { body, headers, type = "application/json", signal } = {}) {
  const sent = body === undefined ? {} : { "content-type": type };
  const text = body === undefined || type !== "application/json" ? body : JSON.stringify(body);
  const response = await fetch(path, { method, body: text, headers: { accept: "application/json", ...sent, ...headers }, signal });
  const answer = response.headers.get("content-type")?.includes("json") ? await response.json() : null;
  if (!response.ok) throw new Problem(response.status, answer?.error ?? answer);
  return answer;
}

/** Tries again what is safe to do again: each has a key or changes nothing. */
async function surely(method, path, options) {
  for (let pause = 300; ; pause *= 2) {
    try {
      return await call(method, path, options);
    } catch (error) {
      const passing = !(error instanceof Problem) || error.status === 503 || error.status === 429;
      if (!passing || pause > 10000) throw error;
      await new Promise((resolve) => setTimeout(resolve, (error.retryAfter ?? 0) * 1000 || pause));
    }
  }
}

export const api = {
  agents: () => surely("GET", "/v1/agents"),
  sessions: (cursor) => surely("GET", `/v1/sessions?limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`),
  session: (id) => surely("GET", at("/v1/sessions", id)),
  messages: (id, query) => surely("GET", `${at("/v1/sessions", id, "/messages")}?${new URLSearchParams(query)}`),
  pending: (id) => surely("GET", id ? at("/v1/sessions", id, "/pending") : "/v1/pending"),
  send: (id, body, key) =>
    surely("POST", at("/v1/sessions", id, "/messages"), { body, headers: { "idempotency-key": key, prefer: "respond-async" } }),
  answer: (id, signal, body) => surely("POST", at("/v1/sessions", id, "/signals", signal), { body }),
  cancel: (turn) => surely("POST", at("/v1/turns", turn, "/cancel")),
  fork: (id, body) => call("POST", at("/v1/sessions", id, "/fork"), { body }),
  remove: (id) => surely("DELETE", at("/v1/sessions", id)),
  exported: (id) => surely("GET", at("/v1/sessions", id, "/export")),
  upload: (id, file) => surely("POST", at("/v1/sessions", id, "/blobs"), { body: file, type: file.type || "application/octet-stream" }),
  timeline: (turn) => surely("GET", at("/v1/turns", turn, "/timeline")),
  graphUrl: (agent, live) => `${at("/v1/agents", agent, "/graph.svg")}${live ? `?live=${encodeURIComponent(live)}` : ""}`,
  signIn: (key) => call("POST", "/page/sign-in", { body: { key } }),
  signOut: () => call("POST", "/page/sign-out", {}),
  blobUrl: (id, digest) => at("/v1/sessions", id, "/blobs", digest),
  follow: (id, options) =>
    follow(
      (lastId, signal) =>
        fetch(at("/v1/sessions", id, "/events"), {
          headers: { accept: "text/event-stream", ...(lastId ? { "last-event-id": lastId } : {}) },
          signal,
        }),
      options,
    ),
};
