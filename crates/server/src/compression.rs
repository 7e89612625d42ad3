//! The compression of whole responses.

use axum::body::HttpBody;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

/// Bytes of the smallest answer that is worth it.
const COMPRESSED_FROM: u64 = 1024;

/// Compresses answers that are whole texts. Never a stream of events: each is to arrive when it happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeTextCompression;

impl Predicate for WholeTextCompression {
    fn should_compress<B: HttpBody>(&self, response: &axum::http::Response<B>) -> bool {
        is_compressible_text(response.headers()) && response.body().size_hint().lower() >= COMPRESSED_FROM
    }
}

fn is_compressible_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    matches!(
        kind,
        "application/json" | "application/openmetrics-text" | "text/html" | "text/css" | "text/javascript"
    )
}

/// Compresses with the given effort. What an inner layer has compressed stays as it is.
pub(crate) fn compression_layer(effort: CompressionLevel) -> CompressionLayer<WholeTextCompression> {
    CompressionLayer::new().gzip(true).quality(effort).compress_when(WholeTextCompression)
}
