//! Rendering: the language, its strictness, its limits, and the treatment of secret variables.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent};
use singletree_prompts::{
    BlockTemplate, ChatSegment, Error, MemoryBackend, Prompt, PromptInputs, PromptManager, RenderLimits,
    SegmentRole,
};

use crate::support::{render, text};

fn inputs() -> PromptInputs {
    PromptInputs::new()
        .variable("s", "it's")
        .variable("n", 3)
        .variable("f", 1.0)
        .variable("m", json!({"b": [1, null, true], "a": "<x>"}))
        .variable("xs", json!(["a", "b"]))
}

#[test]
fn templates_are_jinja_without_escaping_and_text_is_kept_as_it_is() {
    for (template, rendered) in [
        ("Hello, {{ s }}!", "Hello, it's!"),
        ("{{s}}", "it's"),
        ("a\n", "a\n"),
        ("\n\n a \n\n", "\n\n a \n\n"),
        ("a\r\nb", "a\r\nb"),
        ("{{ m.a }}", "<x>"),
        ("{{ n }} {{ f }} {{ m }}", "3 1.0 {'a': '<x>', 'b': [1, None, True]}"),
        ("{{ m | tojson }}", r#"{"a":"<x>","b":[1,null,true]}"#),
        ("{% for x in xs %}{{ loop.index }}{{ x }} {% endfor %}", "1a 2b "),
        ("{% if n > 2 %}big{% else %}small{% endif %}", "big"),
        ("{{ missing | default('d') }}{{ 'x' if missing is defined }}!", "d!"),
        ("{# not told #}told", "told"),
        ("{% raw %}{{ s }}{% endraw %}", "{{ s }}"),
        ("no tags } { %", "no tags } { %"),
    ] {
        assert_eq!(text(template, &inputs()), Ok(rendered.to_owned()), "{template}");
    }
}

// spec: prompt-management §8
#[test]
fn whatever_is_undefined_is_an_error_that_names_it() {
    for template in [
        "{{ missing }}",
        "{{ missing.part }}",
        "{{ [missing] }}",
        "{{ {'a': [missing]} }}",
        "{{ dict(a=missing) }}",
        "{{ missing ~ 'x' }}",
        "{{ missing | upper }}",
        "{{ missing | join(',') }}",
        "{{ [missing] | join }}",
        "{{ missing | e }}",
        "{{ missing | escape }}",
        "{{ missing | pprint }}",
        "{{ missing | tojson }}",
        "{{ {'a': missing} | tojson }}",
        "{{ missing | list }}",
        "{{ missing | length }}",
        "{{ missing | first }}",
        "{% if missing %}{% endif %}x",
        "{% for x in missing %}{% endfor %}x",
        "{{ missing == 1 }}",
        "{% set a = missing %}{{ a }}",
    ] {
        let told = text(template, &inputs()).unwrap_err();
        assert!(told.contains("`missing"), "{template}: {told}");
    }
    assert!(text("{{ m.missing }}", &inputs()).unwrap_err().contains("`m.missing`"));
    assert!(text("{{ [m.missing] }}", &inputs()).is_err());
}

#[test]
fn what_reads_files_or_shows_everything_is_not_there() {
    for template in ["{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{{ debug() }}"] {
        assert!(text(template, &inputs()).is_err(), "{template}");
    }
}

// INV-12
#[test]
fn a_template_that_makes_too_much_work_is_ended() {
    let endless = "{% for a in range(10000) %}{% for b in range(10000) %}{{ a }}{% endfor %}{% endfor %}";
    assert!(text(endless, &inputs()).unwrap_err().contains("fuel"));
    let limits = RenderLimits { output_bytes: 10, ..RenderLimits::default() };
    let prompts = PromptManager::builder(MemoryBackend::new()).render_limits(limits).build();
    let render = |template: &str| {
        let prompt = Arc::new(Prompt::text("p", "1", template));
        prompts.render_prompt(&prompt, &PromptInputs::new()).map(|it| it.messages()[0].text().into_owned())
    };
    assert_eq!(render("0123456789").unwrap(), "0123456789");
    assert!(render("0123456789a").unwrap_err().to_string().contains("longer than 10 bytes"));
}

// INV-16
#[test]
fn a_secret_is_rendered_and_never_told() {
    let inputs = PromptInputs::new()
        .secret_variable("key", "s3cr3t-value")
        .secret_variable("keys", json!({"deep": ["hidden-word"]}))
        .secret_variable("pem", "first-line\nsecond-line")
        .variable("open", "plain");
    let prompt = Prompt::text("p", "1", "{{ key }} {{ keys.deep[0] }} {{ open }}");
    let result = render(prompt, &inputs).unwrap();
    assert_eq!(result.messages()[0].text(), "s3cr3t-value hidden-word plain");
    let told = json!({"key": "[redacted]", "keys": "[redacted]", "pem": "[redacted]", "open": "plain"});
    assert_eq!(json!(result.variables()), told);
    for template in [
        "{{ nothing[key] }}",
        "{{ key | int }}",
        "{{ {}[key] }}",
        "{{ key() }}",
        "{{ key + 1 }}",
        "{{ missing }}",
        "{{ pem() }}",
        "{{ [pem] | round }}",
        "{{ (pem ~ '') | float }}",
    ] {
        let Error::Render(error) = render(Prompt::text("p", "1", template), &inputs).unwrap_err() else {
            panic!("it is not rendered: {template}")
        };
        assert_eq!(json!(error.variables()), told);
        let shown = format!("{error} {error:?} {:#?} {inputs:?}", Error::Render(error.clone()));
        for word in ["s3cr3t-value", "hidden-word", "second-line", "plain"] {
            assert!(!shown.contains(word), "{template}: {shown}");
        }
    }
}

fn chat(segments: Vec<ChatSegment>) -> Prompt {
    Prompt::chat("c", "1", segments)
}

fn told(prompt: Prompt, inputs: &PromptInputs) -> String {
    match render(prompt, inputs) {
        Err(Error::Render(error)) => error.description().to_owned(),
        other => panic!("{other:?}"),
    }
}

// spec: prompt-management §11
#[test]
fn what_is_wrong_with_a_chat_prompt_is_told_with_its_place() {
    let (system, user) = (SegmentRole::System, SegmentRole::User);
    let hello = || ChatSegment::text(system, "Hello");
    let image = || BlockTemplate::image_url("u");
    for (segments, what) in [
        (vec![hello(), ChatSegment::text(user, "")], "segment 1 (user): the rendered text is empty"),
        (
            vec![hello(), ChatSegment::text(user, "{{ missing }}")],
            "segment 1 (user): `missing` is undefined (line 1); not given: `missing`",
        ),
        (
            vec![ChatSegment::blocks(user, [image(), BlockTemplate::text("{{ s }}{{")])],
            "segment 0 (user), block 1: syntax error: unexpected end of input, expected expression (line 1)",
        ),
        (vec![ChatSegment::blocks(user, [])], "segment 0 (user): the list of content blocks is empty"),
        (
            vec![ChatSegment::blocks(SegmentRole::Assistant, [BlockTemplate::text("a"), image()])],
            "segment 0 (assistant), block 1: only a user says an image",
        ),
        (
            vec![hello(), ChatSegment::placeholder("h")],
            "segment 1 (placeholder `h`): no messages were given for it",
        ),
        (
            vec![ChatSegment::placeholder("e"), ChatSegment::placeholder("e")],
            "segment 1 (placeholder `e`): the placeholder's name is there twice",
        ),
        (
            vec![ChatSegment::placeholder("é")],
            "segment 0 (placeholder `é`): a placeholder's name is letters, digits and underscores, and begins with no digit",
        ),
        (vec![ChatSegment::placeholder("e")], "the list of rendered messages is empty"),
        (vec![], "the list of rendered messages is empty"),
    ] {
        let inputs = inputs().placeholder("e", Vec::<ChatMessage>::new());
        assert_eq!(told(chat(segments.clone()), &inputs), what, "{segments:?}");
    }
}

// spec: prompt-management §6
#[test]
fn segments_and_placeholders_become_messages_in_order() {
    let prompt = chat(vec![
        ChatSegment::text(SegmentRole::System, "For {{ s }}."),
        ChatSegment::placeholder("history"),
        ChatSegment::blocks(
            SegmentRole::User,
            [BlockTemplate::text("See {{ n }}"), BlockTemplate::image_url("http://x/{{ n }}")],
        ),
    ]);
    let earlier = Arc::new(ChatMessage::assistant("before"));
    let result = render(prompt, &inputs().placeholder("history", [earlier.clone()])).unwrap();
    let image = ContentBlock::Image {
        source: ImageContentSource::Url { url: "http://x/3".into() },
        media_type: None,
        detail: None,
    };
    let blocks = MessageContent::Blocks(vec![ContentBlock::from_text("See 3"), image]);
    let wanted = [ChatMessage::system("For it's."), (*earlier).clone(), ChatMessage::user(blocks)];
    assert_eq!(result.messages().iter().map(|it| (**it).clone()).collect::<Vec<_>>(), wanted);
    assert!(Arc::ptr_eq(&result.messages()[1], &earlier), "what is injected is shared, not copied");
}

/// Text with a good deal of the language in it.
fn template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => ".{0,8}",
        2 => "[{%#}\\[\\]()'\"|.~+*/-]{1,6}",
        2 => prop::sample::select(vec![
            "{{", "}}", "{%", "%}", "{#", "#}", "{{ s }}", "{% for x in xs %}", "{% endfor %}", "{% if n %}",
            "{% else %}", "{% endif %}", "{% set a = ", " m ", " xs ", " n ", "|tojson", "|join(", "|int",
            "range(", "loop(", "{% for x in m recursive %}", " ** ", " // ", "[::-1]", "[1:", " is ", " in ",
            "not ", "9999999999999999999999", "-1", "{%- raw -%}", "{% endraw %}", "{% filter upper %}",
            "{% endfilter %}", "{% with %}", "{% endwith %}", "\u{feff}", "\0", "\r\n",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn rendering_never_panics_and_gives_the_same_twice(template in template()) {
        let result = text(&template, &inputs());
        prop_assert_eq!(&result, &text(&template, &inputs()));
        if let Ok(rendered) = result {
            prop_assert!(!rendered.is_empty());
        }
    }

    #[test]
    fn text_without_tags_renders_to_itself(template in "[^{}]{1,40}") {
        prop_assert_eq!(text(&template, &PromptInputs::new()), Ok(template));
    }

    // spec: prompt-management §13
    #[test]
    fn what_comes_before_the_first_other_value_is_the_same_bytes(
        before in "[^{}]{0,20}", shared in ".{0,20}", between in "[^{}]{0,20}", one in ".{0,20}", other in ".{0,20}",
    ) {
        let template = format!("{before}{{{{ shared }}}}{between}{{{{ last }}}}!");
        let render = |last: &str| {
            text(&template, &PromptInputs::new().variable("shared", shared.clone()).variable("last", last)).unwrap()
        };
        let prefix = format!("{before}{shared}{between}");
        prop_assert_eq!(render(&one), format!("{prefix}{one}!"));
        prop_assert_eq!(render(&other), format!("{prefix}{other}!"));
    }
}
