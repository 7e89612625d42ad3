//! Limits, redirects, errors.

use futures_util::StreamExt;
use singletree_http::{Error, HttpClient, HttpLimits, HttpRequest, Method, Result, Transport, read_body};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{answer, get, listen, request, short};

async fn fetch(url: &str) -> Result<(u16, String)> {
    let response = HttpClient::new(short()).unwrap().send(get(url)).await?;
    let body = read_body(response.body, 1000, "it").await?;
    Ok((response.status, String::from_utf8(body.to_vec()).unwrap()))
}

async fn fails(bytes: &'static str, category: &str) -> Error {
    let error = fetch(&answer(bytes).await).await.unwrap_err();
    assert_eq!(error.category(), category, "{error:?}");
    error
}

#[tokio::test]
async fn an_answer_comes_back_whatever_its_status() {
    let url = answer("HTTP/1.1 418 I'm a teapot\r\ncontent-length: 5\r\n\r\nshort").await;
    assert_eq!(fetch(&url).await.unwrap(), (418, "short".to_owned()));
}

#[tokio::test]
async fn a_redirect_is_handed_out_and_not_followed() {
    let url =
        answer("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    let response = HttpClient::new(short()).unwrap().send(get(&url)).await.unwrap();
    assert_eq!((response.status, response.header("location")), (302, Some("http://127.0.0.1:1/")));
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_given() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = request(&mut stream).await;
        let mut body = [0; 7];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        (head, body)
    });
    let headers =
        vec![("authorization".to_owned(), "Bearer k".to_owned()), ("accept".to_owned(), "a/b".to_owned())];
    let sent =
        HttpRequest { method: Method::Post, url: format!("{url}p?q=1"), headers, body: "content".into() };
    assert_eq!(HttpClient::new(short()).unwrap().send(sent).await.unwrap().status, 204);
    let (head, body) = server.await.unwrap();
    assert_eq!(&body, b"content");
    let mut lines: Vec<&str> = head.trim_end().lines().filter(|it| !it.starts_with("host: ")).collect();
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        ["POST /p?q=1 HTTP/1.1", "accept: a/b", "authorization: Bearer k", "content-length: 7"]
    );
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 33\r\n\r\n0123456789012345678901234567890123";
    let error = fails(whole, "http_too_large").await;
    assert!(error.to_string().ends_with("is larger than 32 bytes"), "{error}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_told() {
    fails("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "http_broken_off").await;
    fails("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nsh", "http_broken_off").await;
    fails("HTTP/1.1 200 OK\r\ncontent-len", "http_broken_off").await;
    fails("this is no HTTP\r\n\r\n", "http_broken_off").await;
    fails("", "http_broken_off").await;
}

#[tokio::test]
async fn a_head_that_does_not_come_has_a_limit() {
    let (listener, url) = listen().await;
    let error = fetch(&url).await.unwrap_err();
    assert_eq!(error.category(), "http_timeout");
    assert!(
        error.to_string().ends_with("did not answer in time: the head of the answer took longer than 200ms")
    );
    drop(listener);
}

#[tokio::test]
async fn a_body_that_stalls_has_a_limit() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort").await.unwrap();
        // Until the client gives up.
        stream.read(&mut [0]).await
    });
    let response = HttpClient::new(short()).unwrap().send(get(&url)).await.unwrap();
    let pieces: Vec<_> = response.body.collect().await;
    let told: Vec<_> =
        pieces.iter().map(|it| it.as_ref().map(|it| it.len()).map_err(Error::category)).collect();
    assert_eq!(told, [Ok(5), Err("http_timeout")]);
    // Closed by the client, in whichever way the system tells it.
    assert!(matches!(server.await.unwrap(), Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_server_that_is_not_there_cannot_be_reached() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = fetch(&url).await.unwrap_err();
    assert_eq!(error.category(), "http_unreachable");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn errors_name_the_host_and_nothing_else_of_the_address() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = fetch(&format!("{url}secret-path?key=secret-key#secret-part")).await.unwrap_err();
    let mut told = format!("{error:?} {error}");
    let mut next = std::error::Error::source(&error);
    while let Some(source) = next {
        told.push_str(&format!(" {source} {source:?}"));
        next = source.source();
    }
    assert!(told.contains("127.0.0.1"), "{told}");
    assert!(!told.contains("secret"), "{told}");
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_without_repeating_it() {
    let client = HttpClient::new(HttpLimits::standard()).unwrap();
    for url in ["", "host", "ftp://host/", "file:///etc/passwd", "http://u:secret@host/", "http:///"] {
        let error = client.send(get(url)).await.unwrap_err();
        assert_eq!(error.category(), "http_request_invalid", "{url}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let header = |name: &str, value: &str| {
        let headers = vec![(name.to_owned(), value.to_owned())];
        HttpRequest { headers, ..get("http://127.0.0.1:1/") }
    };
    for request in [header("a b", "c"), header("authorization", "Bearer secret\r\nx: y")] {
        let error = client.send(request).await.unwrap_err();
        assert_eq!(error.category(), "http_request_invalid");
        assert!(!format!("{error:?}").contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn debug_shows_neither_headers_nor_bodies_nor_addresses() {
    let headers = vec![("authorization".to_owned(), "Bearer secret".to_owned())];
    let request = HttpRequest { headers, body: "secret".into(), ..get("http://host/?key=secret") };
    let client = HttpClient::new(short()).unwrap();
    assert!(!format!("{request:?} {client:?}").contains("secret"));
}
