//! The requests that are sent (spec: llm-provider §8.3.1, §8.3.5).

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, Map, Request, RuntimeConfig, ToolCall,
    ToolChoicePolicy, ToolDefinition,
};

use super::{OLD, WHOLE, asked, compose, request, schema, weather};
use crate::mapping::ComposeOptions;

fn object(value: Value) -> Map {
    value.as_object().unwrap().clone()
}

/// Checks the contents of a conversation that begins and ends with the user.
#[track_caller]
fn check_contents(between: Vec<ChatMessage>, wire: Value) {
    let all = [vec![ChatMessage::user("q")], between, vec![ChatMessage::user("go on")]].concat();
    let body = compose(&request(all), WHOLE).unwrap().body;
    let sent = body["contents"].as_array().unwrap();
    assert_eq!(Value::from(&sent[1..sent.len() - 1]), wire);
}

#[track_caller]
fn check_body(request: &Request, manner: ComposeOptions, more: Value) {
    let mut body = object(json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
    body.extend(object(more));
    assert_eq!(compose(request, manner).unwrap().body, Value::Object(body));
}

#[track_caller]
fn check_declared(parameters: Value, field: &str) {
    let tool = ToolDefinition::new("t", "Does.", parameters.clone()).unwrap();
    let declared =
        json!([{"functionDeclarations": [{"name": "t", "description": "Does.", field: parameters}]}]);
    check_body(&asked().with_tools([tool]), WHOLE, json!({"tools": declared}));
}

fn call(id: &str, signature: Option<&str>) -> ToolCall {
    let call = ToolCall::new(id, "get_weather", object(json!({"location": "SF"})));
    ToolCall { signature: signature.map(str::to_owned), ..call }
}

fn sent_call(id: &str) -> Value {
    json!({"functionCall": {"name": "get_weather", "id": id, "args": {"location": "SF"}}})
}

fn sent_result(id: &str, result: &str) -> Value {
    json!({"functionResponse": {"name": "get_weather", "id": id, "response": {"result": result}}})
}

fn with_signature(mut part: Value, signature: &str) -> Value {
    part["thoughtSignature"] = json!(signature);
    part
}

#[test]
fn the_system_message_is_an_instruction() {
    let messages = vec![ChatMessage::system("Be kind."), ChatMessage::user("hi")];
    check_body(&request(messages), WHOLE, json!({"systemInstruction": {"parts": [{"text": "Be kind."}]}}));
}

// spec: llm-provider §8.3.1.1, §8.3.1.2
#[test]
fn a_turn_with_tools_keeps_signatures_on_their_parts() {
    let blocks = vec![
        ContentBlock::Thinking { text: "hm".to_owned(), signature: None },
        ContentBlock::Text { text: "Let me see.".to_owned(), signature: Some("s1".to_owned()) },
    ];
    let asks = ChatMessage::assistant(blocks).with_tool_calls([
        call("a", Some("s2")),
        call("b", None),
        call("c", Some("")),
    ]);
    let results = ["a", "b", "c"].map(|id| ChatMessage::tool(id, if id == "b" { "" } else { "72F" }));
    let wire = json!([
        {"role": "model", "parts": [
            {"text": "hm", "thought": true},
            with_signature(json!({"text": "Let me see."}), "s1"),
            with_signature(sent_call("a"), "s2"),
            sent_call("b"),
            sent_call("c"),
        ]},
        {"role": "user", "parts": [sent_result("a", "72F"), sent_result("b", ""), sent_result("c", "72F")]},
        {"role": "model", "parts": [{"text": "Warm."}]},
    ]);
    check_contents([vec![asks], results.to_vec(), vec![ChatMessage::assistant("Warm.")]].concat(), wire);
}

#[test]
fn a_result_names_the_tool_of_the_latest_call_of_its_id() {
    let named = |name: &str| ToolCall { name: name.to_owned(), arguments: None, ..call("a", None) };
    let turn =
        |name: &str| [ChatMessage::assistant("").with_tool_calls([named(name)]), ChatMessage::tool("a", "r")];
    let wire = |name: &str| {
        [
            json!({"role": "model", "parts": [{"functionCall": {"name": name, "id": "a", "args": {}}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"name": name, "id": "a", "response": {"result": "r"}}}]}),
        ]
    };
    check_contents([turn("one"), turn("two")].concat(), Value::from([wire("one"), wire("two")].concat()));
}

