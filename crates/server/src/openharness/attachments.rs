//! Attachments: references, resolved before anything is accepted (spec: OpenHarness §9.1).
//!
//! The content of a reference is stored with the session and named by its digest from then on. So a model sees the
//! content that was checked here, even if the address serves another content later, and no provider is sent to
//! addresses that a stranger chose.

use std::time::Duration;

use singletree_harness::{BlobReference, Chat};
use singletree_http::{Error as HttpError, get_following, read_body};
use singletree_llm::{ContentBlock, MessageContent};
use singletree_protocol::openharness::{AttachmentRef, ErrorCode};
use url::Url;

use super::admission::PersonMessageContent;
use super::engine::ShellRequestContext;
use super::failure::EngineErrorResponse;

/// The media types of pictures that models take.
pub(super) const PICTURES: &[&str] = &["image/gif", "image/jpeg", "image/png", "image/webp"];

/// The schemes that an address may have.
pub(super) const SCHEMES: &[&str] = &["https"];

/// The prefix of the names of uploads.
const BLOB: &str = "blob:";

/// The maximum number of redirects.
const HOPS_MAX: usize = 3;

/// The time limit for fetching one attachment (D20).
const FETCH_TIME: Duration = Duration::from_secs(20);

/// Makes the content of a message: the person's text and pictures.
pub(super) async fn build_message_content(
    asking: &ShellRequestContext<'_>,
    session: &str,
    saying: &PersonMessageContent,
) -> Result<MessageContent, EngineErrorResponse> {
    if saying.attachments.is_empty() {
        return Ok(saying.intent.as_str().into());
    }
    let text = (!saying.intent.is_empty()).then(|| ContentBlock::from_text(&saying.intent));
    let mut blocks: Vec<ContentBlock> = text.into_iter().collect();
    for (at, attachment) in saying.attachments.iter().enumerate() {
        let place = AttachmentPosition { field: format!("context.attachments[{at}]") };
        blocks.push(resolve_attachment(asking, session, attachment, &place).await?);
    }
    Ok(MessageContent::Blocks(blocks))
}

/// The position of an attachment in the request, for error messages.
struct AttachmentPosition {
    field: String,
}

impl AttachmentPosition {
    fn unresolvable_error(&self, why: &str) -> EngineErrorResponse {
        self.error_with_code(ErrorCode::AttachmentUnresolvable, why)
    }

    fn policy_denied_error(&self, why: &str) -> EngineErrorResponse {
        self.error_with_code(ErrorCode::PolicyDenied, why)
    }

    fn error_with_code(&self, code: ErrorCode, why: &str) -> EngineErrorResponse {
        let error = EngineErrorResponse::from_code(code, format!("{}: {why}", self.field)).error;
        error.with_detail("field", self.field.as_str()).into()
    }
}

async fn resolve_attachment(
    asking: &ShellRequestContext<'_>,
    session: &str,
    attachment: &AttachmentRef,
    place: &AttachmentPosition,
) -> Result<ContentBlock, EngineErrorResponse> {
    let chat = asking.shared.chat_of_caller(asking.caller);
    if attachment.size_bytes.is_some_and(|size_bytes| size_bytes > attachment_size_max(&chat)) {
        return Err(place.unresolvable_error("it is larger than allowed"));
    }
    let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
    match (given(&attachment.ref_id), given(&attachment.uri)) {
        (Some(name), _) => find_upload(&chat, session, &name, place).await,
        (None, Some(uri)) if uri.starts_with(BLOB) => find_upload(&chat, session, &uri, place).await,
        (None, Some(uri)) => fetch_and_store((asking, &chat), session, &uri, place).await,
        (None, None) => Err(place.unresolvable_error("this engine knows no assets by that name")),
    }
}

/// Finds an upload of this session; uploads of other sessions are not found (INV-14).
async fn find_upload(
    chat: &Chat,
    session: &str,
    name: &str,
    place: &AttachmentPosition,
) -> Result<ContentBlock, EngineErrorResponse> {
    let digest = name.strip_prefix(BLOB).unwrap_or(name);
    let found = chat.session(session).blob_info(digest).await;
    let blob = found
        .map_err(|_| place.unresolvable_error("nothing was uploaded to this session under that name"))?;
    convert_picture(&blob, place)
}

/// Fetches the content at an address, through the guard that allows public addresses only, and stores it.
async fn fetch_and_store(
    (asking, chat): (&ShellRequestContext<'_>, &Chat),
    session: &str,
    uri: &str,
    place: &AttachmentPosition,
) -> Result<ContentBlock, EngineErrorResponse> {
    let url = Url::parse(uri).map_err(|_| place.unresolvable_error("its uri is no address"))?;
    if !SCHEMES.contains(&url.scheme()) {
        return Err(place.policy_denied_error("addresses of this scheme are not taken; those of https are"));
    }
    let transport = asking.shared.fetch.as_deref();
    let transport =
        transport.ok_or_else(|| place.policy_denied_error("this server fetches nothing; upload it"))?;
    let limit = attachment_size_max(chat);
    let fetching = async {
        let (_, response) = get_following(transport, uri, HOPS_MAX).await?;
        let status = response.status;
        read_body(response.body, limit, url.host_str().unwrap_or_default()).await.map(|body| (status, body))
    };
    let fetched = tokio::time::timeout(FETCH_TIME, fetching).await;
    let (status, bytes) = match fetched {
        Ok(Ok(fetched)) => fetched,
        Ok(Err(HttpError::Egress { .. })) => {
            return Err(place.policy_denied_error("its address is none that may be fetched"));
        }
        Ok(Err(HttpError::TooLarge { .. })) => {
            return Err(place.unresolvable_error("it is larger than allowed"));
        }
        Ok(Err(_)) => return Err(place.unresolvable_error("it cannot be fetched")),
        Err(_) => return Err(place.unresolvable_error("it takes too long to be fetched")),
    };
    if status != 200 {
        return Err(place.unresolvable_error("it cannot be fetched"));
    }
    let kept = chat.session(session).keep_blob(bytes.to_vec(), None).await;
    let blob = kept.map_err(|error| place.unresolvable_error(&error.to_string()))?;
    convert_picture(&blob, place)
}

/// Returns the maximum size of an attachment, in bytes.
pub(super) fn attachment_size_max(chat: &Chat) -> u64 {
    chat.blob_limits().map_or(0, |blob_limits| blob_limits.bytes as u64)
}

fn convert_picture(
    blob: &BlobReference,
    place: &AttachmentPosition,
) -> Result<ContentBlock, EngineErrorResponse> {
    if !PICTURES.contains(&blob.media_type.as_str()) {
        return Err(
            place.unresolvable_error("it is no picture, and agents of this engine take no other files")
        );
    }
    Ok(blob.image_block())
}
