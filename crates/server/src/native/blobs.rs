//! Pictures and files that messages name: uploaded once, named by their digest, served to readers of the session.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use singletree_harness::{BlobReference, Chat, Error};
use singletree_protocol::native;
use tokio::sync::OwnedSemaphorePermit;

use crate::caller::{RequestCaller, Scope};
use crate::problem::{RequestProblem, RequestProblemKind};
use crate::section::{ApiOperation, ApiRoute};
use crate::shared::ServerState;

/// The number of bytes of a blob that are passed to a connection at a time.
const PIECE: usize = 64 << 10;

/// The content security policy of a blob that a browser opens by itself: it may show the blob, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Returns the routes of blobs.
pub(super) fn blob_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post("/v1/sessions/{session}/blobs", keep_blob).with_required_scope(Scope::Write).with_operation(
            ApiOperation::new("keepBlob", "Keeps a picture or a file")
                .with_description(
                    "The body is the bytes themselves. What they are is read off them; `Content-Type` decides only for \
                     plain text, which has no signs of its own. The same bytes are stored once, however often they are \
                     sent. A message of the session shows the picture by the `blob` of the answer as its `url`. The session need \
                     not have begun; if it does not within a day, what was kept for it is removed.",
                )
                .with_tag("blobs")
                .with_bytes_body("application/octet-stream")
                .with_json_response::<native::Blob>(201, "It is kept.")
                .with_error_statuses(&[413, 415, 429]),
        ),
        ApiRoute::get("/v1/sessions/{session}/blobs/{digest}", show_blob).with_required_scope(Scope::Read).with_operation(
            ApiOperation::new("showBlob", "Returns a picture or a file")
                .with_description("Named by the digest behind `blob:`. It never changes: `If-None-Match` answers without the bytes.")
                .with_tag("blobs")
                .with_header("If-None-Match", "The `ETag` of what is there already.")
                .with_bytes_response(200, "application/octet-stream", "The bytes, under their own media type.")
                .with_empty_response(304, "It is there already.")
                .with_error_statuses(&[404, 429]),
        ),
    ]
}

async fn keep_blob(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(session): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<native::Blob>), RequestProblem> {
    let chat = shared.chat_of_caller(&caller);
    let permit = acquire_blob_permit(&shared)?;
    let declared =
        request.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).map(str::to_owned);
    let bytes = read_blob_body(&chat, request).await?;
    let kept = chat
        .session(&session)
        .keep_blob(bytes, declared.as_deref())
        .await
        .map_err(|error| keep_blob_problem(&error))?;
    drop(permit);
    let BlobReference { media_type, bytes, .. } = &kept;
    let blob = native::Blob { blob: kept.reference_name(), media_type: media_type.clone(), bytes: *bytes };
    Ok((StatusCode::CREATED, Json(blob)))
}

/// Takes one of the permits that limit the number of blobs in memory.
fn acquire_blob_permit(shared: &ServerState) -> Result<OwnedSemaphorePermit, RequestProblem> {
    let full = |_| {
        RequestProblem::from_kind(RequestProblemKind::RateLimited, "too many blobs are on their way")
            .with_retry_after(1)
    };
    shared.blobs.clone().try_acquire_owned().map_err(full)
}

/// Reads a body, up to the maximum size of a blob.
async fn read_blob_body(chat: &Chat, request: Request) -> Result<Vec<u8>, RequestProblem> {
    // If the store keeps no blobs, one byte is enough to get that error.
    let max = chat.blob_limits().map_or(1, |blob_limits| blob_limits.bytes);
    let body = request.into_body();
    if body.size_hint().lower() > max as u64 {
        return Err(RequestProblem::from_chat_error(&Error::BlobTooLarge { max }));
    }
    match to_bytes(body, max).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) if is_length_limit_error(&error) => {
            Err(RequestProblem::from_chat_error(&Error::BlobTooLarge { max }))
        }
        Err(_) => Err(RequestProblem::invalid_request("the body broke off")),
    }
}

fn is_length_limit_error(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

fn keep_blob_problem(error: &Error) -> RequestProblem {
    let problem = RequestProblem::from_chat_error(error);
    match error {
        Error::BlobRefused { .. } => RequestProblem { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..problem },
        _ => problem,
    }
}

async fn show_blob(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path((session, digest)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, RequestProblem> {
    let chat = shared.chat_of_caller(&caller);
    let tag = format!("\"{digest}\"");
    if matches_etag(&headers, &tag) {
        let known =
            chat.session(&session).blob_info(&digest).await.map_err(|error| show_blob_problem(&error))?;
        return Ok((StatusCode::NOT_MODIFIED, blob_headers(&known, tag)).into_response());
    }
    let permit = acquire_blob_permit(&shared)?;
    let blob = chat.session(&session).blob(&digest).await.map_err(|error| show_blob_problem(&error))?;
    let about = BlobReference::from(blob.metadata());
    let whole = Bytes::from(blob.bytes);
    let pieces = (0..whole.len()).step_by(PIECE).map(move |at| {
        // The permit is free again when the last piece is passed on, or the reader has gone.
        let _held = &permit;
        Ok::<_, std::convert::Infallible>(whole.slice(at..whole.len().min(at + PIECE)))
    });
    let body = Body::from_stream(futures_util::stream::iter(pieces).boxed());
    let length = [(axum::http::header::CONTENT_LENGTH, about.bytes.to_string())];
    Ok((blob_headers(&about, tag), length, body).into_response())
}

fn matches_etag(headers: &HeaderMap, tag: &str) -> bool {
    let named = headers.get_all(IF_NONE_MATCH).iter().filter_map(|item| item.to_str().ok());
    named.flat_map(|item| item.split(',')).any(|it| {
        let it = it.trim();
        it == "*" || it.strip_prefix("W/").unwrap_or(it) == tag
    })
}

/// Returns the headers for a blob: its media type, and that a browser may store and show it but do nothing else with
/// it.
fn blob_headers(blob: &BlobReference, tag: String) -> [(HeaderName, String); 6] {
    let ending = blob.media_type.rsplit('/').next().unwrap_or("bin");
    let kind = if blob.media_type.starts_with("image/") { "inline" } else { "attachment" };
    [
        (CONTENT_TYPE, blob.media_type.clone()),
        (CONTENT_DISPOSITION, format!("{kind}; filename=\"{}.{ending}\"", &blob.digest[..16])),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (ETAG, tag),
    ]
}

/// Converts an error; an unknown blob is 404.
fn show_blob_problem(error: &Error) -> RequestProblem {
    match error {
        Error::BlobUnknown { .. } => RequestProblem::not_found(error.category(), error.to_string()),
        _ => RequestProblem::from_chat_error(error),
    }
}
