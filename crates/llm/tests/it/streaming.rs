//! The driver of a stream, over a provider that plays given items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use singletree_llm::{
    BoxFuture, BoxStream, ChatMessage, Error, ModelFinishReason, Provider, ProviderErrorDetail, Request,
    Response, ResponseDelta, ResponseLimits, Result, TokenUsage, ToolCall, complete_streaming,
};

/// Plays its items once, and counts how often it was asked.
#[derive(Debug)]
struct Player {
    streams: bool,
    asked: AtomicUsize,
    items: Mutex<Vec<Result<ResponseDelta>>>,
}

impl Player {
    fn new(items: Vec<Result<ResponseDelta>>) -> Self {
        Self { streams: true, asked: AtomicUsize::new(0), items: Mutex::new(items) }
    }
}

impl Provider for Player {
    fn model_name(&self) -> &str {
        "player"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn complete<'a>(&'a self, _request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async { Err(Error::Unavailable(ProviderErrorDetail::new("it only streams"))) }.boxed()
    }

    fn can_stream(&self) -> bool {
        self.streams
    }

    fn stream_deltas<'a>(
        &'a self,
        _request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let items = std::mem::take(&mut *self.items.lock().expect("no panic holds it"));
        async { Ok(stream::iter(items).boxed()) }.boxed()
    }
}

fn request() -> Request {
    Request::new(vec![Arc::new(ChatMessage::user("u"))])
}

fn end() -> ResponseDelta {
    ResponseDelta::Finish { reason: ModelFinishReason::Stop, usage: TokenUsage::default(), raw: json!({}) }
}

/// Drives a stream, and returns the error's category and text with the deltas that were shown before it.
async fn fails(player: &Player, request: &Request) -> (&'static str, String, Vec<ResponseDelta>) {
    let mut shown = Vec::new();
    let limits = ResponseLimits { bytes_max: 10, parts_max: 10 };
    let error = complete_streaming(player, request, limits, |it| shown.push(it.clone()))
        .await
        .expect_err("the stream is broken");
    (error.category(), error.to_string(), shown)
}

// spec: llm-provider §5, §7
#[tokio::test]
async fn a_broken_stream_is_an_error_after_what_it_showed() {
    let a = || ResponseDelta::from_text("a");
    let call = ResponseDelta::ToolCall {
        index: 0,
        id: Some("x".to_owned()),
        name: Some("t".to_owned()),
        arguments: None,
        signature: None,
    };
    let slow = || Error::RateLimit(ProviderErrorDetail::new("slow down"));
    let long = ResponseDelta::from_text("a".repeat(11));
    for (items, category, text) in [
        (vec![Ok(a())], "provider_unavailable", "the stream ended before the response was complete"),
        (vec![Ok(a()), Err(slow()), Ok(end())], "provider_rate_limit", "slow down"),
        (vec![Ok(a()), Ok(long)], "provider_invalid_response", "the response is larger than the limit"),
        (vec![Ok(a()), Ok(end()), Ok(a())], "provider_invalid_response", "the stream went on after its end"),
        (
            vec![Ok(call), Ok(end())],
            "provider_invalid_response",
            "response message.tool_calls[0].name: \"t\" is not a tool of this request",
        ),
    ] {
        let expected: Vec<ResponseDelta> = items.iter().map_while(|it| it.as_ref().ok()).cloned().collect();
        let found = fails(&Player::new(items), &request()).await;
        assert_eq!(found, (category, text.to_owned(), expected));
    }
}

// spec: llm-provider §5
#[tokio::test]
async fn what_cannot_be_streamed_is_refused_before_anything_is_sent() {
    let mute = Player { streams: false, ..Player::new(vec![Ok(ResponseDelta::from_text("a")), Ok(end())]) };
    let text = "the provider of \"player\" does not stream".to_owned();
    assert_eq!(fails(&mute, &request()).await, ("provider_invalid_request", text, vec![]));

    let player = Player::new(vec![Ok(ResponseDelta::from_text("a")), Ok(end())]);
    let unanswerable = Request::new(vec![Arc::new(
        ChatMessage::assistant("").with_tool_calls([ToolCall::new("x", "t", Default::default())]),
    )]);
    let text = "messages[0].role: a conversation cannot begin with assistant".to_owned();
    let found = fails(&player, &unanswerable).await;
    assert_eq!(found, ("provider_invalid_request", text, vec![]));

    assert_eq!([mute, player].map(|it| it.asked.into_inner()), [0, 0]);
}
