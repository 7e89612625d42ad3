//! Pictures over the wire: kept, named, handed out, refused.

use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use singletree_server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Answer, Client, Rig};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR one";
/// The SHA-256 of it.
const DIGEST: &str = "e786c362a10c11c022de30d8a780ad7233356e08f6e6e9899ee8f105b1200867";

async fn keep(client: &Client, session: &str, kind: &str, bytes: &[u8]) -> Answer {
    let path = format!("/v1/sessions/{session}/blobs");
    client
        .clone()
        .with("content-type", kind)
        .send_bytes(Method::POST, &path, Bytes::copy_from_slice(bytes))
        .await
}

fn category(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["error"]["category"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_picture_is_kept_under_its_digest_and_handed_out_as_what_it_is() {
    let rig = Rig::start().await;
    let client = rig.client();
    let kept = keep(&client, "s", "application/octet-stream", PNG).await;
    let expected = json!({ "blob": format!("blob:{DIGEST}"), "media_type": "image/png", "bytes": PNG.len() });
    assert_eq!((kept.status, kept.json()), (201, expected.clone()));
    let again = keep(&client, "s", "text/html", PNG).await;
    assert_eq!((again.status, again.json()), (201, expected));

    let path = format!("/v1/sessions/s/blobs/{DIGEST}");
    let shown = client.get(&path).await;
    assert_eq!((shown.status, &shown.body[..]), (200, PNG));
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "20"),
        ("content-disposition", &*format!("inline; filename=\"{}.png\"", &DIGEST[..16])),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "private, max-age=31536000, immutable"),
        ("etag", &*format!("\"{DIGEST}\"")),
    ] {
        assert_eq!(shown.header(name), value, "{name}");
    }
    assert!(shown.header("content-security-policy").contains("sandbox"));
    let head = client.send(Method::HEAD, &path, None).await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "20", 0));
    let tag = format!("\"old\", W/\"{DIGEST}\"");
    let there = client.clone().with("if-none-match", &tag).get(&path).await;
    assert_eq!((there.status, there.header("etag"), there.body.len()), (304, &*format!("\"{DIGEST}\""), 0));
    rig.stop().await;
}

// INV-14
#[tokio::test]
async fn what_the_session_has_not_is_not_there() {
    let rig = Rig::start().await;
    let client = rig.client().with("x-request-id", "r");
    keep(&client, "s", "image/png", PNG).await;
    let other = "0".repeat(64);
    let mut told = Vec::new();
    for path in [
        format!("/v1/sessions/other/blobs/{DIGEST}"),
        format!("/v1/sessions/s/blobs/{other}"),
        format!("/v1/sessions/s/blobs/..%2F{DIGEST}"),
    ] {
        for client in [client.clone(), client.clone().with("if-none-match", "*")] {
            let answer = client.get(&path).await;
            assert_eq!(category(&answer), (404, "chat_blob_unknown".into()));
            let digest = path.rsplit('/').next().unwrap().replace("%2F", "/");
            told.push(answer.text().replace(&digest, "D"));
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    rig.stop().await;
}

// INV-12
#[tokio::test]
async fn what_is_no_picture_or_too_large_is_refused() {
    let rig = Rig::start().await;
    let client = rig.client();
    for (bytes, kind, expected) in [
        (&b"<html><script>"[..], "image/png", (415, "chat_blob_refused")),
        (b"", "image/png", (415, "chat_blob_refused")),
        (b"%PDF-1.7", "application/pdf", (415, "chat_blob_refused")),
        (&vec![0x89; (10 << 20) + 1], "image/png", (413, "chat_blob_too_large")),
    ] {
        let answer = keep(&client, "s", kind, bytes).await;
        assert_eq!(category(&answer), (expected.0, expected.1.to_owned()));
    }
    // A body larger than any other may be, and no larger than a blob; and one whose length nobody said.
    let large = [PNG, &vec![0; 10 << 20][PNG.len()..]].concat();
    assert_eq!(keep(&client, "s", "image/png", &large).await.status, 201);
    let head = "POST /v1/sessions/s/blobs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut sent = head.as_bytes().to_vec();
    for _ in 0..11 {
        sent.extend(format!("{:x}\r\n", 1 << 20).bytes());
        sent.extend(vec![0x89; 1 << 20]);
        sent.extend(b"\r\n");
    }
    let mut stream = client.open().await;
    // The server may end the connection before it has read everything.
    drop(stream.write_all(&sent).await);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    rig.stop().await;
}

// INV-12
#[tokio::test]
async fn only_so_many_blobs_are_in_memory_at_once() {
    let rig = Rig::builder().limits(ServerLimits { blobs: 1, ..ServerLimits::default() }).start().await;
    let client = rig.client();
    let mut slow = client.open().await;
    let head = format!(
        "POST /v1/sessions/s/blobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        PNG.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    // Until the server has read the head, there is room.
    let refused = loop {
        let answer = keep(&client, "s", "image/png", PNG).await;
        if answer.status != 201 {
            break answer;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(category(&refused), (429, "server_rate_limited".into()));
    assert_eq!(refused.header("retry-after"), "1");
    slow.write_all(PNG).await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    assert_eq!(client.get(&format!("/v1/sessions/s/blobs/{DIGEST}")).await.status, 200);
    rig.stop().await;
}
