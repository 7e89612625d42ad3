//! A server that stalls, at every place of its answer, below and above the limits. Time is paused: a stall passes as
//! soon as nothing else can be done.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_llm::{ResponseLimits, complete_streaming};
use singletree_providers::{HttpProvider, Wire};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::rig::question;
use crate::sockets::{END, HEAD, chunk, closed, event, request, text};

/// Where an answer stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StallPlace {
    Head,
    FirstPiece,
    BetweenPieces,
    MiddleOfEvent,
    Finish,
    Done,
}

const BODY_PLACES: [StallPlace; 5] = [
    StallPlace::FirstPiece,
    StallPlace::BetweenPieces,
    StallPlace::MiddleOfEvent,
    StallPlace::Finish,
    StallPlace::Done,
];

/// Answers in two pieces of text, with one stall. The reader may have gone when it is over.
async fn answer_stalling(stream: &mut TcpStream, place: StallPlace, stall: Duration) -> bool {
    let (two, finish_reason) = (text(" two"), json!({ "index": 0, "delta": {}, "finish_reason": "stop" }));
    let (first_half, second_half) = two.split_at(two.len() / 2);
    let finish_event = event(json!({ "choices": [finish_reason] }));
    let parts = [
        (StallPlace::Head, HEAD.as_bytes().to_vec()),
        (StallPlace::FirstPiece, chunk(text("one").as_bytes())),
        (StallPlace::BetweenPieces, chunk(first_half.as_bytes())),
        (StallPlace::MiddleOfEvent, chunk(second_half.as_bytes())),
        (StallPlace::Finish, chunk(finish_event.as_bytes())),
        (StallPlace::Done, [&chunk(event("[DONE]").as_bytes()), END.as_bytes()].concat()),
    ];
    for (before, bytes) in parts {
        if before == place && tokio::time::timeout(stall, closed(stream)).await.is_ok() {
            return false;
        }
        stream.write_all(&bytes).await.unwrap();
    }
    true
}

/// Makes one call to a server with one stall; returns the text or the category, how long the call took, and whether
/// the server could send its whole answer.
async fn ask(
    limits: HttpLimits,
    place: StallPlace,
    stall: Duration,
) -> (Result<String, &'static str>, Duration, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let client = Arc::new(HttpClient::new(limits).unwrap());
    let builder = HttpProvider::builder(Wire::OpenAi, "m", client).base_url(base).key(Secret::new("sk-test"));
    let (provider, question) = (builder.build().unwrap(), question());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        answer_stalling(&mut stream, place, stall).await
    });
    let began = Instant::now();
    let end = complete_streaming(&provider, &question, ResponseLimits::standard(), |_| {}).await;
    let took = began.elapsed();
    let end = end.map(|response| response.message.text().into_owned()).map_err(|error| error.category());
    (end, took, server.await.unwrap())
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// How much later than its limit or its stall a call may end, by the clock that stands still while anything is done.
const TOLERANCE: Duration = Duration::from_millis(50);

async fn is_waited_for(limits: HttpLimits, place: StallPlace, stall: Duration) {
    let (end, took, said_all) = ask(limits, place, stall).await;
    assert_eq!(end.as_deref(), Ok("one two"), "{place:?}, {stall:?}");
    assert!(said_all && (stall..stall + TOLERANCE).contains(&took), "{place:?}, {stall:?}: {took:?}");
}

async fn is_given_up(limits: HttpLimits, place: StallPlace, stall: Duration) {
    let limit = if place == StallPlace::Head { limits.head } else { limits.idle };
    let (end, took, said_all) = ask(limits, place, stall).await;
    assert_eq!(end, Err("provider_unavailable"), "{place:?}, {stall:?}");
    assert!(!said_all && (limit..limit + TOLERANCE).contains(&took), "{place:?}, {stall:?}: {took:?}");
}

// D20
#[tokio::test(start_paused = true)]
async fn a_stall_within_the_standard_limits_is_waited_for_wherever_it_is() {
    let limits = HttpLimits::standard();
    for stall in [3, 10, 40, 89].map(seconds) {
        is_waited_for(limits, StallPlace::Head, stall).await;
        for place in BODY_PLACES {
            is_waited_for(limits, place, stall).await;
        }
    }
    is_waited_for(limits, StallPlace::Head, limits.head - seconds(1)).await;
}

// D20
#[tokio::test(start_paused = true)]
async fn a_stall_beyond_the_limits_is_given_up_when_they_are_over_and_the_connection_is_closed() {
    let standard = HttpLimits::standard();
    is_given_up(standard, StallPlace::Head, standard.head + seconds(1)).await;
    let short = HttpLimits { head: seconds(20), idle: seconds(5), ..standard };
    is_given_up(short, StallPlace::Head, seconds(40)).await;
    for place in BODY_PLACES {
        is_given_up(standard, place, seconds(91)).await;
        is_given_up(short, place, seconds(40)).await;
        is_waited_for(short, place, seconds(3)).await;
    }
}
