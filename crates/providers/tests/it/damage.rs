//! The kept streams, damaged at random and cut at random, through the whole provider: an answer that is sound, or a
//! category; never a panic, never a stream without an end. `.ci/fuzz` runs it for as long as it is told.

use bytes::Bytes;
use futures_util::FutureExt as _;
use proptest::prelude::*;
use singletree_llm::{ModelFinishReason, Provider as _};
use singletree_providers::Wire;

use crate::rig::{Answer, Canned, provider, question, question_with_tools, stream};

/// A change of bytes. Places are fractions of the length, of 65,536 parts.
#[derive(Debug, Clone)]
enum Damage {
    Flip(u16, u8),
    Cut(u16),
    Lose(u16, u8),
    Insert(u16, Vec<u8>),
    Swap(u16, u16),
    Repeat(u16),
    Replace(u16, &'static str),
}

/// Values that a faulty server may write in the place of others.
const WORDS: &[&str] = &[
    "null",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "1e999",
    "true",
    "data: ",
    "\n\n",
    "\r",
    "[DONE]",
    "\\ud800",
    "event: error\n",
    "\"index\":4294967296",
    "\"finish_reason\":\"stop\"",
    "\"error\":{}",
    "\u{0}",
    "}",
    "]",
    "\"",
];

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop::collection::vec(any::<u8>(), 1..5);
    prop_oneof![
        any::<(u16, u8)>().prop_map(|(at, with)| Damage::Flip(at, with)),
        any::<u16>().prop_map(Damage::Cut),
        any::<(u16, u8)>().prop_map(|(at, bytes)| Damage::Lose(at, bytes)),
        (any::<u16>(), bytes).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        any::<(u16, u16)>().prop_map(|(one, two)| Damage::Swap(one, two)),
        any::<u16>().prop_map(Damage::Repeat),
        (any::<u16>(), prop::sample::select(WORDS)).prop_map(|(at, word)| Damage::Replace(at, word)),
    ]
}

fn place(part: u16, len: usize) -> usize {
    (usize::from(part) * len) >> 16
}

/// Events are swapped and repeated whole; the rest is done to bytes.
fn damaged(mut bytes: Vec<u8>, damage: &Damage) -> Vec<u8> {
    let len = bytes.len();
    match damage {
        _ if len == 0 => {}
        Damage::Flip(at, with) => bytes[place(*at, len)] ^= with,
        Damage::Cut(at) => bytes.truncate(place(*at, len)),
        Damage::Lose(at, count) => {
            let at = place(*at, len);
            bytes.drain(at..(at + usize::from(*count)).min(len));
        }
        Damage::Insert(at, more) => {
            drop(bytes.splice(place(*at, len)..place(*at, len), more.iter().copied()))
        }
        Damage::Swap(one, two) => {
            let mut events = events(&bytes);
            let count = events.len();
            events.swap(place(*one, count), place(*two, count));
            return events.concat();
        }
        Damage::Repeat(at) => {
            let mut events = events(&bytes);
            let at = place(*at, events.len());
            events.insert(at, events[at].clone());
            return events.concat();
        }
        Damage::Replace(at, word) => {
            let at = place(*at, len);
            drop(bytes.splice(at..(at + word.len()).min(len), word.bytes()));
        }
    }
    bytes
}

/// Cuts after each empty line.
fn events(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut events = vec![Vec::new()];
    for line in bytes.split_inclusive(|it| *it == b'\n') {
        let last = events.len() - 1;
        events[last].extend_from_slice(line);
        if matches!(line, b"\n" | b"\r\n") {
            events.push(Vec::new());
        }
    }
    events
}

fn kept(at: prop::sample::Index) -> (Wire, Vec<u8>) {
    let mut all = Vec::new();
    for (folder, wire) in crate::sdk::WIRES {
        all.extend(crate::sdk::names(folder).into_iter().map(|name| (folder, wire, name)));
    }
    let (folder, wire, name) = at.get(&all);
    (*wire, std::fs::read(crate::sdk::file(folder, name, "sse")).unwrap())
}

fn pieces(bytes: &[u8], mut cuts: Vec<usize>) -> Vec<Bytes> {
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|it| Bytes::copy_from_slice(&bytes[it[0]..it[1]])).collect()
}

proptest! {
    // spec: llm-provider §6, §7
    #[test]
    fn no_damage_to_a_stream_gives_half_a_message(
        at in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        tools in any::<bool>(),
    ) {
        let (wire, bytes) = kept(at);
        let bytes = damages.iter().fold(bytes, damaged);
        let cuts = cuts.iter().map(|it| it.index(bytes.len() + 1)).collect();
        let server = Canned::new([Answer::typed(200, "text/event-stream", pieces(&bytes, cuts))]);
        let request = if tools { question_with_tools() } else { question() };
        let provider = provider(wire, &server);
        // Nothing here waits: a stream that is not over then never is.
        let streamed = stream(&provider, &request).now_or_never().expect("the stream ends");
        match streamed.end {
            Ok(answer) if answer.finish_reason == ModelFinishReason::Error => {}
            Ok(answer) => prop_assert!(answer.message.validate().is_ok(), "{answer:?}"),
            Err(error) => prop_assert!(!error.category().is_empty() && !error.to_string().is_empty()),
        }
    }

    // spec: llm-provider §6, §7
    #[test]
    fn no_damage_to_a_whole_answer_gives_half_a_message(
        at in any::<prop::sample::Index>(),
        event in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 0..4),
        status in prop_oneof![Just(200_u16), 300_u16..600],
    ) {
        let (wire, bytes) = kept(at);
        let events = events(&bytes);
        let text = String::from_utf8_lossy(event.get::<Vec<u8>>(&events)).into_owned();
        // Only the data of an event; the `delta` of a chunk is the `message` of a whole answer.
        let text = text.lines().find_map(|it| it.strip_prefix("data: ")).unwrap_or_default();
        let body = damages.iter().fold(text.replace("\"delta\"", "\"message\"").into_bytes(), damaged);
        let server = Canned::new([Answer::typed(status, "application/json", vec![body.into()])]);
        let (provider, request) = (provider(wire, &server), question_with_tools());
        let end = provider.complete(&request).now_or_never().expect("the answer is there");
        match end {
            Ok(answer) if answer.finish_reason == ModelFinishReason::Error => {}
            Ok(answer) => prop_assert!(answer.message.validate().is_ok(), "{answer:?}"),
            Err(error) => prop_assert!(!error.category().is_empty() && !error.to_string().is_empty()),
        }
    }
}
