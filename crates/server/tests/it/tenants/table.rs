//! How each route is asked: one line a route at least, whatever section it is of.

/// A request to one route. `{session}`, `{turn}`, `{signal}`, `{action}`, `{digest}`, `{key}`, `{event}` and
/// `{interrupt}` stand for ids of A, in path, query and body.
pub(crate) struct Entry {
    pub(crate) method: &'static str,
    /// The path, as the route has it.
    pub(crate) path: &'static str,
    pub(crate) query: &'static str,
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// The body, as JSON.
    pub(crate) body: Option<&'static str>,
    /// Whether the one who has the names is answered otherwise.
    pub(crate) tells: bool,
}

/// A route that tells its owner something else.
const fn of(method: &'static str, path: &'static str) -> Entry {
    Entry { method, path, query: "", headers: &[], body: None, tells: true }
}

impl Entry {
    /// One that answers all alike: it is about nobody's ids, or says nothing of them.
    const fn alike(self) -> Self {
        Self { tells: false, ..self }
    }

    const fn query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    /// Requests the answer as a stream of events.
    const fn events(self) -> Self {
        Self { headers: &[("accept", "text/event-stream")], ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        Self { body: Some(body), ..self }
    }
}

pub(crate) const TABLE: &[Entry] = &[
    // Descriptions of the server.
    of("GET", "/healthz").alike(),
    of("GET", "/readyz").alike(),
    of("GET", "/version").alike(),
    of("GET", "/metrics").alike(),
    of("GET", "/openapi.json").alike(),
    of("GET", "/docs").alike(),
    // The native API.
    of("GET", "/v1/agents").alike(),
    of("POST", "/v1/sessions").body(r#"{"id": "{session}"}"#),
    of("GET", "/v1/sessions").query("?from={session}"),
    of("GET", "/v1/sessions").query("?order=recent&from=4102444800000.{session}"),
    of("GET", "/v1/sessions/{session}"),
    of("GET", "/v1/sessions/{session}/export"),
    of("DELETE", "/v1/sessions/{session}").alike(),
    of("POST", "/v1/sessions/{session}/blobs").body("{}").alike(),
    of("GET", "/v1/sessions/{session}/blobs/{digest}"),
    of("GET", "/v1/sessions/{session}/usage"),
    of("GET", "/v1/usage"),
    of("POST", "/v1/sessions/{session}/messages").body(r#"{"content": "say hello"}"#),
    of("POST", "/v1/sessions/{session}/messages").events().body(r#"{"content": "say hello"}"#),
    of("GET", "/v1/sessions/{session}/messages"),
    of("POST", "/v1/sessions/{session}/steer").body(r#"{"content": "say hello"}"#),
    of("GET", "/v1/sessions/{session}/events").query("?after={event}0"),
    // The events of the caller's own tenant have a test of their own: the stream does not end.
    of("GET", "/v1/events").query("?after={session}").alike(),
    of("GET", "/v1/sessions/{session}/narration"),
    of("DELETE", "/v1/sessions/{session}/narration").alike(),
    of("GET", "/v1/sessions/{session}/turns"),
    of("GET", "/v1/sessions/{session}/turns/{turn}"),
    of("GET", "/v1/sessions/{session}/turns/{turn}").events(),
    of("POST", "/v1/sessions/{session}/turns/{turn}/cancel"),
    of("POST", "/v1/sessions/{session}/turns/{turn}/retry"),
    of("GET", "/v1/sessions/{session}/pending"),
    of("GET", "/v1/pending"),
    of("POST", "/v1/sessions/{session}/signals/{signal}")
        .body(r#"{"payload": {"approved": true}, "wait": 0, "action": "{action}"}"#),
    of("POST", "/v1/sessions/{session}/signals/{signal}")
        .events()
        .body(r#"{"payload": {"approved": true}, "wait": 0, "action": "{action}"}"#),
    of("POST", "/v1/sessions/{session}/fork").body(r#"{"at": 1, "id": "fork"}"#),
    of("POST", "/v1/sessions/{session}/edit")
        .body(r#"{"message": "{turn}/0", "content": "say x", "id": "fork"}"#),
    of("POST", "/v1/sessions/{session}/regenerate").body(r#"{"reply": "{turn}/1", "id": "fork"}"#),
    // Campaigns.
    of("GET", "/v1/campaigns"),
    of("POST", "/v1/campaigns").body(r#"{"id": "{campaign}", "goal": "x"}"#),
    of("GET", "/v1/campaign-templates").alike(),
    of("GET", "/v1/campaigns/{campaign}"),
    of("DELETE", "/v1/campaigns/{campaign}"),
    of("GET", "/v1/campaigns/{campaign}/plan"),
    of("PUT", "/v1/campaigns/{campaign}/plan").body(CAMPAIGN_EDITS),
    of("POST", "/v1/campaigns/{campaign}/plan/approve").body(r#"{"version": 1, "digest": "{digest}"}"#),
    of("POST", "/v1/campaigns/{campaign}/plan/reject").body(r#"{"version": 7}"#),
    of("POST", "/v1/campaigns/{campaign}/pause"),
    of("POST", "/v1/campaigns/{campaign}/resume"),
    of("POST", "/v1/campaigns/{campaign}/cancel"),
    of("POST", "/v1/campaigns/{campaign}/commands").body(r#"{"type": "unblock", "task": "report"}"#),
    of("POST", "/v1/campaigns/{campaign}/commands")
        .body(r#"{"type": "answer", "question": "x", "answer": 1}"#),
    of("GET", "/v1/campaigns/{campaign}/tasks"),
    of("GET", "/v1/campaigns/{campaign}/artifacts"),
    of("POST", "/v1/campaigns/{campaign}/artifacts/approve")
        .body(r#"{"kind": "plan", "key": "a", "version": 1, "digest": "{digest}"}"#),
    of("GET", "/v1/campaigns/{campaign}/artifacts/{kind}/{key}/{version}"),
    of("GET", "/v1/campaigns/{campaign}/schedules"),
    of("POST", "/v1/campaigns/{campaign}/schedules")
        .body(r#"{"expression": "0 8 * * *", "command": "look"}"#),
    of("DELETE", "/v1/campaigns/{campaign}/schedules/{schedule}").alike(),
    of("GET", "/v1/campaigns/{campaign}/log"),
    // The events of one that is there do not end: the owner asks behind the end.
    of("GET", "/v1/campaigns/{campaign}/events").query("?after=99"),
    // Blobs.
    of("POST", "/v1/sessions/{session}/blobs").body(r#""no picture""#).alike(),
    of("GET", "/v1/sessions/{session}/artifacts"),
    of("POST", "/v1/sessions/{session}/artifacts").body(r#"{"kind": "plan", "key": "a", "content": "x"}"#),
    of("POST", "/v1/sessions/{session}/artifacts/approve")
        .body(r#"{"kind": "plan", "key": "a", "version": 1, "digest": "{digest}"}"#),
    // Narration.
    // The page.
    of("GET", "/").alike(),
    of("GET", "/page/page.css").alike(),
    of("GET", "/page/icon.svg").alike(),
    of("GET", "/page/js/action_view.js").alike(),
    of("GET", "/page/js/call_view.js").alike(),
    of("GET", "/page/js/drafts.js").alike(),
    of("GET", "/page/js/tenant_events.js").alike(),
    of("GET", "/page/js/ticking.js").alike(),
    of("GET", "/page/js/api.js").alike(),
    of("GET", "/page/js/app.js").alike(),
    of("GET", "/page/js/approval.js").alike(),
    of("GET", "/page/js/bounded_lexer.js").alike(),
    of("GET", "/page/js/composer.js").alike(),
    of("GET", "/page/js/conversation.js").alike(),
    of("GET", "/page/js/dom.js").alike(),
    of("GET", "/page/js/inspector.js").alike(),
    of("GET", "/page/js/languages.js").alike(),
    of("GET", "/page/js/markdown.js").alike(),
    of("GET", "/page/js/outbox.js").alike(),
    of("GET", "/page/js/seen.js").alike(),
    of("GET", "/page/js/sessions.js").alike(),
    of("GET", "/page/js/sign_in.js").alike(),
    of("GET", "/page/js/sse.js").alike(),
    of("GET", "/page/js/turn_view.js").alike(),
    of("GET", "/page/js/virtual.js").alike(),
    of("GET", "/page/js/visible_text.js").alike(),
    of("GET", "/page/js/artifact_panel.js").alike(),
    of("GET", "/page/js/narration_panel.js").alike(),
    of("GET", "/page/js/campaign_artifacts.js").alike(),
    of("GET", "/page/js/campaign_cards.js").alike(),
    of("GET", "/page/js/campaign_head.js").alike(),
    of("GET", "/page/js/campaign_links.js").alike(),
    of("GET", "/page/js/campaign_list.js").alike(),
    of("GET", "/page/js/campaign_log.js").alike(),
    of("GET", "/page/js/campaign_page.js").alike(),
    of("GET", "/page/js/campaign_pending.js").alike(),
    of("GET", "/page/js/campaign_plan.js").alike(),
    of("GET", "/page/js/campaign_tasks.js").alike(),
    of("GET", "/page/js/campaign_words.js").alike(),
    of("GET", "/page/js/campaigns.js").alike(),
    of("GET", "/page/js/trace_view.js").alike(),
    of("GET", "/page/vendor/dompurify-3.4.18/purify.es.mjs").alike(),
    of("GET", "/page/vendor/marked-18.2.1/marked.esm.js").alike(),
    of("GET", "/page/sign-in").alike(),
    of("POST", "/page/sign-in").body(r#"{"key": "st_0000000000000000_x"}"#).alike(),
    of("POST", "/page/sign-out").alike(),
    of("GET", "/page/agents/{agent}/graph.svg").alike(),
    of("GET", "/page/sessions/{session}/turns/{turn}/timeline"),
    of("GET", "/page/sessions/{session}/turns/{turn}/trace"),
    // AG-UI.
    of("POST", "/v1/agui").body(AGUI_LOOKS),
    of("POST", "/v1/agui").body(AGUI_SAYS),
    of("POST", "/v1/agui").body(AGUI_ANSWERS),
    of("POST", "/v1/agui").body(AGUI_GIVES_UP),
    of("POST", "/v1/agui/{agent}").body(AGUI_LOOKS),
    of("DELETE", "/v1/agui/threads/{session}/run").alike(),
    // OpenAI.
    of("POST", "/v1/chat/completions").body(OPENAI_SAYS),
    of("GET", "/v1/models").alike(),
    of("GET", "/v1/models/{model}").alike(),
    // Keys and audit.
    of("POST", "/v1/keys").body(r#"{"name": "{key}"}"#),
    of("GET", "/v1/keys"),
    of("POST", "/v1/keys/{key}/rotate"),
    of("DELETE", "/v1/keys/{key}"),
    of("GET", "/v1/audit"),
    of("GET", "/v1/nodes").alike(),
    // OpenHarness.
    of("POST", "/v1/openharness").body(OPENHARNESS_SAYS),
    of("POST", "/v1/openharness").body(OPENHARNESS_SHOWS),
    of("POST", "/v1/openharness").body(OPENHARNESS_ATTACHES),
    of("POST", "/openharness").body(OPENHARNESS_SAYS),
    of("GET", "/v1/openharness/capabilities").alike(),
    of("GET", "/openharness/capabilities").alike(),
    // Each has a code of its own.
    of("POST", "/v1/openharness/pair/create").body("{}"),
    of("POST", "/v1/openharness/pair/confirm").body(r#"{"code": "AAAAAAAA"}"#).alike(),
    of("POST", "/v1/openharness/pair/claim").body(r#"{"pairing_id": "{key}"}"#).alike(),
    of("POST", "/v1/openharness/pair/revoke").body(r#"{"device_id": "{key}"}"#),
    of("POST", "/pair/create").body("{}"),
    of("POST", "/pair/confirm").body(r#"{"code": "AAAAAAAA"}"#).alike(),
    of("POST", "/pair/claim").body(r#"{"pairing_id": "{key}"}"#).alike(),
    of("POST", "/pair/revoke").body(r#"{"device_id": "{key}"}"#),
    // Steerable chat.
    of("POST", "/v1/chats/{session}/send").body(r#"{"content": "say hello"}"#),
    of("POST", "/v1/chats/{session}/send").body(r#"{"content": "", "metadata": {"resume": true}}"#),
    of("POST", "/v1/chats/{session}/steer").body(r#"{"content": "say hello"}"#).alike(),
    of("GET", "/v1/chats/{session}/messages"),
    of("GET", "/v1/chats/{session}/events").query("?after={event}0"),
    of("GET", "/v1/agent-sessions").query("?chatId={session}"),
    of("POST", "/v1/agent-sessions").body(r#"{"chatId": "{session}"}"#),
    of("GET", "/v1/agent-sessions/{session}"),
    // The UI message stream.
    of("POST", "/v1/ui")
        .body(r#"{"id": "{session}", "message": {"id": "u", "role": "user", "parts": [{"type": "text", "text": "say hello"}]}}"#),
    of("POST", "/v1/ui").body(r#"{"id": "{session}", "trigger": "regenerate-message", "messageId": "{turn}"}"#),
    of("POST", "/v1/ui").body(
        r#"{"id": "{session}", "answer": {"signal": "{signal}", "payload": {"approved": true}, "wait": 0, "action": "{action}"}}"#,
    ),
    of("GET", "/v1/ui/{session}/stream").query("?last=true"),
    of("DELETE", "/v1/ui/{session}/stream").alike(),
    of("GET", "/v1/ui/{session}/messages"),
];

const CAMPAIGN_EDITS: &str = r#"{"version": 7, "tasks": [{"id": "a", "description": "x", "proof": [
    {"type": "user_confirmed", "question": "Is it?"}]}]}"#;

const AGUI_LOOKS: &str = r#"{"threadId": "{session}", "runId": "r", "messages": []}"#;

const AGUI_SAYS: &str = r#"{"threadId": "{session}", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "say hello"}]}"#;

const AGUI_ANSWERS: &str = r#"{"threadId": "{session}", "runId": "r", "messages": [], "resume": [
    {"interruptId": "{interrupt}", "status": "resolved", "payload": {"approved": true}}]}"#;

const AGUI_GIVES_UP: &str = r#"{"threadId": "{session}", "runId": "r", "messages": [], "resume": [
    {"interruptId": "{interrupt}", "status": "cancelled"}]}"#;

const OPENAI_SAYS: &str = r#"{"model": "scripted", "metadata": {"session_id": "{session}"},
    "messages": [{"role": "user", "content": "say hello"}]}"#;

const OPENHARNESS_SAYS: &str = r#"{"protocol_version": "1.0.0", "request_id": "r", "request": {
    "context": {"session_id": "{session}", "user_intent": "say hello"}}}"#;

const OPENHARNESS_SHOWS: &str = r#"{"protocol_version": "1.0.0", "request": {
    "context": {"continuation": {"run_id": "{turn}"}}}}"#;

const OPENHARNESS_ATTACHES: &str = r#"{"protocol_version": "1.0.0", "request": {
    "context": {"session_id": "{session}", "user_intent": "say hello", "attachments": [{"ref_id": "{digest}"}]}}}"#;
