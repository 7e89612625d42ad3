//! Attachments: the files behind references, and addresses that are forbidden (spec: OpenHarness §9.1).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use singletree_durable::{SessionId, SessionKey, StoredBlob, TenantId};
use singletree_harness::BlobLimits;
use singletree_http::{
    BoxFuture, Error, HttpRequest, HttpResponse, Result, Transport, reserved_address_kind,
};
use singletree_llm::{ContentBlock, ImageContentSource};

use super::asking::{Shell, error, message, texts, with_id};
use crate::support::Rig;

/// The smallest PNG that is one.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

/// The content at an address of the net.
#[derive(Debug, Clone)]
enum Stands {
    Here(u16, &'static [u8]),
    Elsewhere(&'static str),
}

/// A net of its own, behind the guard's rule.
#[derive(Debug, Default)]
struct Net {
    pages: HashMap<&'static str, Stands>,
    asked: Mutex<Vec<String>>,
}

impl Net {
    fn of(pages: &[(&'static str, Stands)]) -> Arc<Self> {
        Arc::new(Self { pages: pages.iter().cloned().collect(), asked: Mutex::default() })
    }
}

impl Transport for Net {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(request.url.clone());
            let host = url::Url::parse(&request.url).unwrap().host_str().unwrap().to_owned();
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            if let Some(kind) = address.ok().and_then(reserved_address_kind) {
                return Err(Error::Egress { host, reason: format!("it is a {kind} address") });
            }
            let (status, headers, body) = match self.pages.get(request.url.as_str()) {
                Some(Stands::Here(status, body)) => (*status, Vec::new(), *body),
                Some(Stands::Elsewhere(to)) => {
                    (302, vec![("location".to_owned(), (*to).to_owned())], &b""[..])
                }
                None => return Err(Error::Unreachable { host, source: "no such host".into() }),
            };
            let body = Box::pin(stream::once(async move { Ok(Bytes::from_static(body)) }));
            Ok(HttpResponse { status, headers, body })
        })
    }
}

fn with(attachments: Value) -> Value {
    message(json!({"session_id": "s", "user_intent": "say a", "attachments": attachments}))
}

/// The addresses of the pictures that the session's messages name.
async fn pictures(rig: &Rig) -> Vec<String> {
    let history = rig.chat.session("s").history(0..10).await.unwrap();
    let blocks = history.iter().flat_map(|it| it.message.content.blocks().to_vec());
    let named = blocks.filter_map(|it| match it {
        ContentBlock::Image { source: ImageContentSource::Url { url }, .. } => Some(url),
        _ => None,
    });
    named.collect()
}

fn key(tenant: TenantId, session: &str) -> SessionKey {
    SessionKey::new(tenant, SessionId::parse(session).unwrap())
}

#[tokio::test]
async fn a_picture_behind_an_address_is_fetched_once_and_kept_with_the_session() {
    let net = Net::of(&[
        ("https://pictures.example/a.png", Stands::Elsewhere("https://cdn.example/a")),
        ("https://cdn.example/a", Stands::Here(200, PNG)),
    ]);
    let fetching = net.clone();
    let rig = Rig::builder().server(|it| it.fetch_transport(fetching)).start().await;
    let shell = Shell::of(&rig);
    let asked =
        with_id(with(json!([{"uri": "https://pictures.example/a.png", "mime_type": "text/html"}])), "r");
    let answer = shell.ask(&asked).await;
    assert_eq!(texts(&answer), ["You said: a"]);
    let named = pictures(&rig).await;
    let digest = named[0].strip_prefix("blob:").unwrap();
    let blob = rig.documents.read_blob(&key(TenantId::single(), "s"), digest).await.unwrap().unwrap();
    assert_eq!((blob.media_type.as_str(), blob.bytes.as_slice()), ("image/png", PNG));
    // The same request is answered by the same bytes, and asks nobody.
    assert_eq!(shell.ask(&asked).await, answer);
    assert_eq!(net.asked.lock().unwrap().len(), 2);
    // A reference to the stored blob needs no fetch.
    shell.ask(&with(json!([{"ref_id": named[0]}, {"uri": named[0]}, {"ref_id": digest}]))).await;
    assert_eq!(pictures(&rig).await, vec![named[0].clone(); 4]);
    rig.stop().await;
}

#[tokio::test]
async fn where_a_reference_must_not_lead_nobody_goes() {
    let net = Net::of(&[
        ("https://evil.example/in", Stands::Elsewhere("https://169.254.169.254/latest/meta-data")),
        ("https://evil.example/down", Stands::Elsewhere("http://evil.example/plain")),
        ("https://evil.example/round", Stands::Elsewhere("https://evil.example/round")),
        ("https://page.example/", Stands::Here(200, b"<html>no picture</html>")),
        ("https://gone.example/", Stands::Here(404, PNG)),
        ("https://large.example/", Stands::Here(200, &[0x89; 2000])),
    ]);
    let fetching = net.clone();
    let limits = BlobLimits { bytes: 1000, ..BlobLimits::default() };
    let rig = Rig::builder().blob_limits(limits).server(|it| it.fetch_transport(fetching)).start().await;
    let shell = Shell::of(&rig);
    let check = async |attachment: Value, code: &str| {
        let answer = shell.ask(&with(json!([attachment]))).await;
        assert_eq!(error(&answer), (code.into(), Some("context.attachments[0]".into())), "{attachment}");
    };
    let denied = async |uri: &str| check(json!({ "uri": uri }), "policy_denied").await;
    let missed = async |uri: &str| check(json!({ "uri": uri }), "attachment_unresolvable").await;
    for uri in ["http://a.example/a.png", "file:///etc/passwd", "ftp://a.example/a", "javascript:alert(1)"] {
        denied(uri).await;
    }
    assert_eq!(*net.asked.lock().unwrap(), [""; 0]);
    denied("https://127.0.0.1/a.png").await;
    denied("https://[::ffff:10.0.0.1]/a.png").await;
    denied("https://2130706433/a.png").await;
    denied("https://evil.example/in").await;
    denied("https://evil.example/down").await;
    denied("https://evil.example/round").await;
    missed("https://nowhere.example/").await;
    missed("https://page.example/").await;
    missed("https://gone.example/").await;
    missed("https://large.example/").await;
    missed("no address").await;
    check(json!({"ref_id": "x", "size_bytes": 1001}), "attachment_unresolvable").await;
    assert!(rig.chat.session("s").info().await.is_err(), "nothing was accepted");
    assert!(!net.asked.lock().unwrap().iter().any(|it| it.starts_with("http:")));
    rig.stop().await;
}

// INV-14
#[tokio::test]
async fn what_was_uploaded_to_another_session_or_by_another_tenant_is_not_there() {
    let rig = Rig::start().await;
    let shell = Shell::of(&rig);
    let digest = "a".repeat(64);
    let blob = |digest: &str, media_type: &str| StoredBlob {
        digest: digest.to_owned(),
        media_type: media_type.to_owned(),
        bytes: PNG.to_vec(),
    };
    let own = key(TenantId::single(), "t");
    let foreign = key(TenantId::parse("other").unwrap(), "s");
    rig.documents.keep_blob(&own, blob(&digest, "image/png")).await.unwrap();
    rig.documents.keep_blob(&foreign, blob(&digest, "image/png")).await.unwrap();
    let refused = async || error(&shell.ask(&with(json!([{"ref_id": digest}]))).await).0;
    assert_eq!(refused().await, "attachment_unresolvable");
    let page = "b".repeat(64);
    rig.documents.keep_blob(&key(TenantId::single(), "s"), blob(&page, "text/html")).await.unwrap();
    assert_eq!(error(&shell.ask(&with(json!([{"ref_id": page}]))).await).0, "attachment_unresolvable");
    // Where nothing is fetched, no address is taken.
    let answer = shell.ask(&with(json!([{"uri": "https://pictures.example/a.png"}]))).await;
    assert_eq!(error(&answer).0, "policy_denied");
    let table = rig.client().get("/v1/openharness/capabilities").await.json();
    assert_eq!(table["extensions"]["dev.singletree"]["attachments"]["uri_schemes"], json!([]));
    rig.stop().await;
}
