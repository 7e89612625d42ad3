//! Any bytes for an answer: an answer or a category comes of it, at once, and nothing panics. `PROPTEST_CASES` says
//! how often.

use std::sync::LazyLock;

use bytes::Bytes;
use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::sample::Index;
use singletree_llm::{Provider, Request, Response, Result};
use singletree_providers::Wire;

use crate::rig::{Answer, Canned, provider, question_with_tools, stream};
use crate::sequences::bodies;

const WIRES: [Wire; 3] = [Wire::OpenAi, Wire::Anthropic, Wire::Gemini];

static BODIES: LazyLock<Vec<(Wire, String, String)>> = LazyLock::new(bodies);
static REQUEST: LazyLock<Request> = LazyLock::new(question_with_tools);

/// Asks in all three ways. None of them may have to wait: everything that the server says is there.
fn ask(wire: Wire, body: &[u8]) {
    let answer = |kind: &str| Answer::typed(200, kind, vec![Bytes::copy_from_slice(body)]);
    let failed = Answer { status: 400, ..answer("application/json") };
    let transport =
        Canned::new([answer("text/event-stream"), answer("application/json"), failed, answer("x/y")]);
    let provider = provider(wire, &transport);
    let streamed = stream(&provider, &REQUEST).now_or_never().expect("a stream does not hang").end;
    check(streamed);
    check(provider.complete(&REQUEST).now_or_never().expect("an answer does not hang"));
    let refused = provider.complete(&REQUEST).now_or_never().expect("a refusal does not hang");
    assert!(refused.is_err(), "{refused:?}");
    let probe = provider.ready().now_or_never().expect("a probe does not hang");
    assert!(probe.is_ok() || probe.is_err_and(|it| it.category().starts_with("provider_")));
}

/// The result is a whole message, or an error of a known category.
fn check(end: Result<Response>) {
    match end {
        Ok(response) => assert_eq!(response.clone().validate_against(&REQUEST).unwrap(), response),
        Err(error) => assert!(error.category().starts_with("provider_"), "{error:?}"),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_a_category(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for wire in WIRES {
            ask(wire, &bytes);
        }
    }

    #[test]
    fn a_true_answer_with_wrong_bytes_is_an_answer_or_a_category(
        which in any::<Index>(),
        streamed in any::<bool>(),
        wrong in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        other in any::<Index>(),
    ) {
        let (wire, events, atomic) = which.get(&BODIES);
        let mut bytes = if streamed { events } else { atomic }.clone().into_bytes();
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        ask(*wire, &bytes);
        ask(*other.get(&WIRES), &bytes);
    }

    #[test]
    fn lines_of_true_streams_in_any_order_are_an_answer_or_a_category(
        which in prop::collection::vec((any::<Index>(), any::<Index>()), 1..12),
    ) {
        let (wire, ..) = which[0].0.get(&BODIES);
        let same: Vec<&str> = BODIES.iter().filter(|it| it.0 == *wire).map(|it| it.1.as_str()).collect();
        let mut mixed = String::new();
        for (stream, line) in &which {
            let events: Vec<&str> = stream.get(&same).split_inclusive("\n\n").collect();
            mixed.push_str(events[line.index(events.len())]);
        }
        ask(*wire, mixed.as_bytes());
    }
}
