//! The profile of the GenAI conventions, and the trace of a caller.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use singletree_engine::{Ctx, GraphEvent, InvokeOptions, Snapshot, StateUpdate, ToolRun};
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ModelFinishReason, ProviderCall, Request, Response,
    TokenUsage, ToolCall, ToolDefinition,
};
use singletree_telemetry::{
    AttributeValue, SpanId, SpanProfile, SpanSettings, TraceContext, TraceId, TraceSpan, render_spans,
};

use crate::rig::{Model, events, one_node, says, trees, unavailable};

const PICTURE: &str = "Y2FuYXJ5LXBpY3R1cmU=";

fn genai() -> SpanSettings {
    SpanSettings::new().profile(SpanProfile::GenAi)
}

fn weather_call() -> ToolCall {
    ToolCall {
        id: "call-1".into(),
        name: "weather".into(),
        arguments: json!({"city": "canary-place"}).as_object().cloned(),
        signature: Some("canary-signature".into()),
    }
}

/// A conversation with everything that a message can have.
fn conversation() -> Request {
    let picture = |source| ContentBlock::Image { source, media_type: Some("image/png".into()), detail: None };
    let thinking = ContentBlock::Thinking { text: "canary-thought".into(), signature: None };
    let blocks = vec![
        ContentBlock::from_text("canary-question"),
        picture(ImageContentSource::Url { url: "https://pictures/canary".into() }),
        picture(ImageContentSource::Inline { base64_data: PICTURE.into() }),
    ];
    let asked = ChatMessage::assistant(vec![thinking]).with_tool_calls([weather_call()]);
    let messages =
        [ChatMessage::user(blocks), asked, ChatMessage::tool("call-1", "canary-result")].map(Arc::new);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    Request::new(messages.into())
        .with_tools([ToolDefinition::new("weather", "Tells the weather.", schema).unwrap()])
}

/// The model asks for a tool, which fails once, and then is busy.
async fn told() -> Vec<GraphEvent> {
    let usage = TokenUsage { prompt_tokens: Some(20), cached_tokens: Some(8), ..TokenUsage::default() };
    let answer = ChatMessage::assistant("canary-answer").with_tool_calls([weather_call()]);
    let asks_for_tool = Response::new(answer, ModelFinishReason::ToolCalls, usage, json!({}));
    let model = Model::answers([Ok(asks_for_tool), unavailable()]);
    let node = move |cx: Ctx<Snapshot>| {
        let model = model.clone();
        async move {
            let request = conversation();
            cx.calls().complete(ProviderCall::of(model.as_ref()), &request).await?;
            let arguments = json!({"city": "canary-place"}).as_object().cloned().unwrap();
            let tool =
                ToolRun { tool_name: "weather", arguments: Some(&arguments), tool_call_id: Some("call-1") };
            cx.calls().begin_tool_call(tool).complete(|| json!({"sky": "canary-sky"}));
            cx.calls().begin_tool_call(tool).fail(None, || "too late".into());
            cx.calls().complete(ProviderCall::of(model.as_ref()), &request).await?;
            Ok(StateUpdate::new())
        }
    };
    events(&one_node("any", node), json!({}), InvokeOptions::new().label("answer")).await
}

fn payload(span: &TraceSpan, name: &str) -> Value {
    serde_json::from_str(span.attributes[name].as_text().unwrap()).unwrap()
}

#[tokio::test]
async fn spans_have_the_names_and_attributes_of_the_conventions() {
    let told = told().await;
    let shown = [
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.workflow.name",
        "gen_ai.tool.name",
        "gen_ai.usage.cache_read.input_tokens",
        "error.type",
    ];
    let spans = render_spans(&told, &genai());
    assert_eq!(
        trees(&spans, &shown),
        [
            r#"invoke_workflow answer ERROR "invoke_workflow" "answer""#,
            r#"  step ERROR"#,
            r#"    chat tested OK "chat" "vllm" 8"#,
            r#"    execute_tool weather OK "execute_tool" "weather""#,
            r#"    execute_tool weather ERROR "execute_tool" "weather" "_OTHER""#,
            r#"    chat tested ERROR "chat" "vllm" "provider_unavailable""#,
        ]
    );
    // Without the attributes the names alone are the conventions'.
    let bare = render_spans(&told, &genai().disable_genai_semconv(true));
    assert!(bare.iter().all(|span| span.attributes.keys().all(|name| !name.starts_with("gen_ai."))));
    assert_eq!(trees(&bare, &[])[2], "    chat tested OK");
}

#[tokio::test]
async fn a_profile_keeps_ids_times_and_the_attributes_of_the_specification() {
    let told = told().await;
    let plain = render_spans(&told, &SpanSettings::new().disable_provider_payload(false));
    let other = render_spans(&told, &genai().disable_provider_payload(false));
    let place =
        |span: &TraceSpan| (span.trace_id, span.span_id, span.parent_id, span.started_at, span.ended_at);
    assert!(plain.len() == 6 && plain.iter().map(place).eq(other.iter().map(place)));
    for (plain, other) in plain.iter().zip(&other) {
        let replaced = |name: &std::borrow::Cow<'_, str>| {
            name == "gen_ai.system"
                || other.attributes.get(name.as_ref()) == plain.attributes.get(name.as_ref())
        };
        assert!(plain.attributes.keys().all(replaced), "{}", plain.name);
        assert!(!other.attributes.contains_key("gen_ai.system"));
        assert!(!plain.attributes.contains_key("gen_ai.operation.name"));
    }
}

