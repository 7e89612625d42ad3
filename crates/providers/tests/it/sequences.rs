//! Every wire, every sequence of its events, every cut: the answer that would have come at once, or a category; never a
//! hang, never half a message (spec: llm-provider §6, streaming assembly).
//!
//! A wire joins by adding its table to [`tables`].

mod anthropic;
mod gemini;
mod openai;

use serde_json::Value;
use singletree_llm::{ModelFinishReason, Provider, Request, Response};
use singletree_providers::Wire;

use crate::rig::{Answer, Canned, broken, provider, question, question_with_tools, stream};

/// One answer of a server, both ways.
pub(crate) struct Sequence {
    pub(crate) name: &'static str,
    pub(crate) wire: Wire,
    /// The answer at once.
    pub(crate) atomic: Value,
    /// The same answer as events.
    pub(crate) events: String,
    /// The text that occurs in the event that ends the stream, and nowhere before.
    pub(crate) last: &'static str,
    /// Whether the tools are offered that it calls.
    pub(crate) tools: bool,
    /// The expected result both ways.
    pub(crate) end: End,
}

/// The result of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A response that finished so.
    Finished(ModelFinishReason),
    /// An error of this category.
    Failed(&'static str),
}

impl Sequence {
    fn request(&self) -> Request {
        if self.tools { question_with_tools() } else { question() }
    }
}

fn tables() -> Vec<Sequence> {
    [openai::table(), anthropic::table(), gemini::table()].into_iter().flatten().collect()
}

/// The parts of a response that must be the same both ways. Usage too: it stands at the end of a stream.
fn told(response: &Response) -> impl PartialEq + std::fmt::Debug + use<> {
    (response.message.clone(), response.finish_reason, response.usage, response.parsed.clone())
}

fn end(result: &singletree_llm::Result<Response>) -> End {
    match result {
        Ok(response) => End::Finished(response.finish_reason),
        Err(error) => End::Failed(error.category()),
    }
}

/// Asks for the stream of a sequence again and again.
struct Asker {
    wire: Wire,
    request: Request,
}

impl Asker {
    fn new(sequence: &Sequence) -> Self {
        Self { wire: sequence.wire, request: sequence.request() }
    }

    async fn ask(&self, answer: Answer) -> singletree_llm::Result<Response> {
        let transport = Canned::new([answer]);
        stream(&provider(self.wire, &transport), &self.request).await.end
    }
}

async fn at_once(sequence: &Sequence) -> singletree_llm::Result<Response> {
    let transport = Canned::new([Answer::json(200, &sequence.atomic)]);
    provider(sequence.wire, &transport).complete(&sequence.request()).await
}

async fn streamed(sequence: &Sequence, answer: Answer) -> singletree_llm::Result<Response> {
    Asker::new(sequence).ask(answer).await
}

