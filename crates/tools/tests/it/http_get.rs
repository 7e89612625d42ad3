//! Reading the web, through a transport that answers by a script, and against the guard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use singletree_http::{BoxFuture, HttpClient, HttpLimits, HttpRequest, HttpResponse, Resolver, Transport};
use singletree_tools::{Effect, HttpGet, Output, Recovery, Tool, ToolLimits, Toolbox};

use crate::{call, key};

/// A status, a header, a body.
type Page = (u16, (&'static str, &'static str), Bytes);

/// Answers by address, and records the requested addresses.
#[derive(Debug, Default)]
struct Web {
    pages: BTreeMap<&'static str, Page>,
    asked: Mutex<Vec<String>>,
}

impl Web {
    fn page(
        mut self,
        url: &'static str,
        status: u16,
        header: (&'static str, &'static str),
        body: &str,
    ) -> Self {
        self.pages.insert(url, (status, header, Bytes::copy_from_slice(body.as_bytes())));
        self
    }
}

impl Transport for Web {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        self.asked.lock().expect("whole").push(request.url.clone());
        assert!(request.headers.is_empty() && request.body.is_empty(), "{request:?}");
        let (status, (name, value), body) =
            self.pages.get(request.url.as_str()).expect("a known page").clone();
        let headers = vec![(name.to_owned(), value.to_owned())];
        // In pieces, one of which ends in the middle of a character.
        let pieces: Vec<_> = body.chunks(7).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
        async move { Ok(HttpResponse { status, headers, body: stream::iter(pieces).boxed() }) }.boxed()
    }
}

async fn get(transport: Arc<dyn Transport>, url: &str) -> Output {
    let tool = HttpGet::with_transport(transport).expect("a tool");
    assert_eq!((tool.effect(), tool.on_unknown_outcome()), (Effect::Read, Recovery::Rerun));
    run(tool, url).await
}

async fn run(tool: HttpGet, url: &str) -> Output {
    let limits = ToolLimits { output_bytes: 1024 * 1024, ..ToolLimits::standard() };
    let toolbox = Toolbox::new([Arc::new(tool) as Arc<dyn Tool>], limits).expect("no duplicate");
    toolbox.call(&call("http_get", json!({ "url": url })), &key(0)).await
}

fn failed(text: &str) -> Output {
    Output { success: false, category: Some("tool_failed"), ..Output::text(format!("error: {text}")) }
}

#[tokio::test]
async fn text_is_given_with_its_type_and_the_address_where_it_was_found() {
    let web = Web::default()
        .page("https://a.example/", 302, ("location", "/b"), "")
        .page("https://a.example/b", 200, ("content-type", "text/plain"), "füße und hände")
        .page("https://a.example/c", 404, ("content-type", "text/plain"), "gone")
        .page("https://a.example/d", 200, ("content-type", "image/png"), "x")
        .page("https://a.example/e", 200, ("content-type", "text/plain"), &"x".repeat(512 * 1024 + 1));
    let web = Arc::new(web);
    let ask = |url: &'static str| get(Arc::clone(&web) as Arc<dyn Transport>, url);
    let found = Output::text("https://a.example/b (text/plain)\n\nfüße und hände");
    assert_eq!(ask("https://a.example").await, found);
    let gone = failed("https://a.example/c answered with status 404, and says: gone");
    assert_eq!(ask("https://a.example/c").await, gone);
    assert_eq!(ask("https://a.example/d").await, failed("https://a.example/d is no text: image/png"));
    let long = ask("https://a.example/e").await;
    assert!(long.text.ends_with("xxx\n[cut: only the first 524288 bytes were read]"));
    assert_eq!(web.asked.lock().expect("whole").len(), 5);
}

#[tokio::test]
async fn a_host_that_was_not_named_is_not_asked() {
    let denied =
        |host: &str| failed(&format!("calls may not go to {host}: it is none of the hosts that were named"));
    for (url, host) in [
        ("http://evil.test/", "evil.test"),
        ("http://notexample.test/", "notexample.test"),
        ("http://example.test.evil.test/", "example.test.evil.test"),
    ] {
        let output = run(HttpGet::with_allowed_hosts(["Example.test"]).expect("a tool"), url).await;
        assert_eq!(output, denied(host), "{url}");
    }
}

/// Knows one name, which leads home.
#[derive(Debug)]
struct Rebound;

impl Resolver for Rebound {
    fn resolve_addresses<'a>(
        &'a self,
        _host: &'a str,
    ) -> BoxFuture<'a, std::io::Result<Vec<std::net::IpAddr>>> {
        async { Ok(vec![std::net::IpAddr::from([127, 0, 0, 1])]) }.boxed()
    }
}

// Issue 6: no private, link-local or metadata addresses, however they are written, also after DNS and redirects.
#[tokio::test]
async fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let client =
        HttpClient::public_only_with_resolver(HttpLimits::fetching(), Arc::new(Rebound)).expect("a client");
    let client: Arc<dyn Transport> = Arc::new(client);
    for url in [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://172.16.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://0.0.0.0/",
        "http://100.64.0.1/",
        "http://rebound.example/",
    ] {
        let output = get(Arc::clone(&client), url).await;
        assert!(output.text.starts_with("error: calls may not go to "), "{url}: {output:?}");
    }
    for url in ["file:///etc/passwd", "ftp://a.example/", "gopher://a", "nothing", ""] {
        let output = get(Arc::clone(&client), url).await;
        assert_eq!(output.category, Some("tool_failed"), "{url}: {output:?}");
    }
}

#[tokio::test]
async fn a_redirect_that_leads_home_is_refused_at_its_hop() {
    /// Answers requests to `outside.example` with a redirect, and passes the rest to the guarded client.
    #[derive(Debug)]
    struct Outside(HttpClient);

    impl Transport for Outside {
        fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
            if request.url != "http://outside.example/" {
                return self.0.send(request);
            }
            let headers = vec![("location".to_owned(), "http://169.254.169.254/".to_owned())];
            async { Ok(HttpResponse { status: 302, headers, body: stream::empty().boxed() }) }.boxed()
        }
    }

    let guarded = HttpClient::public_only(HttpLimits::fetching()).expect("a client");
    let output = get(Arc::new(Outside(guarded)), "http://outside.example/").await;
    assert!(output.text.starts_with("error: calls may not go to 169.254.169.254"), "{output:?}");
}
