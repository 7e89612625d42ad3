//! A streamed answer with text and calls over a real connection that is closed after each number of its bytes: the
//! answer is whole, or the call is unavailable; never half a text, never half a call.

use std::sync::Arc;
use std::time::Duration;

use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_llm::{Provider, Request, Response, ResponseDelta, ResponseLimits, complete_streaming};
use singletree_providers::{HttpProvider, Wire};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::rig::question_with_tools;
use crate::sequences::tool_turn;
use crate::sockets::{chunk, request};

/// How a server tells where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// By closing the connection: a cut cannot be told from the end.
    Close,
    Length,
    Chunked,
}

fn answer_bytes(framing: Framing, body: &str) -> Vec<u8> {
    let (header, body) = match framing {
        Framing::Close => (String::new(), body.as_bytes().to_vec()),
        Framing::Length => (format!("content-length: {}\r\n", body.len()), body.as_bytes().to_vec()),
        Framing::Chunked => {
            // Of an odd size, so that chunks end within events and within characters.
            let mut chunks: Vec<u8> = body.as_bytes().chunks(61).flat_map(chunk).collect();
            chunks.extend_from_slice(b"0\r\n\r\n");
            ("transfer-encoding: chunked\r\n".to_owned(), chunks)
        }
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    [head.as_bytes(), header.as_bytes(), b"\r\n", &body].concat()
}

/// Answers each connection with the bytes before the next cut.
async fn serve_cuts(listener: TcpListener, answer: Vec<u8>, cuts: Vec<usize>) {
    for cut in cuts {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(&answer[..cut]).await.unwrap();
    }
}

/// Makes one call; returns the text that was shown, and the end.
async fn ask(provider: &dyn Provider, request: &Request) -> (String, singletree_llm::Result<Response>) {
    let mut shown = String::new();
    let show = |delta: &ResponseDelta| {
        if let ResponseDelta::Text { text, .. } = delta {
            shown.push_str(text);
        }
    };
    let asking = complete_streaming(provider, request, ResponseLimits::standard(), show);
    let end = tokio::time::timeout(Duration::from_secs(20), asking).await.expect("the call ends");
    (shown, end)
}

/// Cuts one answer after every `step`-th of its bytes, and not at all; returns how many of the cuts left it whole.
async fn cut_everywhere(wire: Wire, framing: Framing, step: usize) -> usize {
    let answer = answer_bytes(framing, &tool_turn(wire));
    let all = answer.len();
    let cuts: Vec<usize> = (0..all).step_by(step).chain([all]).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let client = Arc::new(HttpClient::new(HttpLimits::standard()).unwrap());
    let provider = HttpProvider::builder(wire, "m", client).base_url(base).key(Secret::new("sk-test"));
    let (provider, request) = (provider.build().unwrap(), question_with_tools());
    let server = tokio::spawn(serve_cuts(listener, answer, cuts.clone()));
    let mut ends = Vec::new();
    for _ in &cuts {
        ends.push(ask(&provider, &request).await);
    }
    server.await.unwrap();
    let whole = ends.last().unwrap().1.as_ref().unwrap_or_else(|error| panic!("{wire:?}: {error}")).clone();
    assert_eq!(whole.message.tool_calls.len(), 2);
    let text = whole.message.text().into_owned();
    for (cut, (shown, end)) in cuts.iter().zip(&ends) {
        let place = format!("{wire:?}, {framing:?}, cut after {cut} of {all} bytes");
        assert!(text.starts_with(shown), "{place}: {shown:?}");
        match end {
            // The usage may be behind the cut, the message may not.
            Ok(response) => assert_eq!(
                (&response.message, response.finish_reason),
                (&whole.message, whole.finish_reason),
                "{place}"
            ),
            Err(error) => assert_eq!(error.category(), "provider_unavailable", "{place}: {error}"),
        }
    }
    ends.iter().filter(|(_, end)| end.is_ok()).count()
}

/// After every byte for the wire that most servers speak; under `.ci/run --deep` for all, in every framing.
fn step(wire: Wire, framing: Framing) -> usize {
    const STRIDE: usize = 23;
    let is_every =
        std::env::var_os("SINGLETREE_DEEP").is_some() || (wire, framing) == (Wire::OpenAi, Framing::Close);
    if is_every { 1 } else { STRIDE }
}

// spec: llm-provider §6, §7
#[tokio::test]
async fn an_answer_that_is_cut_after_any_byte_is_whole_or_unavailable() {
    for wire in [Wire::OpenAi, Wire::Anthropic, Wire::Gemini] {
        for framing in [Framing::Close, Framing::Length, Framing::Chunked] {
            let step = step(wire, framing);
            let whole = cut_everywhere(wire, framing, step).await;
            let cuts = answer_bytes(framing, &tool_turn(wire)).len() / step;
            assert!(
                (1..cuts / 2).contains(&whole),
                "{wire:?}, {framing:?}: {whole} of {cuts} cuts left it whole"
            );
        }
    }
}