#[tokio::test]
async fn a_stream_comes_to_what_the_answer_at_once_comes_to() {
    for sequence in tables() {
        let name = sequence.name;
        let (atomic, streamed) =
            (at_once(&sequence).await, streamed(&sequence, Answer::events(sequence.events.clone())).await);
        assert_eq!(end(&atomic), sequence.end, "{name}, at once: {atomic:?}");
        assert_eq!(end(&streamed), sequence.end, "{name}, streamed: {streamed:?}");
        if let (Ok(atomic), Ok(streamed)) = (&atomic, &streamed) {
            assert_eq!(told(streamed), told(atomic), "{name}");
            // OpenAI's chunks and its answers are not made of the same fields; those of the others are.
            if sequence.wire != Wire::OpenAi {
                assert_eq!(streamed.raw, atomic.raw, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn how_the_bytes_of_a_stream_are_cut_does_not_matter() {
    for sequence in tables() {
        let whole = streamed(&sequence, Answer::events(sequence.events.clone())).await;
        for size in [1, 2, 3, 7, 64] {
            let pieces = sequence.events.as_bytes().chunks(size).map(bytes::Bytes::copy_from_slice).collect();
            let cut = streamed(&sequence, Answer::typed(200, "text/event-stream", pieces)).await;
            assert_eq!(end(&cut), end(&whole), "{}, in pieces of {size}", sequence.name);
            if let (Ok(cut), Ok(whole)) = (&cut, &whole) {
                assert_eq!(
                    (told(cut), &cut.raw),
                    (told(whole), &whole.raw),
                    "{}, in pieces of {size}",
                    sequence.name
                );
            }
        }
    }
}

#[tokio::test]
async fn line_ends_of_every_kind_come_to_the_same() {
    for sequence in tables() {
        let whole = streamed(&sequence, Answer::events(sequence.events.clone())).await;
        for ends in ["\r\n", "\r"] {
            let other = streamed(&sequence, Answer::events(sequence.events.replace('\n', ends))).await;
            assert_eq!(end(&other), end(&whole), "{} with {ends:?}", sequence.name);
            if let (Ok(other), Ok(whole)) = (&other, &whole) {
                assert_eq!(told(other), told(whole), "{} with {ends:?}", sequence.name);
            }
        }
    }
}

/// Returns where a text is cut: everywhere under `.ci/run --deep`, else at every eleventh byte and around the ends of
/// lines.
fn cuts(text: &str) -> Vec<usize> {
    const STRIDE: usize = 11;
    const AROUND: usize = 2;
    let deep = std::env::var_os("SINGLETREE_DEEP").is_some();
    let near_an_end = |at: usize| {
        let around = at.saturating_sub(AROUND)..(at + AROUND).min(text.len());
        text.as_bytes()[around].contains(&b'\n')
    };
    (0..text.len()).filter(|&at| deep || at % STRIDE == 0 || near_an_end(at)).collect()
}

/// A stream that is cut is unavailable, or has failed as the whole one does, or was over for the message before the
/// cut.
fn check_cut(
    sequence: &Sequence,
    at: usize,
    whole: &singletree_llm::Result<Response>,
    cut: &singletree_llm::Result<Response>,
) {
    let place = || format!("{} cut at byte {at}", sequence.name);
    match (cut, whole) {
        (Ok(cut), Ok(whole)) => {
            // The usage may be behind the cut, the message may not.
            assert_eq!(
                (&cut.message, cut.finish_reason),
                (&whole.message, whole.finish_reason),
                "{}",
                place()
            );
        }
        (Err(error), _) if error.category() == "provider_unavailable" => {}
        (Err(error), Err(_)) => assert_eq!(End::Failed(error.category()), sequence.end, "{}", place()),
        (cut, _) => panic!("{}: {cut:?}", place()),
    }
}

#[tokio::test]
async fn a_stream_that_ends_at_any_byte_is_the_answer_or_a_category() {
    for sequence in tables() {
        let asker = Asker::new(&sequence);
        let whole = asker.ask(Answer::events(sequence.events.clone())).await;
        for at in cuts(&sequence.events) {
            let bytes = sequence.events.as_bytes()[..at].to_vec();
            let ended = asker.ask(Answer::events(bytes.clone())).await;
            check_cut(&sequence, at, &whole, &ended);
            let lost = asker.ask(Answer::events(bytes).ending_in(broken())).await;
            check_cut(&sequence, at, &whole, &lost);
        }
    }
}

#[tokio::test]
async fn a_connection_lost_before_the_end_of_the_stream_is_unavailable() {
    for sequence in tables().into_iter().filter(|it| matches!(it.end, End::Finished(_))) {
        let last = sequence.events.find(sequence.last).unwrap();
        let bytes = sequence.events.as_bytes()[..last].to_vec();
        let lost = streamed(&sequence, Answer::events(bytes).ending_in(broken())).await;
        assert_eq!(end(&lost), End::Failed("provider_unavailable"), "{}", sequence.name);
    }
}

#[tokio::test]
async fn an_answer_at_once_is_taken_where_a_stream_was_asked_for() {
    for sequence in tables() {
        let (atomic, streamed) =
            (at_once(&sequence).await, streamed(&sequence, Answer::json(200, &sequence.atomic)).await);
        assert_eq!(end(&streamed), end(&atomic), "{}", sequence.name);
        if let (Ok(atomic), Ok(streamed)) = (&atomic, &streamed) {
            assert_eq!((told(streamed), &streamed.raw), (told(atomic), &atomic.raw), "{}", sequence.name);
        }
    }
}

#[tokio::test]
async fn an_answer_at_once_that_is_cut_anywhere_is_invalid() {
    for sequence in tables() {
        let (text, request) = (sequence.atomic.to_string(), sequence.request());
        for at in cuts(&text) {
            let answer = |piece: &str| Answer::typed(200, "application/json", vec![piece.to_owned().into()]);
            let cut = text.is_char_boundary(at).then(|| answer(&text[..at]));
            let Some(cut) = cut else { continue };
            let transport = Canned::new([cut, answer(&text[..at]).ending_in(broken())]);
            let provider = provider(sequence.wire, &transport);
            let ended = provider.complete(&request).await;
            assert_eq!(end(&ended), End::Failed("provider_invalid_response"), "{} at {at}", sequence.name);
            let lost = provider.complete(&request).await;
            assert_eq!(end(&lost), End::Failed("provider_unavailable"), "{} at {at}", sequence.name);
        }
    }
}

/// Returns the answers of every table that came to a message, beside the name of their sequence.
pub(crate) async fn answers() -> Vec<(&'static str, Wire, Response)> {
    let mut all = Vec::new();
    for sequence in tables() {
        match streamed(&sequence, Answer::events(sequence.events.clone())).await {
            Ok(response) if response.finish_reason != ModelFinishReason::Error => {
                all.push((sequence.name, sequence.wire, response));
            }
            Ok(_) | Err(_) => {}
        }
    }
    all
}

/// Returns a stream with a text and two calls, for the tests of tool loops.
pub(crate) fn tool_turn(wire: Wire) -> String {
    let found = tables().into_iter().find(|it| it.wire == wire && it.name.starts_with("two calls"));
    found.expect("every wire has it").events
}

/// Returns every stream of every table, and every answer at once, with its wire.
pub(crate) fn bodies() -> Vec<(Wire, String, String)> {
    tables().into_iter().map(|it| (it.wire, it.events, it.atomic.to_string())).collect()
}
