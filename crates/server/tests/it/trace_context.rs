//! The trace of a request goes on with the calls of its turn, whatever the protocol (W3C Trace Context).

use serde_json::json;

use crate::support::Rig;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test]
async fn each_protocol_passes_the_trace_of_a_request_on() {
    let rig = Rig::start().await;
    rig.pace.run_free();
    let client = rig
        .client()
        .with("traceparent", &format!("00-{TRACE}-b7ad6b7169203331-01"))
        .with("tracestate", "a=1")
        .with("baggage", "user=q");
    let user = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "say hi" }] });
    let said = json!([{ "id": "m", "role": "user", "content": "say hi" }]);
    let agui = json!({
        "threadId": "agui", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": said,
    });
    let asked = json!([{ "role": "user", "content": "say hi" }]);
    let completion = |stream: bool| json!({ "model": "scripted", "stream": stream, "messages": asked });
    let context = json!({ "session_id": "openharness", "user_intent": "say hi" });
    let openharness =
        json!({ "protocol_version": "1.0.0", "request_id": "r", "request": { "context": context } });
    let posts = [
        ("/v1/sessions/native/messages", json!({ "content": "say hi" })),
        ("/v1/chats/steerable/send", json!({ "content": "say hi" })),
        ("/v1/ui", json!({ "sessionId": "ui", "message": user })),
        ("/v1/agui", agui),
        ("/v1/chat/completions", completion(true)),
        ("/v1/chat/completions", completion(false)),
        ("/v1/openharness", openharness),
    ];
    let in_session = client.clone().with("x-session-id", "openai");
    for (path, body) in posts {
        let is_openai = path.ends_with("completions");
        for client in [Some(&client), Some(&in_session).filter(|_| is_openai)].into_iter().flatten() {
            let answer = client.post(path, &body).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let traces = rig.world.take_traces();
            assert!(!traces.is_empty(), "{path}: no model was asked");
            for trace in traces {
                let trace = trace.unwrap_or_else(|| panic!("{path}: the model is asked in no trace"));
                assert!(trace.traceparent().starts_with(&format!("00-{TRACE}-")), "{path}: {trace:?}");
                assert_eq!((trace.tracestate(), trace.baggage()), (Some("a=1"), Some("user=q")), "{path}");
            }
        }
    }
    // A header that is none counts as none.
    let broken = rig.client().with("traceparent", "nonsense").with("baggage", "user=q");
    broken.post("/v1/sessions/native/messages", &json!({ "content": "say hi" })).await;
    assert_eq!(rig.world.take_traces(), [None]);
    rig.stop().await;
}