// spec: llm-provider §3.1.7
#[test]
fn what_only_anthropic_can_have_made_is_stripped() {
    let foreign = vec![
        ContentBlock::Thinking { text: "hm".to_owned(), signature: Some("s".to_owned()) },
        ContentBlock::RedactedThinking { data: "blob".to_owned() },
    ];
    check_contents(vec![ChatMessage::assistant(foreign.clone())], json!([]));
    let blocks = [foreign, vec![ContentBlock::from_text("Yes.")]].concat();
    check_contents(
        vec![ChatMessage::assistant(blocks)],
        json!([{"role": "model", "parts": [{"text": "Yes."}]}]),
    );
}

// spec: llm-provider §8.3.1.1
#[test]
fn images_are_data_or_files_whose_type_the_address_tells() {
    let image = |source, media_type: Option<&str>| ContentBlock::Image {
        source,
        media_type: media_type.map(str::to_owned),
        detail: Some(ImageDetailLevel::Low),
    };
    let url = |url: &str| ImageContentSource::Url { url: url.to_owned() };
    let blocks = vec![
        image(ImageContentSource::Inline { base64_data: "aGk=".to_owned() }, Some("image/png")),
        image(url("https://example.com/a/x.JPG?w=1.png"), Some("image/png")),
        image(url("gs://bucket/x.webp"), None),
        image(url("https://example.com/v1.2/files"), Some("image/heic")),
        image(url("https://example.com/v1.2/files"), None),
        image(url("data:image/png;base64,aGk="), None),
    ];
    let file = |uri: &str, media_type: &str| json!({"fileData": {"fileUri": uri, "mimeType": media_type}});
    let wire = json!([{"role": "user", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        file("https://example.com/a/x.JPG?w=1.png", "image/jpeg"),
        file("gs://bucket/x.webp", "image/webp"),
        file("https://example.com/v1.2/files", "image/heic"),
        {"fileData": {"fileUri": "https://example.com/v1.2/files"}},
        file("data:image/png;base64,aGk=", "image/png"),
    ]}]);
    check_contents(vec![ChatMessage::user(blocks)], wire);
}

#[test]
fn every_tool_choice_has_its_mode() {
    let parameters = json!({"type": "object", "properties": {"location": {"type": "string"}}});
    let declared = json!({"name": "get_weather", "description": "Weather.", "parameters": parameters});
    let tools = json!([{"functionDeclarations": [declared]}]);
    check_body(&asked().with_tools([weather()]), WHOLE, json!({"tools": tools.clone()}));
    for (choice, wire) in [
        (ToolChoicePolicy::Auto, json!({"mode": "AUTO"})),
        (ToolChoicePolicy::Required, json!({"mode": "ANY"})),
        (ToolChoicePolicy::None, json!({"mode": "NONE"})),
        (
            ToolChoicePolicy::Tool("get_weather".to_owned()),
            json!({"mode": "ANY", "allowedFunctionNames": ["get_weather"]}),
        ),
    ] {
        let request = asked().with_tools([weather()]).with_tool_choice(choice);
        let more = json!({"tools": tools.clone(), "toolConfig": {"functionCallingConfig": wire}});
        check_body(&request, WHOLE, more);
    }
}

