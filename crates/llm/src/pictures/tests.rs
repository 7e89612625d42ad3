//! The content of a request in place of the pictures that it names.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::FutureExt;

use super::*;
use crate::content::ImageDetailLevel;
use crate::{CassetteRecorder, Provider, Response, Script, ScriptedProvider};

/// Pictures in memory, and which were asked for.
#[derive(Debug, Default)]
struct Kept {
    pictures: BTreeMap<String, ResolvedPicture>,
    asked: Mutex<Vec<String>>,
    room: usize,
    broken: bool,
}

impl PictureResolver for Kept {
    fn load_picture<'a>(&'a self, digest: &'a str) -> BoxFuture<'a, Result<Option<ResolvedPicture>>> {
        self.asked.lock().unwrap().push(digest.to_owned());
        let unavailable = || Error::Unavailable(ProviderErrorDetail::new("the store is away"));
        let found = if self.broken { Err(unavailable()) } else { Ok(self.pictures.get(digest).cloned()) };
        std::future::ready(found).boxed()
    }

    fn request_bytes_max(&self) -> usize {
        self.room
    }
}

fn digest(of: char) -> String {
    std::iter::repeat_n(of, DIGITS).collect()
}

fn kept(room: usize, pictures: &[(char, usize)]) -> Kept {
    let picture = |bytes| ResolvedPicture { media_type: "image/webp".into(), base64_data: "A".repeat(bytes) };
    let pictures = pictures.iter().map(|(name, bytes)| (digest(*name), picture(*bytes))).collect();
    Kept { pictures, room, ..Kept::default() }
}

fn named(of: char) -> ContentBlock {
    let detail = Some(ImageDetailLevel::Low);
    ContentBlock::Image {
        source: ImageContentSource::from_blob_digest(&digest(of)),
        media_type: None,
        detail,
    }
}

fn inline(bytes: usize) -> ContentBlock {
    let source = ImageContentSource::Inline { base64_data: "A".repeat(bytes) };
    ContentBlock::Image { source, media_type: Some("image/webp".into()), detail: Some(ImageDetailLevel::Low) }
}

fn said(blocks: Vec<ContentBlock>) -> Arc<ChatMessage> {
    Arc::new(ChatMessage::user(MessageContent::Blocks(blocks)))
}

fn check(kept: Kept, messages: Vec<Arc<ChatMessage>>, sent: Vec<Arc<ChatMessage>>, asked: &[char]) {
    let kept = Arc::new(kept);
    let request = Request::new(messages.clone()).with_pictures(kept.clone());
    let inlined = request.inline_pictures().now_or_never().unwrap().unwrap().into_owned();
    assert_eq!(inlined.messages, sent);
    assert_eq!(request.messages, messages, "the request itself stays as it is");
    let asked: Vec<_> = asked.iter().map(|it| digest(*it)).collect();
    assert_eq!(*kept.asked.lock().unwrap(), asked);
}

#[test]
fn a_picture_stands_where_it_was_named_and_its_own_type_counts() {
    let text = || ContentBlock::from_text("look");
    let web = || ContentBlock::Image {
        source: ImageContentSource::Url { url: "https://example.com/x.png".into() },
        media_type: None,
        detail: None,
    };
    check(
        kept(100, &[('a', 4), ('b', 8)]),
        vec![said(vec![named('a'), text(), web(), named('b')])],
        vec![said(vec![inline(4), text(), web(), inline(8)])],
        &['b', 'a'],
    );
}

// INV-12
#[test]
fn where_there_are_too_many_the_latest_are_sent_and_no_other_is_read() {
    let out = || ContentBlock::from_text(LEFT_OUT);
    check(
        kept(10, &[('a', 1), ('b', 8), ('c', 2), ('d', 8)]),
        vec![said(vec![named('a')]), said(vec![named('b'), named('c')]), said(vec![named('d')])],
        vec![said(vec![out()]), said(vec![out(), inline(2)]), said(vec![inline(8)])],
        &['d', 'c', 'b'],
    );
}

#[test]
fn a_conversation_goes_on_without_a_picture_that_is_gone() {
    let gone = || ContentBlock::from_text(GONE);
    check(
        kept(10, &[('a', 1)]),
        vec![said(vec![named('b'), named('a')])],
        vec![said(vec![gone(), inline(1)])],
        &['a', 'b'],
    );
}

fn call(id: &str) -> Arc<ChatMessage> {
    let call = crate::ToolCall::new(id, "photo", serde_json::Map::new());
    Arc::new(ChatMessage::assistant("").with_tool_calls([call]))
}

fn result(id: &str, pictures: &[char]) -> Arc<ChatMessage> {
    let lines = pictures.iter().map(|name| tool_picture_line("image/webp", 3, &digest(*name)));
    Arc::new(ChatMessage::tool(id, lines.fold("A view.".to_owned(), |text, line| format!("{text}\n{line}"))))
}

fn shown_of_tool(bytes: usize) -> ContentBlock {
    let source = ImageContentSource::Inline { base64_data: "A".repeat(bytes) };
    ContentBlock::Image { source, media_type: Some("image/webp".into()), detail: None }
}

fn caption(number: usize, id: &str, note: &str) -> ContentBlock {
    ContentBlock::from_text(format!("Image {number} of the result of the tool call {id} (photo):{note}"))
}

