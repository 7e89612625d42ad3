//! Random messages and random streams.

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, Map, MessageContent, ModelFinishReason,
    Response, ResponseAssembler, ResponseDelta, ResponseLimits, TokenUsage, ToolCall,
};

fn word() -> impl Strategy<Value = String> {
    "[a-zé\"{}\\\\ 0-9]{1,12}"
}

fn signature() -> impl Strategy<Value = Option<String>> {
    prop::option::of(word())
}

fn arguments() -> impl Strategy<Value = Map> {
    let value = prop_oneof![
        word().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        Just(Value::Null),
        prop::collection::vec(word(), 0..3).prop_map(Value::from),
    ];
    prop::collection::btree_map(word(), value, 0..4).prop_map(|it| it.into_iter().collect())
}

fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let call = (word(), prop::option::of(arguments()), signature());
    prop::collection::vec(call, 1..4).prop_map(|list| {
        let numbered = list.into_iter().enumerate();
        numbered
            .map(|(index, (name, arguments, signature))| ToolCall {
                id: format!("call {index}"),
                name,
                arguments,
                signature,
            })
            .collect()
    })
}

fn spoken() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        (word(), signature()).prop_map(|(text, signature)| ContentBlock::Text { text, signature }),
        (word(), signature()).prop_map(|(text, signature)| ContentBlock::Thinking { text, signature }),
        word().prop_map(|data| ContentBlock::RedactedThinking { data }),
    ]
}

fn shown() -> impl Strategy<Value = ContentBlock> {
    let detail = prop::option::of(prop_oneof![
        Just(ImageDetailLevel::Auto),
        Just(ImageDetailLevel::Low),
        Just(ImageDetailLevel::High)
    ]);
    let source = prop_oneof![
        word().prop_map(|url| ImageContentSource::Url { url }),
        word().prop_map(|base64_data| ImageContentSource::Inline { base64_data }),
    ];
    prop_oneof![
        (word(), signature()).prop_map(|(text, signature)| ContentBlock::Text { text, signature }),
        (source, detail).prop_map(|(source, detail)| ContentBlock::Image {
            source,
            media_type: Some("image/png".to_owned()),
            detail
        }),
    ]
}

fn message() -> impl Strategy<Value = ChatMessage> {
    let assistant = || prop::collection::vec(spoken(), 1..4).prop_map(ChatMessage::assistant);
    prop_oneof![
        word().prop_map(ChatMessage::system),
        word().prop_map(ChatMessage::user),
        prop::collection::vec(shown(), 1..4).prop_map(ChatMessage::user),
        (word(), prop_oneof![word(), Just(String::new())]).prop_map(|(id, text)| ChatMessage::tool(id, text)),
        assistant(),
        (assistant(), calls()).prop_map(|(message, calls)| message.with_tool_calls(calls)),
        calls().prop_map(|calls| ChatMessage::assistant("").with_tool_calls(calls)),
    ]
}

/// The deltas of a message when everything comes in one piece each.
fn deltas(message: &ChatMessage) -> Vec<ResponseDelta> {
    let blocks = match &message.content {
        MessageContent::Text(text) if text.is_empty() => Vec::new(),
        MessageContent::Text(text) => vec![ContentBlock::from_text(text)],
        MessageContent::Blocks(blocks) => blocks.clone(),
    };
    let mut deltas: Vec<ResponseDelta> = blocks
        .into_iter()
        .map(|block| match block {
            ContentBlock::Text { text, signature } => ResponseDelta::Text { text, signature },
            ContentBlock::Thinking { text, signature } => ResponseDelta::Thinking { text, signature },
            ContentBlock::RedactedThinking { data } => ResponseDelta::RedactedThinking { data },
            ContentBlock::Image { .. } => unreachable!("a model shows no picture"),
        })
        .collect();
    for (index, call) in (0..).zip(&message.tool_calls) {
        let arguments = call.arguments.clone().map_or("{".to_owned(), |it| Value::Object(it).to_string());
        deltas.push(ResponseDelta::ToolCall {
            index,
            id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            arguments: Some(arguments),
            signature: call.signature.clone(),
        });
    }
    let reason = ModelFinishReason::Stop;
    deltas.push(ResponseDelta::Finish { reason, usage: TokenUsage::default(), raw: json!({}) });
    deltas
}

/// Splits one delta in two: the second has the rest of the text, and the end of the block.
fn split(delta: ResponseDelta, at: usize) -> Vec<ResponseDelta> {
    let cut = |text: String| {
        let at = text.floor_char_boundary(at % (text.len() + 1));
        (text[..at].to_owned(), text[at..].to_owned())
    };
    match delta {
        ResponseDelta::Text { text, signature } => {
            let (head, text) = cut(text);
            vec![ResponseDelta::from_text(head), ResponseDelta::Text { text, signature }]
        }
        ResponseDelta::Thinking { text, signature } => {
            let (head, text) = cut(text);
            vec![ResponseDelta::from_thinking(head), ResponseDelta::Thinking { text, signature }]
        }
        ResponseDelta::ToolCall { index, id, name, arguments, signature } => {
            let (head, tail) = cut(arguments.unwrap_or_default());
            let rest =
                ResponseDelta::ToolCall { index, id: None, name: None, arguments: Some(tail), signature };
            vec![ResponseDelta::ToolCall { index, id, name, arguments: Some(head), signature: None }, rest]
        }
        whole @ (ResponseDelta::RedactedThinking { .. } | ResponseDelta::Finish { .. }) => vec![whole],
    }
}

fn assemble(deltas: Vec<ResponseDelta>) -> Response {
    let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
    for delta in deltas {
        assembler.push_delta(delta).expect("within the limits");
    }
    assembler.finish_response().expect("the stream is whole")
}

proptest! {
    // spec: llm-provider §3
    #[test]
    fn a_message_survives_its_json(message in message()) {
        prop_assert!(message.validate().is_ok());
        let value = serde_json::to_value(&message).expect("a message is JSON");
        let text = serde_json::to_string(&message).expect("a message is JSON");
        prop_assert_eq!(&ChatMessage::from_json(value.clone()).expect("it reads"), &message);
        prop_assert_eq!(&serde_json::from_str::<ChatMessage>(&text).expect("it reads"), &message);
        let again = serde_json::to_value(ChatMessage::from_json(value.clone()).expect("it reads"));
        prop_assert_eq!(again.expect("a message is JSON"), value);
    }

    // spec: llm-provider §6
    #[test]
    fn a_stream_means_the_same_however_it_is_split(
        message in prop_oneof![
            prop::collection::vec(spoken(), 1..5).prop_map(ChatMessage::assistant),
            calls().prop_map(|calls| ChatMessage::assistant("").with_tool_calls(calls)),
            calls().prop_map(|calls| ChatMessage::assistant("x").with_tool_calls(calls)),
        ],
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..40usize), 0..20),
    ) {
        let whole = deltas(&message);
        let mut pieces = whole.clone();
        for (index, at) in cuts {
            let index = index.index(pieces.len());
            let delta = pieces.remove(index);
            pieces.splice(index..index, split(delta, at));
        }
        let assembled = assemble(pieces);
        prop_assert_eq!(&assembled, &assemble(whole));
        prop_assert_eq!(assembled.message.tool_calls, message.tool_calls);
        prop_assert_eq!(assembled.message.content.text(), message.content.text());
    }

    #[test]
    fn reading_never_panics(text in "[\\[\\]{}\":,a-z0-9 ]{0,60}") {
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            drop(ChatMessage::from_json(value));
        }
    }
}