#[tokio::test]
async fn messages_have_the_shape_of_the_conventions_when_payloads_are_wanted() {
    let spans = render_spans(&told().await, &genai().disable_provider_payload(false));
    let chat = spans.iter().find(|span| span.name.as_ref() == "chat tested").unwrap();
    let call = json!({
        "type": "tool_call", "id": "call-1", "name": "weather", "arguments": {"city": "canary-place"},
    });
    assert_eq!(
        payload(chat, "gen_ai.input.messages"),
        json!([
            { "role": "user", "parts": [
                { "type": "text", "content": "canary-question" },
                { "type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://pictures/canary" },
                { "type": "image", "media_type": "image/png",
                  "source": { "type": "inline_redacted", "byte_count": PICTURE.len() } },
            ]},
            { "role": "assistant", "parts": [{ "type": "reasoning", "content": "canary-thought" }, call] },
            { "role": "tool", "parts": [
                { "type": "tool_call_response", "id": "call-1", "response": "canary-result" },
            ]},
        ])
    );
    assert_eq!(
        payload(chat, "gen_ai.output.messages"),
        json!([{
            "role": "assistant", "parts": [{ "type": "text", "content": "canary-answer" }, call],
            "finish_reason": "tool_call",
        }])
    );
    // The invocation has the message that was to be answered, and the last answer.
    let invocation = spans.iter().find(|span| span.name.as_ref() == "invoke_workflow answer").unwrap();
    let asked = payload(chat, "gen_ai.input.messages")[0].clone();
    assert_eq!(payload(invocation, "gen_ai.input.messages"), json!([asked]));
    assert_eq!(
        invocation.attributes.get("gen_ai.output.messages"),
        chat.attributes.get("gen_ai.output.messages")
    );
    let tool = spans.iter().find(|span| span.name.as_ref() == "execute_tool weather").unwrap();
    assert_eq!(payload(tool, "gen_ai.tool.call.arguments"), json!({"city": "canary-place"}));
    assert_eq!(payload(tool, "gen_ai.tool.call.result"), json!({"sky": "canary-sky"}));
}

// design: payloads are off unless somebody asks for them, in both profiles; an inline picture is never shown.
#[tokio::test]
async fn no_text_of_a_conversation_is_in_a_span_unless_payloads_are_wanted() {
    let told = told().await;
    let written = |settings: SpanSettings| -> String {
        let spans = render_spans(&told, &settings);
        let one = |span: &TraceSpan| {
            format!("{} {:?} {:?} {:?}\n", span.name, span.attributes, span.exception, span.status)
        };
        spans.iter().map(one).collect()
    };
    for settings in [SpanSettings::new(), genai()] {
        let without = written(settings.clone());
        assert!(!without.contains("canary"), "{without}");
        let with = written(settings.disable_provider_payload(false));
        let found: BTreeSet<_> = ["question", "thought", "result", "answer", "place", "sky"]
            .into_iter()
            .filter(|text| with.contains(&format!("canary-{text}")))
            .collect();
        assert_eq!(found.len(), 6, "{found:?}");
        assert!(!with.contains(PICTURE));
    }
}

// spec: W3C Trace Context §2; design: the trace is the caller's where a valid one came.
#[tokio::test]
async fn an_invocation_goes_on_with_the_trace_of_its_caller() {
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let caller = TraceContext::from_header(header).unwrap();
    let graph = one_node("any", crate::rig::asking(&Model::answers([says("Done.")]), crate::rig::asks()));
    let told = events(&graph, json!({}), InvokeOptions::new()).await;
    let own = render_spans(&told, &SpanSettings::new());
    let spans = render_spans(&told, &SpanSettings::new().caller_context(caller));
    assert_eq!(spans.len(), 3);
    for (span, own) in spans.iter().zip(&own) {
        assert_eq!((span.trace_id, span.span_id), (caller.trace_id, own.span_id));
        assert_eq!(span.parent_id, own.parent_id.or(Some(SpanId(caller.parent_id.0))));
    }
    let invocation = spans.last().unwrap();
    assert_eq!(invocation.parent_id, Some(caller.parent_id));
    let outgoing = TraceContext::of_span(invocation, true).to_string();
    assert_eq!(outgoing, format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", invocation.span_id));
    // Calls whose invocation was not seen to begin are in that trace, too.
    let calls: Vec<_> =
        told.iter().filter(|event| matches!(event, GraphEvent::LlmCompletion(_))).cloned().collect();
    let alone = render_spans(&calls, &SpanSettings::new().caller_context(caller));
    assert_eq!((alone[0].trace_id, alone[0].parent_id), (caller.trace_id, Some(caller.parent_id)));
    let id = own.last().unwrap().attributes["openarmature.invocation_id"].clone();
    assert!(matches!(id, AttributeValue::Text(_)) && own[0].trace_id != TraceId([0; 16]));
}