#[test]
fn parameters_that_gemini_would_not_read_go_under_the_field_for_json_schema() {
    let of = |property: Value| json!({"type": "object", "properties": {"p": property}, "required": ["p"]});
    check_declared(
        of(json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 3})),
        "parameters",
    );
    check_declared(
        of(json!({"anyOf": [{"type": "integer", "minimum": 0}], "description": "d"})),
        "parameters",
    );
    for property in [
        json!({"type": ["string", "null"]}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"oneOf": [{"type": "string"}]}),
        json!({"type": "array", "items": {"const": "a"}}),
        json!({"type": "integer", "enum": [1]}),
        json!(true),
    ] {
        check_declared(of(property), "parametersJsonSchema");
    }
}

#[test]
fn declared_fields_stand_under_the_generation_config_by_their_wire_names() {
    let config = RuntimeConfig {
        temperature: Some(0.5),
        max_tokens: Some(256),
        top_p: Some(0.25),
        seed: Some(-1),
        frequency_penalty: Some(0.0),
        presence_penalty: Some(1.0),
        stop_sequences: Some(vec!["END".to_owned()]),
        extras: Map::new(),
    };
    let generation = json!({
        "temperature": 0.5, "maxOutputTokens": 256, "topP": 0.25, "seed": -1, "frequencyPenalty": 0.0,
        "presencePenalty": 1.0, "stopSequences": ["END"],
    });
    check_body(&asked().with_config(config), WHOLE, json!({"generationConfig": generation}));
}

// spec: llm-provider §6 (managed-field collision), §8.3.1
#[test]
fn extras_ride_under_the_generation_config_unless_the_mapping_wrote_that_field() {
    let with = |extras: Value| {
        let stop_sequences = Some(vec!["A".to_owned()]);
        let config = RuntimeConfig { seed: Some(1), stop_sequences, ..RuntimeConfig::default() };
        asked().with_config(RuntimeConfig { extras: object(extras), ..config })
    };
    let generation = |more: Value| {
        let mut all = object(json!({"seed": 1, "stopSequences": ["A"]}));
        all.extend(object(more));
        json!({"generationConfig": all})
    };
    for (extras, more) in [
        (json!({"topK": 40, "thinkingConfig": {"includeThoughts": true}, "stream": true}), None),
        (json!({"stopSequences": ["B", "A", "B"]}), Some(json!({"stopSequences": ["A", "B"]}))),
        (json!({"stopSequences": ["B", 1]}), Some(json!({}))),
        (json!({"stopSequences": "B"}), Some(json!({}))),
        (json!({"seed": 1.0}), Some(json!({}))),
        (json!({"responseMimeType": "text/plain"}), None),
    ] {
        check_body(&with(extras.clone()), WHOLE, generation(more.unwrap_or(extras)));
    }
    for extras in
        [json!({"seed": 2}), json!({"responseMimeType": "text/plain"}), json!({"responseJsonSchema": {}})]
    {
        let request = with(extras.clone()).with_response_schema(schema());
        let error = compose(&request, WHOLE).unwrap_err();
        assert_eq!(error.category(), "provider_invalid_request", "{extras}");
    }
}

// spec: llm-provider §8.3.5, §8.3.5.1
#[test]
fn a_response_schema_is_sent_or_said() {
    let asks = asked().with_response_schema(schema());
    let native = json!({"responseMimeType": "application/json", "responseJsonSchema": schema().as_value()});
    check_body(&asks, WHOLE, json!({"generationConfig": native}));

    let said = |request: &Request| {
        let body = compose(request, OLD).unwrap().body;
        assert_eq!(body.get("generationConfig"), None);
        body["systemInstruction"]["parts"][0]["text"].as_str().unwrap().to_owned()
    };
    let alone = said(&asks);
    assert!(alone.contains(r#""required":["value"]"#), "{alone}");
    let messages = vec![ChatMessage::system("Be kind."), ChatMessage::user("hi")];
    let both = said(&request(messages).with_response_schema(schema()));
    assert_eq!(both, format!("Be kind.\n\n{alone}"));
}
