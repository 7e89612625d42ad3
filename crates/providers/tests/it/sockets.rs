//! The same over real sockets: when pieces arrive, and the ways in which a connection ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_llm::{ModelFinishReason, Provider, ResponseDelta, ResponseLimits, complete_streaming};
use singletree_providers::{HttpProvider, Wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::rig::question;

pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
pub(crate) const END: &str = "0\r\n\r\n";

async fn listen() -> (TcpListener, HttpProvider) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let limits = HttpLimits { idle: Duration::from_millis(300), ..HttpLimits::standard() };
    let client = Arc::new(HttpClient::new(limits).unwrap());
    let builder = HttpProvider::builder(Wire::OpenAi, "m", client).base_url(base).key(Secret::new("sk-test"));
    (listener, builder.build().unwrap())
}

/// Reads one request to its end; returns its head and body.
pub(crate) async fn request(stream: &mut TcpStream) -> (String, Value) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

pub(crate) fn event(data: impl std::fmt::Display) -> String {
    format!("data: {data}\n\n")
}

pub(crate) fn text(text: &str) -> String {
    event(json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
}

fn finish() -> String {
    event(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] })) + &event("[DONE]")
}

pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

async fn send(stream: &mut TcpStream, events: &str) {
    stream.write_all(&chunk(events.as_bytes())).await.unwrap();
}

/// Waits until the client has closed, in whichever way the system tells it.
pub(crate) async fn closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn the_first_delta_is_there_before_the_server_has_written_the_second() {
    let (listener, provider) = listen().await;
    let (seen, until_seen) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (head, body) = request(&mut stream).await;
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        send(&mut stream, &text("one ")).await;
        until_seen.await.unwrap();
        send(&mut stream, &(text("two") + &finish())).await;
        stream.write_all(END.as_bytes()).await.unwrap();
        (head, body)
    });
    let request = question();
    let mut deltas = provider.stream_deltas(&request).await.unwrap();
    assert_eq!(deltas.next().await.unwrap().unwrap(), ResponseDelta::from_text("one "));
    seen.send(()).unwrap();
    assert_eq!(deltas.next().await.unwrap().unwrap(), ResponseDelta::from_text("two"));
    assert!(matches!(
        deltas.next().await,
        Some(Ok(ResponseDelta::Finish { reason: ModelFinishReason::Stop, .. }))
    ));
    assert!(deltas.next().await.is_none());
    let (head, body) = server.await.unwrap();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    for line in
        ["authorization: bearer sk-test", "accept: text/event-stream", "content-type: application/json"]
    {
        assert!(head.lines().any(|it| it == line), "{line} in {head}");
    }
    assert_eq!((&body["stream"], &body["model"]), (&json!(true), &json!("m")));
}

#[tokio::test]
async fn who_stops_listening_closes_the_connection() {
    let (listener, provider) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        send(&mut stream, &text("one ")).await;
        closed(&mut stream).await
    });
    let request = question();
    let mut deltas = provider.stream_deltas(&request).await.unwrap();
    assert_eq!(deltas.next().await.unwrap().unwrap(), ResponseDelta::from_text("one "));
    drop(deltas);
    assert!(tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap());
}

#[tokio::test]
async fn who_stops_waiting_for_an_answer_closes_the_connection() {
    let (listener, provider) = listen().await;
    let (asked, until_asked) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        asked.send(()).unwrap();
        closed(&mut stream).await
    });
    let request = question();
    tokio::select! {
        answer = provider.complete(&request) => panic!("nobody answers: {answer:?}"),
        asked = until_asked => asked.unwrap(),
    }
    assert!(tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap());
}

/// Serves one stream that goes wrong after its first delta; returns the category.
async fn goes_wrong(rest: Vec<u8>, then_waits: bool) -> &'static str {
    let (listener, provider) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        send(&mut stream, &text("one ")).await;
        stream.write_all(&rest).await.unwrap();
        !then_waits || closed(&mut stream).await
    });
    let mut shown = Vec::new();
    let request = question();
    let asked =
        complete_streaming(&provider, &request, ResponseLimits::standard(), |it| shown.push(it.clone()));
    let error = tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap().unwrap_err();
    assert_eq!(shown, [ResponseDelta::from_text("one ")]);
    assert!(server.await.unwrap());
    error.category()
}

#[tokio::test]
async fn a_stream_that_stalls_is_given_up_and_its_connection_closed() {
    assert_eq!(goes_wrong(Vec::new(), true).await, "provider_unavailable");
    // Comments are no life sign of the model, but they are of the server: only silence is a stall.
    assert_eq!(goes_wrong(chunk(b": ping\n\n"), true).await, "provider_unavailable");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_unavailable() {
    let two = chunk(text("two").as_bytes());
    for cut in [0, 1, 3] {
        assert_eq!(goes_wrong(two[..cut].to_vec(), false).await, "provider_unavailable", "cut at {cut}");
    }
    // Ended in good form, but the model had not: no finish reason, no sentinel.
    assert_eq!(goes_wrong(END.as_bytes().to_vec(), false).await, "provider_unavailable");
}

#[tokio::test]
async fn characters_cut_between_chunks_arrive_whole() {
    let (listener, provider) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        for byte in (text("Grüße, 世界 😀") + &finish()).into_bytes() {
            stream.write_all(&chunk(&[byte])).await.unwrap();
        }
        stream.write_all(END.as_bytes()).await.unwrap();
    });
    let response =
        complete_streaming(&provider, &question(), ResponseLimits::standard(), |_| {}).await.unwrap();
    assert_eq!(response.message.text(), "Grüße, 世界 😀");
    server.await.unwrap();
}

#[tokio::test]
async fn a_stream_that_ended_leaves_its_connection_to_the_next_call() {
    let (listener, provider) = listen().await;
    let server = tokio::spawn(async move {
        // One connection is accepted, and it carries both calls.
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            request(&mut stream).await;
            let answer =
                [HEAD.as_bytes(), &chunk((text("one") + &finish()).as_bytes()), END.as_bytes()].concat();
            stream.write_all(&answer).await.unwrap();
        }
    });
    for _ in 0..2 {
        let request = question();
        let asked = complete_streaming(&provider, &request, ResponseLimits::standard(), |_| {});
        let answer = tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap().unwrap();
        assert_eq!(answer.message.text(), "one");
    }
    server.await.unwrap();
}

#[tokio::test]
async fn calls_do_not_wait_for_each_other() {
    const CALLS: usize = 8;
    let (listener, provider) = listen().await;
    let server = tokio::spawn(async move {
        let mut streams = Vec::new();
        // Nobody is answered before everybody has asked.
        for _ in 0..CALLS {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await;
            streams.push(stream);
        }
        for stream in &mut streams {
            stream.write_all(HEAD.as_bytes()).await.unwrap();
            send(stream, &(text("one") + &finish())).await;
            stream.write_all(END.as_bytes()).await.unwrap();
        }
    });
    let request = question();
    let asked =
        (0..CALLS).map(|_| complete_streaming(&provider, &request, ResponseLimits::standard(), |_| {}));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.unwrap().message.text(), "one");
    }
    server.await.unwrap();
}
