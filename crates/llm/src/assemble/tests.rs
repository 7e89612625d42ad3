//! Streams, piece by piece.

use serde_json::json;

use super::*;

fn fragment(index: u32, id: &str, name: &str, arguments: &str) -> ResponseDelta {
    let some = |it: &str| (!it.is_empty()).then(|| it.to_owned());
    ResponseDelta::ToolCall {
        index,
        id: some(id),
        name: some(name),
        arguments: some(arguments),
        signature: None,
    }
}

fn end(reason: ModelFinishReason) -> ResponseDelta {
    ResponseDelta::Finish { reason, usage: TokenUsage::default(), raw: json!({"id": 1}) }
}

fn assemble(deltas: Vec<ResponseDelta>) -> Result<Response> {
    let mut assembler = ResponseAssembler::new(ResponseLimits { bytes_max: 100, parts_max: 4 });
    for delta in deltas {
        assembler.push_delta(delta)?;
    }
    assembler.finish_response()
}

fn message(mut deltas: Vec<ResponseDelta>) -> ChatMessage {
    deltas.push(end(ModelFinishReason::Stop));
    assemble(deltas).expect("assembles").message
}

// spec: llm-provider §6
#[test]
fn reasoning_and_text_become_blocks_in_stream_order() {
    let signed = ResponseDelta::Thinking { text: String::new(), signature: Some("s".to_owned()) };
    let found = message(vec![
        ResponseDelta::from_thinking("h"),
        ResponseDelta::from_thinking("m"),
        signed,
        ResponseDelta::from_thinking("again"),
        ResponseDelta::from_text(""),
        ResponseDelta::from_text("a"),
        fragment(0, "x", "t", "{}"),
        ResponseDelta::from_text("b"),
    ]);
    let thinking = |text: &str, signature: Option<&str>| ContentBlock::Thinking {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
    };
    let blocks = vec![thinking("hm", Some("s")), thinking("again", None), ContentBlock::from_text("ab")];
    let call = ToolCall::new("x", "t", Map::new());
    assert_eq!(found, ChatMessage::assistant(blocks).with_tool_calls([call]));
    assert_eq!(
        message(vec![ResponseDelta::from_text("a"), ResponseDelta::from_text("b")]),
        ChatMessage::assistant("ab")
    );
}

// spec: llm-provider §8.1.6
#[test]
fn interleaved_fragments_become_calls_in_the_order_of_their_first_piece() {
    let found = message(vec![
        fragment(7, "x", "t", ""),
        fragment(0, "y", "u", r#"{"a":"#),
        fragment(7, "x", "t", "{"),
        fragment(0, "", "", "1}"),
        fragment(7, "", "", "}"),
        fragment(7, "z", "v", "{"),
    ]);
    let mut one = Map::new();
    one.insert("a".to_owned(), json!(1));
    let broken = ToolCall { arguments: None, ..ToolCall::new("z", "v", Map::new()) };
    let calls = [ToolCall::new("x", "t", Map::new()), ToolCall::new("y", "u", one), broken];
    assert_eq!(found, ChatMessage::assistant("").with_tool_calls(calls));
}

#[test]
fn a_stream_that_is_cut_or_goes_on_or_grows_is_an_error() {
    let category = |deltas| assemble(deltas).expect_err("an error").category();
    assert_eq!(category(vec![ResponseDelta::from_text("a")]), "provider_unavailable");
    let after = vec![end(ModelFinishReason::Stop), ResponseDelta::from_text("a")];
    assert_eq!(category(after), "provider_invalid_response");
    let large = vec![ResponseDelta::from_text("a".repeat(60)), ResponseDelta::from_text("a".repeat(60))];
    assert_eq!(category(large), "provider_invalid_response");
    let many = (0..5).map(|index| fragment(index, "x", "t", "{}")).collect();
    assert_eq!(category(many), "provider_invalid_response");
}

#[test]
fn arguments_are_an_object_or_nothing() {
    for (text, expected) in
        [("", Some(json!({}))), (" {} ", Some(json!({}))), ("[]", None), ("{\"a\":", None)]
    {
        assert_eq!(parse_arguments(text).map(Value::Object), expected, "{text}");
    }
}
