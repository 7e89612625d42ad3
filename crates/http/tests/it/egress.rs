//! The guard: no call leaves for an address that is not public.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex};

use singletree_http::{
    BoxFuture, HttpClient, HttpRequest, HttpResponse, Resolver, Result, Transport, get_following,
};

use crate::server::{get, short};

/// Knows one answer for every name.
#[derive(Debug)]
struct Says(Vec<IpAddr>);

impl Resolver for Says {
    fn resolve_addresses<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

fn guarded(addresses: &[&str]) -> HttpClient {
    let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
    HttpClient::public_only_with_resolver(short(), Arc::new(Says(addresses))).unwrap()
}

/// A server that must never be called.
struct Bait(TcpListener);

impl Bait {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    fn assert_untouched(&self) {
        assert_eq!(self.0.accept().map(|_| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_refused_before_a_connection_is_made() {
    let bait = Bait::new();
    let url = format!("http://public.example:{}/", bait.port());
    for addresses in [&["127.0.0.1"][..], &["::ffff:127.0.0.1"], &["93.184.215.14", "127.0.0.1"]] {
        let error = guarded(addresses).send(get(&url)).await.unwrap_err();
        assert_eq!(error.category(), "http_egress_denied", "{addresses:?}");
        let expected =
            format!("calls may not go to public.example:{}: it resolves to a loopback address", bait.port());
        assert_eq!(error.to_string(), expected);
    }
    bait.assert_untouched();
}

#[tokio::test]
async fn the_same_name_is_reached_by_a_client_without_a_guard() {
    // The bait accepts connections: the call above is refused by the guard alone.
    let bait = Bait::new();
    let client = HttpClient::new(short()).unwrap();
    let error = client.send(get(&format!("http://127.0.0.1:{}/", bait.port()))).await.unwrap_err();
    assert_eq!(error.category(), "http_timeout");
    assert!(bait.0.accept().is_ok());
}

#[tokio::test]
async fn an_address_is_refused_however_it_is_written() {
    let bait = Bait::new();
    let client = guarded(&["93.184.215.14"]);
    let hosts = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "１２７.0.0.1",
        "127。0。0。1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "0xa9fea9fe",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "[fe80::1]",
        "[fc00::1]",
        "224.0.0.1",
        "255.255.255.255",
    ];
    for host in hosts {
        let url = format!("http://{host}:{}/", bait.port());
        let error = client.send(get(&url)).await.unwrap_err();
        assert_eq!(error.category(), "http_egress_denied", "{host}: {error}");
    }
    bait.assert_untouched();
}

#[tokio::test]
async fn a_name_of_this_machine_is_refused_by_the_system_s_own_resolver() {
    let bait = Bait::new();
    let client = HttpClient::public_only(short()).unwrap();
    let error = client.send(get(&format!("http://localhost:{}/", bait.port()))).await.unwrap_err();
    assert_eq!(error.category(), "http_egress_denied");
    bait.assert_untouched();
}

/// Plays the public network: redirects that it knows, and a guarded client for everything else.
#[derive(Debug)]
struct Net {
    redirects: Vec<(&'static str, String)>,
    rest: HttpClient,
    calls: Mutex<Vec<String>>,
}

impl Net {
    fn new(redirects: &[(&'static str, &str)]) -> Self {
        let redirects = redirects.iter().map(|(from, to)| (*from, (*to).to_owned())).collect();
        Self { redirects, rest: guarded(&["10.0.0.1"]), calls: Mutex::default() }
    }
}

impl Transport for Net {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        self.calls.lock().unwrap().push(request.url.clone());
        let answer = |status: u16, headers: Vec<(String, String)>| {
            let body = Box::pin(futures_util::stream::empty());
            Ok(HttpResponse { status, headers, body })
        };
        if request.url.contains("/end") {
            return Box::pin(async move { answer(200, Vec::new()) });
        }
        match self.redirects.iter().find(|(from, _)| *from == request.url) {
            Some((_, to)) => {
                let headers = vec![("location".to_owned(), to.clone())];
                Box::pin(async move { answer(302, headers) })
            }
            None => self.rest.send(request),
        }
    }
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let bait = Bait::new();
    let to = [
        format!("http://127.0.0.1:{}/", bait.port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://inside.example/".to_owned(),
        "//[::1]/".to_owned(),
    ];
    for to in to {
        let net = Net::new(&[("http://public.example/", &to)]);
        let error = get_following(&net, "http://public.example/", 3).await.unwrap_err();
        assert_eq!(error.category(), "http_egress_denied", "{to}: {error}");
    }
    bait.assert_untouched();
}

#[tokio::test]
async fn redirects_are_followed_relative_to_where_they_came_from() {
    let net = Net::new(&[("https://a.example/x/y", "../z?q"), ("https://a.example/z?q", "//b.example/end")]);
    let (at, response) = get_following(&net, "https://a.example/x/y", 2).await.unwrap();
    assert_eq!((at.as_str(), response.status), ("https://b.example/end", 200));
    let calls = net.calls.lock().unwrap().clone();
    assert_eq!(calls, ["https://a.example/x/y", "https://a.example/z?q", "https://b.example/end"]);
}

#[tokio::test]
async fn redirects_have_a_limit_and_only_go_where_http_goes() {
    let to = |to: &str| Net::new(&[("https://a.example/", to)]);
    let cases = [
        ("https://a.example/", "http_egress_denied"),
        ("http://a.example/end", "http_egress_denied"),
        ("file:///etc/passwd", "http_request_invalid"),
        ("https://u:p@a.example/end", "http_request_invalid"),
        ("http://", "http_request_invalid"),
    ];
    for (location, category) in cases {
        let error = get_following(&to(location), "https://a.example/", 3).await.unwrap_err();
        assert_eq!(error.category(), category, "{location}: {error}");
    }
    let circle = to("https://a.example/");
    get_following(&circle, "https://a.example/", 3).await.unwrap_err();
    assert_eq!(circle.calls.lock().unwrap().len(), 4);
}
