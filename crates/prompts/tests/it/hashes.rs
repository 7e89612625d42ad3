//! Hashes: equal for equal prompts, different for different prompts.

use proptest::prelude::*;
use serde_json::{Value, json};
use singletree_llm::ChatMessage;
use singletree_prompts::{
    BlockTemplate, ChatSegment, ImageTemplate, Prompt, PromptInputs, SegmentContent, SegmentRole, Template,
};

use crate::support::render;

/// Few letters, so that equal parts are common; quotes and commas, so that texts look like other structures.
fn letters() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ab]{1,2}", "[ab\",\\]\\[{}:]{1,3}"]
}

fn role() -> impl Strategy<Value = SegmentRole> {
    prop_oneof![Just(SegmentRole::System), Just(SegmentRole::User), Just(SegmentRole::Assistant)]
}

fn block() -> impl Strategy<Value = BlockTemplate> {
    let source = prop_oneof![
        (letters(), prop::option::of(letters()))
            .prop_map(|(url, media_type)| ImageTemplate::Url { url, media_type }),
        (letters(), letters())
            .prop_map(|(base64_data, media_type)| ImageTemplate::Inline { base64_data, media_type }),
    ];
    prop_oneof![
        letters().prop_map(|text| BlockTemplate::Text { text }),
        source.prop_map(|source| BlockTemplate::Image { source, detail: None }),
    ]
}

fn segment() -> impl Strategy<Value = ChatSegment> {
    let content = prop_oneof![
        letters().prop_map(SegmentContent::Text),
        prop::collection::vec(block(), 0..3).prop_map(SegmentContent::Blocks),
    ];
    prop_oneof![
        (role(), content).prop_map(|(role, content)| ChatSegment::Content { role, content }),
        letters().prop_map(|name| ChatSegment::Placeholder { name }),
    ]
}

fn template() -> impl Strategy<Value = Template> {
    prop_oneof![
        letters().prop_map(Template::Text),
        prop::collection::vec(segment(), 0..3).prop_map(Template::Chat),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let text = "[ab\",]{1,2}";
    let blocks = prop::collection::vec(text.prop_map(|it| json!({"type": "text", "text": it})), 1..3);
    let content = prop_oneof![text.prop_map(Value::from), blocks.prop_map(Value::from)];
    prop_oneof![
        content.clone().prop_map(|it| json!({"role": "user", "content": it})),
        content.prop_map(|it| json!({"role": "assistant", "content": it})),
        ("[ab]", "[ab]", 0..2_i32).prop_map(|(name, key, value)| {
            json!({"role": "assistant", "tool_calls": [{"id": "c", "name": name, "arguments": {key: value, "z": 1}}]})
        }),
        ("[ab]", "[ab]?").prop_map(|(id, it)| json!({"role": "tool", "tool_call_id": id, "content": it})),
    ]
}

fn template_hash(template: &Template) -> String {
    Prompt::new("p", "1", template.clone()).template_hash().to_owned()
}

fn rendered_hash(messages: &[Value]) -> String {
    let messages = messages.iter().map(|it| ChatMessage::from_json(it.clone()).expect("a message"));
    let prompt = Prompt::chat("p", "1", [ChatSegment::placeholder("all")]);
    let result = render(prompt, &PromptInputs::new().placeholder("all", messages)).expect("it renders");
    result.rendered_hash().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    // spec: prompt-management §3.1
    #[test]
    fn templates_have_the_same_hash_exactly_when_they_are_the_same(one in template(), other in template()) {
        prop_assert_eq!(template_hash(&one) == template_hash(&other), one == other);
        prop_assert_eq!(template_hash(&one), template_hash(&one.clone()));
    }

    // spec: prompt-management §4
    #[test]
    fn messages_have_the_same_hash_exactly_when_they_are_the_same(
        one in prop::collection::vec(message(), 1..3), other in prop::collection::vec(message(), 1..3),
    ) {
        prop_assert_eq!(rendered_hash(&one) == rendered_hash(&other), one == other);
    }
}

// The hash is frozen: caches and traces keep it.
#[test]
fn hashes_are_of_json_that_other_programs_can_make() {
    let prompt = Prompt::text("p", "1", "Hello, {{ user }}!");
    // printf '"Hello, {{ user }}!"' | sha256sum
    let template = "sha256:93123ca06332a05fb53d55f9b77b567b7078c992beea4ef79652de98d6ac28f5";
    assert_eq!(prompt.template_hash(), template);
    let result = render(prompt, &PromptInputs::new().variable("user", "Ann")).unwrap();
    // printf '[{"content":"Hello, Ann!","role":"user"}]' | sha256sum
    let rendered = "sha256:5bf99f9ba18a86aa9f49ff1cbc18d9d9181d293ce84e223c01272b81d95e565b";
    assert_eq!(result.rendered_hash(), rendered);
}

#[test]
fn who_a_prompt_is_changes_no_hash_and_what_it_says_does() {
    let one = Prompt::text("a", "1", "x").with_label("l");
    assert_eq!(one.template_hash(), Prompt::text("b", "2", "x").template_hash());
    assert_ne!(one.template_hash(), Prompt::text("a", "1", "x ").template_hash());
    let as_chat = Prompt::chat("a", "1", [ChatSegment::text(SegmentRole::User, "x")]);
    let rendered = |it: Prompt| render(it, &PromptInputs::new()).unwrap().rendered_hash().to_owned();
    assert_ne!(one.template_hash(), as_chat.template_hash());
    assert_eq!(rendered(one), rendered(as_chat), "the same message");
}
