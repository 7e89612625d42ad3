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

/** The server was not there, or what it said did not come through. */
export class Unreachable extends Error {
  constructor(cause) {
    super("The server cannot be reached.", { cause });
  }
}

const at = (...parts) => parts.map((it) => (it.startsWith("/") ? it : `/${encodeURIComponent(it)}`)).join("");

async function call(method, path, { body, headers, type = "application/json" } = {}) {
  const sent = body === undefined ? {} : { "content-type": type };
  const text = body === undefined || type !== "application/json" ? body : JSON.stringify(body);
  const reached = async () => {
    const response = await fetch(path, { method, body: text, headers: { accept: "application/json", ...sent, ...headers } });
    return { response, answer: response.headers.get("content-type")?.includes("json") ? await response.json() : null };
  };
  const { response, answer } = await reached().catch((error) => {
    throw new Unreachable(error);
  });
  if (!response.ok) throw new Problem(response.status, answer?.error);
  return answer;
}

/** Says whether it may be otherwise when it is tried again. */
export const passes = (error) => error instanceof Unreachable || error.status === 503 || error.status === 429;

/** Tries again what is safe to do again: each has a key or changes nothing. */
async function surely(method, path, options) {
  for (let pause = 300; ; pause *= 2) {
    try {
      return await call(method, path, options);
    } catch (error) {
      if (!passes(error) || pause > 10000) throw error;
      await new Promise((resolve) => setTimeout(resolve, (error.retryAfter ?? 0) * 1000 || pause));
    }
  }
}

/** The answer is that it was accepted; what comes of it comes with the events. */
const AT_ONCE = { prefer: "respond-async" };

const events = (path, options) =>
  follow((lastId, signal) => fetch(path, { headers: { accept: "text/event-stream", ...(lastId ? { "last-event-id": lastId } : {}) }, signal }), options);

export const api = {
  agents: () => surely("GET", "/v1/agents"),
  sessions: (from) => surely("GET", `/v1/sessions?order=recent&limit=200${from ? `&from=${encodeURIComponent(from)}` : ""}`),
  create: (body) => call("POST", "/v1/sessions", { body }),
  session: (id) => surely("GET", at("/v1/sessions", id)),
  messages: (id, query) => surely("GET", `${at("/v1/sessions", id, "/messages")}?${new URLSearchParams(query)}`),
  pending: (id) => surely("GET", id ? at("/v1/sessions", id, "/pending") : "/v1/pending"),
  send: (id, body, key) => call("POST", at("/v1/sessions", id, "/messages"), { body, headers: { "idempotency-key": key, ...AT_ONCE } }),
  steer: (id, body, key) => call("POST", at("/v1/sessions", id, "/steer"), { body, headers: { "idempotency-key": key, ...AT_ONCE } }),
  answer: (id, signal, body) => surely("POST", at("/v1/sessions", id, "/signals", signal), { body, headers: AT_ONCE }),
  retry: (id, turn, key) => surely("POST", at("/v1/sessions", id, "/turns", turn, "/retry"), { headers: { "idempotency-key": key, ...AT_ONCE } }),
  cancel: (id, turn) => surely("POST", at("/v1/sessions", id, "/turns", turn, "/cancel")),
  edit: (id, body) => call("POST", at("/v1/sessions", id, "/edit"), { body, headers: AT_ONCE }),
  regenerate: (id, body) => call("POST", at("/v1/sessions", id, "/regenerate"), { body, headers: AT_ONCE }),
  remove: (id) => surely("DELETE", at("/v1/sessions", id)),
  exported: (id) => surely("GET", at("/v1/sessions", id, "/export")),
  upload: (id, file) => surely("POST", at("/v1/sessions", id, "/blobs"), { body: file, type: file.type || "application/octet-stream" }),
  narration: (id, after) => surely("GET", `${at("/v1/sessions", id, "/narration")}${after ? `?after=${encodeURIComponent(after)}` : ""}`),
  clearNarration: (id) => surely("DELETE", at("/v1/sessions", id, "/narration")),
  artifacts: (id) => surely("GET", at("/v1/sessions", id, "/artifacts")),
  addArtifact: (id, body) => call("POST", at("/v1/sessions", id, "/artifacts"), { body }),
  approveArtifact: (id, body) => surely("POST", at("/v1/sessions", id, "/artifacts", "/approve"), { body }),
  campaigns: (from) => surely("GET", `/v1/campaigns?limit=100${from ? `&from=${encodeURIComponent(from)}` : ""}`),
  campaignTemplates: () => surely("GET", "/v1/campaign-templates"),
  createCampaign: (body) => call("POST", "/v1/campaigns", { body }),
  campaign: (id) => surely("GET", at("/v1/campaigns", id)),
  campaignPlan: (id) => surely("GET", at("/v1/campaigns", id, "/plan")),
  editPlan: (id, body) => call("PUT", at("/v1/campaigns", id, "/plan"), { body }),
  approvePlan: (id, body) => call("POST", at("/v1/campaigns", id, "/plan/approve"), { body }),
  rejectPlan: (id, body) => call("POST", at("/v1/campaigns", id, "/plan/reject"), { body }),
  pauseCampaign: (id) => call("POST", at("/v1/campaigns", id, "/pause")),
  resumeCampaign: (id) => call("POST", at("/v1/campaigns", id, "/resume")),
  cancelCampaign: (id) => call("POST", at("/v1/campaigns", id, "/cancel")),
  deleteCampaign: (id) => surely("DELETE", at("/v1/campaigns", id)),
  command: (id, body, key) => call("POST", at("/v1/campaigns", id, "/commands"), { body, headers: key ? { "idempotency-key": key } : {} }),
  campaignTasks: (id, query) => surely("GET", `${at("/v1/campaigns", id, "/tasks")}?${new URLSearchParams(query)}`),
  campaignLog: (id, query) => surely("GET", `${at("/v1/campaigns", id, "/log")}?${new URLSearchParams(query)}`),
  campaignArtifacts: (id) => surely("GET", at("/v1/campaigns", id, "/artifacts")),
  campaignArtifact: (id, { kind, key, version }) => surely("GET", at("/v1/campaigns", id, "/artifacts", kind, key, String(version))),
  approveCampaignArtifact: (id, body) => call("POST", at("/v1/campaigns", id, "/artifacts/approve"), { body }),
  followCampaign: (id, options) => events(at("/v1/campaigns", id, "/events"), options),
  timeline: (id, turn) => surely("GET", at("/page/sessions", id, "/turns", turn, "/timeline")),
  trace: (id, turn) => surely("GET", at("/page/sessions", id, "/turns", turn, "/trace")),
  graphUrl: (agent, live) => `${at("/page/agents", agent, "/graph.svg")}${live ? `?live=${encodeURIComponent(live)}` : ""}`,
  signIn: (key) => call("POST", "/page/sign-in", { body: { key } }),
  signedIn: () => surely("GET", "/page/sign-in").then((it) => it.signed_in),
  signOut: () => call("POST", "/page/sign-out", {}),
  blobUrl: (id, digest) => at("/v1/sessions", id, "/blobs", digest),
  follow: (id, options) => events(at("/v1/sessions", id, "/events"), options),
  followAll: (options) => events("/v1/events", options),
};
