//! How each route is asked: one line a route at least, whatever section it is of.

/// How one route is asked. `{session}`, `{turn}`, `{signal}`, `{action}`, `{digest}`, `{key}` and `{event}` stand for names that A
/// has, in path, query and body.
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

    /// Asks for what happens, as it happens.
    const fn events(self) -> Self {
        Self { headers: &[("accept", "text/event-stream")], ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        Self { body: Some(body), ..self }
    }
}

pub(crate) const TABLE: &[Entry] = &[
    // What describes the server.
    of("GET", "/healthz").alike(),
    of("GET", "/openapi.json").alike(),
    of("GET", "/docs").alike(),
    // The native API.
    of("GET", "/v1/agents").alike(),
    of("POST", "/v1/sessions").body(r#"{"id": "{session}"}"#),
    of("GET", "/v1/sessions").query("?from={session}"),
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
    of("GET", "/v1/sessions/{session}/turns"),
    of("GET", "/v1/sessions/{session}/turns/{turn}"),
    of("GET", "/v1/sessions/{session}/turns/{turn}").events(),
    of("POST", "/v1/sessions/{session}/turns/{turn}/cancel"),
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
    // Blobs.
    of("POST", "/v1/sessions/{session}/blobs").body(r#""no picture""#).alike(),
    of("GET", "/v1/sessions/{session}/blobs/{digest}"),
    of("GET", "/v1/sessions/{session}/usage"),
    of("GET", "/v1/usage"),
    // Narration.
    of("GET", "/v1/sessions/{session}/narration"),
    of("DELETE", "/v1/sessions/{session}/narration").alike(),
    // Keys and audit.
    of("POST", "/v1/keys").body(r#"{"name": "{key}"}"#),
    of("GET", "/v1/keys"),
    of("POST", "/v1/keys/{key}/rotate"),
    of("DELETE", "/v1/keys/{key}"),
    of("GET", "/v1/audit"),
];
