//! A server that answers with exactly the bytes it is told to.

use singletree_http::{HttpLimits, HttpRequest, Method};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Listens on this machine; returns the address to call.
pub(crate) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (listener, url)
}

/// Reads a request without a body to its end.
pub(crate) async fn request(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.unwrap();
        seen.push(byte);
    }
    String::from_utf8(seen).unwrap()
}

/// Answers one call with these bytes and closes.
pub(crate) async fn answer(bytes: &'static str) -> String {
    let (listener, url) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
    });
    url
}

pub(crate) fn get(url: &str) -> HttpRequest {
    HttpRequest { method: Method::Get, url: url.to_owned(), headers: Vec::new(), body: bytes::Bytes::new() }
}

/// Limits that a server on this machine keeps, and that a test can wait for.
pub(crate) fn short() -> HttpLimits {
    let brief = Duration::from_millis(200);
    HttpLimits { connect: brief, head: brief, idle: brief, body_bytes: 32, line_bytes: 32 }
}