// spec: llm-provider §3, §5
#[test]
fn pictures_of_tools_are_shown_after_the_run_of_results_that_names_them() {
    let (user, model) = (Arc::new(ChatMessage::user("show")), Arc::new(ChatMessage::assistant("ok")));
    let run =
        || vec![user.clone(), call("1"), result("1", &['a', 'b']), result("2", &[]), result("1", &['a'])];
    let shown = || {
        said(vec![
            caption(1, "1", ""),
            shown_of_tool(4),
            caption(2, "1", ""),
            shown_of_tool(8),
            caption(1, "1", ""),
            shown_of_tool(4),
        ])
    };
    let pictures = || kept(100, &[('a', 4), ('b', 8)]);
    check(pictures(), run(), [run(), vec![shown()]].concat(), &['a', 'b', 'a']);
    let rest = || vec![model.clone(), user.clone()];
    check(pictures(), [run(), rest()].concat(), [run(), vec![shown()], rest()].concat(), &['a', 'b', 'a']);
}

// INV-12
#[test]
fn of_pictures_of_tools_the_earliest_are_left_out_and_one_that_is_gone_is_a_text() {
    let messages = || vec![said(vec![named('b')]), call("1"), result("1", &['a', 'c', 'b'])];
    let left_out = format!(" {LEFT_OUT}");
    let gone = format!(" {GONE}");
    let expected = vec![
        said(vec![ContentBlock::from_text(LEFT_OUT)]),
        call("1"),
        result("1", &['a', 'c', 'b']),
        said(vec![caption(1, "1", &left_out), caption(2, "1", &gone), caption(3, "1", ""), shown_of_tool(8)]),
    ];
    check(kept(10, &[('a', 4), ('b', 8)]), messages(), expected, &['b', 'c', 'a']);
    let many = result("1", &['a'; 20]);
    let request = Request::new(vec![call("1"), many]).with_pictures(Arc::new(kept(100, &[('a', 1)])));
    let inlined = request.inline_pictures().now_or_never().unwrap().unwrap();
    assert_eq!(inlined.messages[2].content.blocks().len(), 2 * TOOL_PICTURES_MAX);
}

#[test]
fn a_tool_shows_no_file_that_is_no_picture_and_nothing_without_a_store() {
    let mut kept = kept(100, &[('a', 4)]);
    kept.pictures.values_mut().for_each(|picture| picture.media_type = "text/plain".into());
    let sent = said(vec![caption(1, "1", &format!(" {GONE}"))]);
    let messages = || vec![call("1"), result("1", &['a'])];
    check(kept, messages(), [messages(), vec![sent]].concat(), &['a']);
    let request = Request::new(messages());
    assert!(matches!(request.inline_pictures().now_or_never().unwrap().unwrap(), Cow::Borrowed(_)));
    // Only a line of its own names a picture, and only in a message of a tool.
    let line = tool_picture_line("image/png", 1, &digest('a'));
    for message in [ChatMessage::tool("1", format!("so: {line}")), ChatMessage::user(line.as_str())] {
        let request =
            Request::new(vec![call("1"), Arc::new(message)]).with_pictures(Arc::new(self::kept(9, &[])));
        assert!(matches!(request.inline_pictures().now_or_never().unwrap().unwrap(), Cow::Borrowed(_)));
    }
}

#[test]
fn without_a_name_nothing_is_asked_and_nothing_copied() {
    let odd = ["blob:", "blob:abc", "blob:https://example.com/1", "data:image/png;base64,AAAA"];
    let url = |it: &str| ContentBlock::Image {
        source: ImageContentSource::Url { url: it.into() },
        media_type: None,
        detail: None,
    };
    let upper = format!("blob:{}", digest('A'));
    let blocks = odd.into_iter().chain([upper.as_str()]).map(url).collect();
    let request = Request::new(vec![said(blocks)]);
    let inlined = request.inline_pictures().now_or_never().unwrap().unwrap();
    assert!(matches!(inlined, Cow::Borrowed(_)));
}

#[test]
fn what_cannot_be_read_now_may_be_read_later_and_what_nobody_keeps_is_a_mistake() {
    let request = Request::new(vec![said(vec![named('a')])]);
    let category = |it: Request| it.inline_pictures().now_or_never().unwrap().unwrap_err().category();
    let broken = Kept { broken: true, ..kept(10, &[]) };
    assert_eq!(category(request.clone().with_pictures(Arc::new(broken))), "provider_unavailable");
    assert_eq!(category(request), "provider_invalid_request");
}

/// A provider that writes requests to a wire.
#[derive(Debug)]
struct Wire(ScriptedProvider, Arc<Mutex<Vec<String>>>);

impl Provider for Wire {
    fn model_name(&self) -> &str {
        self.0.model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move {
            let inlined = request.inline_pictures().await?;
            self.1.lock().unwrap().push(serde_json::to_string(&inlined.messages).unwrap());
            self.0.complete(&inlined).await
        }
        .boxed()
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<crate::BoxStream<'a, Result<crate::ResponseDelta>>>> {
        self.0.stream_deltas(request)
    }
}

#[test]
fn the_bytes_are_on_the_wire_and_not_on_the_cassette() {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let wire = Wire(ScriptedProvider::new(Script::replies(["A leaf."])), sent.clone());
    let recorder = CassetteRecorder::new(wire);
    let picture = ResolvedPicture { media_type: "image/png".into(), base64_data: "QUFBQUJCQkI=".into() };
    let kept = Kept { pictures: [(digest('a'), picture)].into(), room: 100, ..Kept::default() };
    let request = Request::new(vec![said(vec![named('a')])]).with_pictures(Arc::new(kept));
    let answer = recorder.complete(&request).now_or_never().unwrap().unwrap();
    assert_eq!(answer.message.text(), "A leaf.");
    let text = recorder.cassette_text();
    assert!(text.contains(&format!("blob:{}", digest('a'))) && !text.contains("QUFBQUJCQkI="), "{text}");
    let shown = format!("{request:?}");
    assert!(!shown.contains("QUFBQUJCQkI="), "{shown}");
    assert!(sent.lock().unwrap()[0].contains("QUFBQUJCQkI="));
}
