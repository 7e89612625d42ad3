//! The files of the page, as they stand in `web/`.

use std::fmt::Write;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::section::ApiRoute;

/// One file: its path, its media type, its bytes.
type File = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal: $kind:ident = $file:literal,)*) => {
        &[$(($path, $kind, include_bytes!(concat!("../../../../web/", $file))),)*]
    };
}

const FILES: &[File] = files! {
    "/": HTML = "index.html",
    "/page/page.css": CSS = "page.css",
    "/page/icon.svg": SVG = "icon.svg",
    "/page/js/action_view.js": JS = "js/action_view.js",
    "/page/js/api.js": JS = "js/api.js",
    "/page/js/app.js": JS = "js/app.js",
    "/page/js/approval.js": JS = "js/approval.js",
    "/page/js/artifact_panel.js": JS = "js/artifact_panel.js",
    "/page/js/bounded_lexer.js": JS = "js/bounded_lexer.js",
    "/page/js/call_view.js": JS = "js/call_view.js",
    "/page/js/campaign_artifacts.js": JS = "js/campaign_artifacts.js",
    "/page/js/campaign_cards.js": JS = "js/campaign_cards.js",
    "/page/js/campaign_head.js": JS = "js/campaign_head.js",
    "/page/js/campaign_links.js": JS = "js/campaign_links.js",
    "/page/js/campaign_list.js": JS = "js/campaign_list.js",
    "/page/js/campaign_log.js": JS = "js/campaign_log.js",
    "/page/js/campaign_page.js": JS = "js/campaign_page.js",
    "/page/js/campaign_pending.js": JS = "js/campaign_pending.js",
    "/page/js/campaign_plan.js": JS = "js/campaign_plan.js",
    "/page/js/campaign_tasks.js": JS = "js/campaign_tasks.js",
    "/page/js/campaign_words.js": JS = "js/campaign_words.js",
    "/page/js/campaigns.js": JS = "js/campaigns.js",
    "/page/js/composer.js": JS = "js/composer.js",
    "/page/js/conversation.js": JS = "js/conversation.js",
    "/page/js/dom.js": JS = "js/dom.js",
    "/page/js/drafts.js": JS = "js/drafts.js",
    "/page/js/inspector.js": JS = "js/inspector.js",
    "/page/js/languages.js": JS = "js/languages.js",
    "/page/js/markdown.js": JS = "js/markdown.js",
    "/page/js/narration_panel.js": JS = "js/narration_panel.js",
    "/page/js/outbox.js": JS = "js/outbox.js",
    "/page/js/seen.js": JS = "js/seen.js",
    "/page/js/sessions.js": JS = "js/sessions.js",
    "/page/js/sign_in.js": JS = "js/sign_in.js",
    "/page/js/sse.js": JS = "js/sse.js",
    "/page/js/tenant_events.js": JS = "js/tenant_events.js",
    "/page/js/ticking.js": JS = "js/ticking.js",
    "/page/js/trace_view.js": JS = "js/trace_view.js",
    "/page/js/turn_view.js": JS = "js/turn_view.js",
    "/page/js/virtual.js": JS = "js/virtual.js",
    "/page/js/visible_text.js": JS = "js/visible_text.js",
    "/page/vendor/dompurify-3.4.18/purify.es.mjs": JS = "vendor/dompurify-3.4.18/purify.es.mjs",
    "/page/vendor/marked-18.2.1/marked.esm.js": JS = "vendor/marked-18.2.1/marked.esm.js",
};

/// Nothing from elsewhere, nothing inline, nobody around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types dompurify";

/// Returns a route for each file.
pub(super) fn file_routes() -> Vec<ApiRoute> {
    let route = |&(path, kind, bytes): &File| {
        let tag = compute_etag(bytes);
        ApiRoute::get(path, async move |headers: HeaderMap| answer_file(&headers, (kind, bytes), &tag))
            .allow_anonymous()
    };
    FILES.iter().map(route).collect()
}

/// Returns the `ETag` of a file.
fn compute_etag(bytes: &[u8]) -> String {
    let mut tag = String::from("\"");
    for byte in &Sha256::digest(bytes)[..8] {
        write!(tag, "{byte:02x}").expect("text grows");
    }
    tag + "\""
}

fn answer_file(headers: &HeaderMap, (kind, bytes): (&'static str, &'static [u8]), tag: &str) -> Response {
    let known = headers.get(IF_NONE_MATCH).is_some_and(|headers| headers.as_bytes() == tag.as_bytes());
    let about = [
        (ETAG, tag),
        // Asked for each time, sent when it has changed: a new version of the program is a new page.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (CONTENT_TYPE, kind),
    ];
    if known { (StatusCode::NOT_MODIFIED, about).into_response() } else { (about, bytes).into_response() }
}
