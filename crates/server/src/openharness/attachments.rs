//! Attachments: references, resolved before anything is accepted (spec: OpenHarness §9.1).
//!
//! What a reference leads to is kept with the session and named by its digest from then on. So a model sees what was looked at
//! here, whatever stands at the address later, and no provider is sent to addresses that a stranger chose.

use std::time::Duration;

use sha2::{Digest, Sha256};
use singletree_durable::{Blob, SessionId, SessionKey};
use singletree_http::{Error as HttpError, get_following, read_body};
use singletree_llm::{Content, ContentBlock, ImageSource};
use singletree_protocol::openharness::{AttachmentRef, ErrorCode};
use url::Url;

use super::admission::Saying;
use super::engine::Asking;
use super::failure::Failure;

/// What pictures may be: what models take.
pub(super) const PICTURES: &[&str] = &["image/gif", "image/jpeg", "image/png", "image/webp"];

/// With which schemes an address may begin.
pub(super) const SCHEMES: &[&str] = &["https"];

/// What a name of something uploaded begins with.
const BLOB: &str = "blob:";

/// How many redirects are followed.
const HOPS_MAX: usize = 3;

/// How long one may take to be fetched (D20).
const FETCH_TIME: Duration = Duration::from_secs(20);

/// Makes the content of a message: what the person says, and the pictures that go with it.
pub(super) async fn content(asking: &Asking<'_>, session: &str, saying: &Saying) -> Result<Content, Failure> {
    if saying.attachments.is_empty() {
        return Ok(saying.intent.as_str().into());
    }
    let mut blocks = vec![ContentBlock::text_of(&saying.intent)];
    for (at, attachment) in saying.attachments.iter().enumerate() {
        let place = Place { field: format!("context.attachments[{at}]") };
        blocks.push(resolve(asking, session, attachment, &place).await?);
    }
    Ok(Content::Blocks(blocks))
}

/// Which attachment it is, for whoever is told what is wrong with it.
struct Place {
    field: String,
}

impl Place {
    fn cannot(&self, why: &str) -> Failure {
        self.of(ErrorCode::AttachmentUnresolvable, why)
    }

    fn denied(&self, why: &str) -> Failure {
        self.of(ErrorCode::PolicyDenied, why)
    }

    fn of(&self, code: ErrorCode, why: &str) -> Failure {
        let error = Failure::of(code, format!("{}: {why}", self.field)).error;
        error.detail("field", self.field.as_str()).into()
    }
}

async fn resolve(
    asking: &Asking<'_>,
    session: &str,
    attachment: &AttachmentRef,
    place: &Place,
) -> Result<ContentBlock, Failure> {
    let session = SessionId::parse(session).map_err(|_| place.cannot("there is no session to keep it in"))?;
    let key = SessionKey::new(asking.caller.tenant.clone(), session);
    if attachment.size_bytes.is_some_and(|it| it > asking.shared.limits.blob_bytes as u64) {
        return Err(place.cannot("it is larger than allowed"));
    }
    let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
    match (given(&attachment.ref_id), given(&attachment.uri)) {
        (Some(name), _) => uploaded(asking, &key, &name, place).await,
        (None, Some(uri)) if uri.starts_with(BLOB) => uploaded(asking, &key, &uri, place).await,
        (None, Some(uri)) => fetched(asking, &key, &uri, place).await,
        (None, None) => Err(place.cannot("this engine knows no assets by that name")),
    }
}

/// Finds what was uploaded to this session; what was uploaded elsewhere is not there (INV-14).
async fn uploaded(
    asking: &Asking<'_>,
    key: &SessionKey,
    name: &str,
    place: &Place,
) -> Result<ContentBlock, Failure> {
    let digest = name.strip_prefix(BLOB).unwrap_or(name);
    let found = asking.shared.documents.blob(key, digest).await?;
    let blob = found.ok_or_else(|| place.cannot("nothing was uploaded to this session under that name"))?;
    picture(&blob.digest, &blob.media_type, place)
}

/// Fetches what stands at an address, through the guard that lets calls go to public addresses only, and keeps it.
async fn fetched(
    asking: &Asking<'_>,
    key: &SessionKey,
    uri: &str,
    place: &Place,
) -> Result<ContentBlock, Failure> {
    let url = Url::parse(uri).map_err(|_| place.cannot("its uri is no address"))?;
    if !SCHEMES.contains(&url.scheme()) {
        return Err(place.denied("addresses of this scheme are not taken; those of https are"));
    }
    let transport = asking.shared.fetch.as_deref();
    let transport = transport.ok_or_else(|| place.denied("this server fetches nothing; upload it"))?;
    let limit = asking.shared.limits.blob_bytes as u64;
    let fetching = async {
        let (_, response) = get_following(transport, uri, HOPS_MAX).await?;
        let status = response.status;
        read_body(response.body, limit, url.host_str().unwrap_or_default()).await.map(|it| (status, it))
    };
    let fetched = tokio::time::timeout(FETCH_TIME, fetching).await;
    let (status, bytes) = match fetched {
        Ok(Ok(fetched)) => fetched,
        Ok(Err(HttpError::Egress { .. })) => {
            return Err(place.denied("its address is none that may be fetched"));
        }
        Ok(Err(HttpError::TooLarge { .. })) => return Err(place.cannot("it is larger than allowed")),
        Ok(Err(_)) => return Err(place.cannot("it cannot be fetched")),
        Err(_) => return Err(place.cannot("it takes too long to be fetched")),
    };
    if status != 200 {
        return Err(place.cannot("it cannot be fetched"));
    }
    let media_type = infer::get(&bytes).map_or("application/octet-stream", |it| it.mime_type());
    let digest: String = Sha256::digest(&bytes).iter().map(|it| format!("{it:02x}")).collect();
    let block = picture(&digest, media_type, place)?;
    let used = asking.shared.documents.blob_bytes(key).await?;
    if used.saturating_add(bytes.len() as u64) > asking.shared.limits.session_blob_bytes {
        return Err(place.cannot("the session holds as many bytes as it may"));
    }
    let blob = Blob { digest, media_type: media_type.to_owned(), bytes: bytes.to_vec() };
    asking.shared.documents.keep_blob(key, blob).await?;
    Ok(block)
}

fn picture(digest: &str, media_type: &str, place: &Place) -> Result<ContentBlock, Failure> {
    if !PICTURES.contains(&media_type) {
        return Err(place.cannot("it is no picture, and agents of this engine take no other files"));
    }
    let source = ImageSource::Url { url: format!("{BLOB}{digest}") };
    Ok(ContentBlock::Image { source, media_type: Some(media_type.to_owned()), detail: None })
}
