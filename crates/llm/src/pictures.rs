//! Pictures that messages name and that somebody else keeps: put in on the way to the wire, and nowhere before it.

mod of_tools;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use singletree_env::BoxFuture;

use crate::content::{ContentBlock, ImageContentSource, MessageContent};
use crate::error::{Error, ProviderErrorDetail, Result};
use crate::message::ChatMessage;
use crate::request::Request;

use of_tools::ToolPictures;
pub use of_tools::{TOOL_PICTURES_MAX, tool_picture_line};

/// The scheme of the URL of a picture that is stored elsewhere: `blob:` and the SHA-256 of its bytes in lower-case
/// hexadecimal.
const SCHEME: &str = "blob:";

/// How many digits a digest has.
const DIGITS: usize = 64;

/// A picture as a model's wire takes it. `Debug` shows none of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedPicture {
    /// Its IANA media type.
    pub media_type: String,
    /// Its bytes, base64.
    pub base64_data: String,
}

impl fmt::Debug for ResolvedPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResolvedPicture({}, {} bytes)", self.media_type, self.base64_data.len())
    }
}

/// Where the pictures are that messages name by `blob:DIGEST`.
///
/// It travels with a [`Request`], and whoever writes that to a wire asks it, by [`Request::inline_pictures`]: transcripts,
/// recorded calls and logs hold the name and never the bytes.
pub trait PictureResolver: fmt::Debug + Send + Sync {
    /// Returns a picture by its digest; nothing when it is not kept (any more).
    ///
    /// # Errors
    ///
    /// `provider_unavailable` when it cannot be read now.
    fn load_picture<'a>(&'a self, digest: &'a str) -> BoxFuture<'a, Result<Option<ResolvedPicture>>>;

    /// Returns how many bytes of base64 one request may carry (INV-12). Beyond it the pictures that stand earliest in
    /// the conversation are left out.
    fn request_bytes_max(&self) -> usize;
}

/// The pictures of a request. Where they are stored does not count in comparisons: requests with the same content are
/// equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestPictures(pub(crate) Option<Arc<dyn PictureResolver>>);

impl PartialEq for RequestPictures {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl ImageContentSource {
    /// Names a picture that is kept elsewhere by its digest.
    #[must_use]
    pub fn from_blob_digest(digest: &str) -> Self {
        Self::Url { url: format!("{SCHEME}{digest}") }
    }

    /// Returns the digest by which it names a picture that is kept elsewhere, if it does.
    #[must_use]
    pub fn blob_digest(&self) -> Option<&str> {
        let Self::Url { url } = self else { return None };
        url.strip_prefix(SCHEME).filter(|digest| is_picture_digest(digest))
    }
}

fn is_picture_digest(text: &str) -> bool {
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    text.len() == DIGITS && text.bytes().all(is_digit)
}

/// The content of a request in place of one picture that was looked for.
enum PictureLookup {
    Picture(ResolvedPicture),
    /// A text for the model in its place.
    Note(&'static str),
}

const GONE: &str = "[There was a picture here; it is not kept any more.]";
const LEFT_OUT: &str = "[There was a picture here; it was left out, for there are too many.]";

impl Request {
    /// Says where the pictures are that its messages name by `blob:DIGEST`.
    #[must_use]
    pub fn with_pictures(mut self, pictures: Arc<dyn PictureResolver>) -> Self {
        self.album = RequestPictures(Some(pictures));
        self
    }

    /// Puts the pictures into the messages that name them, and returns the request as it goes on the wire. An
    /// implementation of [`Provider`](crate::Provider) calls this after its checks, and stores nothing of the result.
    ///
    /// Where there are more than one request may carry, or one is not kept any more, a short text stands in its
    /// place: a conversation goes on whatever became of its pictures.
    ///
    /// A tool message names pictures by lines of its text ([`tool_picture_line`]). They are put into a user's message
    /// after the run of tool messages, at most [`TOOL_PICTURES_MAX`] of each; where nobody said where pictures are,
    /// the lines are text as any other.
    ///
    /// # Errors
    ///
    /// `provider_unavailable` when a picture cannot be read now; `provider_invalid_request` when a message names one
    /// and nobody said where they are.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inline_pictures(&self) -> Result<Cow<'_, Self>> {
        let shows = self.messages.iter().any(|message| image_block_digests(message).next().is_some());
        let Some(pictures) = &self.album.0 else {
            if !shows {
                return Ok(Cow::Borrowed(self));
            }
            let problem = "a message names a picture by `blob:`, and nothing says where those are";
            return Err(Error::InvalidRequest(ProviderErrorDetail::new(problem)));
        };
        if !shows && self.messages.iter().all(|message| of_tools::tool_picture_digests(message).is_empty()) {
            return Ok(Cow::Borrowed(self));
        }
        let mut room = Some(pictures.request_bytes_max());
        let mut request = self.clone();
        let mut of_tools = Vec::new();
        // The latest come first: of many pictures a model is asked about the last.
        for (at, message) in request.messages.iter_mut().enumerate().rev() {
            let named = (message.as_ref(), of_tools::find_called_tool_name(&self.messages, at));
            if let Some(found) = ToolPictures::load_for_message(pictures.as_ref(), named, &mut room).await? {
                of_tools.push((at, found));
            }
            let mut found = Vec::new();
            for digest in image_block_digests(message).rev() {
                found.push(load_picture_if_room(pictures.as_ref(), digest, &mut room).await?);
            }
            if !found.is_empty() {
                *message = Arc::new(replace_picture_names(message, found));
            }
        }
        request.messages = of_tools::insert_picture_messages(request.messages, of_tools);
        Ok(Cow::Owned(request))
    }
}

/// Returns the digests that a message names, in its order.
fn image_block_digests(message: &ChatMessage) -> impl DoubleEndedIterator<Item = &str> {
    message.content.blocks().iter().filter_map(|block| match block {
        ContentBlock::Image { source, .. } => source.blob_digest(),
        ContentBlock::Text { .. } | ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {
            None
        }
    })
}

/// Finds a picture while there is room; once there is none, nothing is read any more.
async fn load_picture_if_room(
    pictures: &dyn PictureResolver,
    digest: &str,
    room: &mut Option<usize>,
) -> Result<PictureLookup> {
    let Some(left) = *room else { return Ok(PictureLookup::Note(LEFT_OUT)) };
    let Some(picture) = pictures.load_picture(digest).await? else { return Ok(PictureLookup::Note(GONE)) };
    *room = left.checked_sub(picture.base64_data.len());
    Ok(if room.is_some() { PictureLookup::Picture(picture) } else { PictureLookup::Note(LEFT_OUT) })
}

/// Replaces the names of pictures by the pictures that were found; `found` begins with the last.
fn replace_picture_names(message: &ChatMessage, mut found: Vec<PictureLookup>) -> ChatMessage {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Image { source, detail, .. } if source.blob_digest().is_some() => match found.pop() {
            Some(PictureLookup::Picture(ResolvedPicture { media_type, base64_data })) => {
                ContentBlock::Image {
                    source: ImageContentSource::Inline { base64_data },
                    media_type: Some(media_type),
                    detail: *detail,
                }
            }
            Some(PictureLookup::Note(note)) => ContentBlock::from_text(note),
            None => block.clone(),
        },
        other => other.clone(),
    };
    let blocks = message.content.blocks().iter().map(block).collect();
    ChatMessage { content: MessageContent::Blocks(blocks), ..message.clone() }
}

#[cfg(test)]
mod tests;
