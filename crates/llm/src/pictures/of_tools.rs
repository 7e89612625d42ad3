//! Pictures that tools returned: a line of the tool message names each, and a user's message after it shows them.

use std::sync::Arc;

use super::{
    GONE, PictureLookup, PictureResolver, ResolvedPicture, SCHEME, is_picture_digest, load_picture_if_room,
};
use crate::content::{ContentBlock, ImageContentSource, MessageContent};
use crate::error::Result;
use crate::message::{ChatMessage, Role};

/// How many pictures of one tool message a model is shown.
pub const TOOL_PICTURES_MAX: usize = 16;

const BEGIN: &str = "[image: ";

/// Writes the line by which the text of a tool message names a picture that the tool returned. A tool message is text
/// only (spec: llm-provider §3), so the picture itself is kept elsewhere;
/// [`Request::inline_pictures`](crate::Request::inline_pictures) finds it.
#[must_use]
pub fn tool_picture_line(media_type: &str, bytes: u64, digest: &str) -> String {
    format!("{BEGIN}{media_type}, {bytes} bytes, {SCHEME}{digest}]")
}

/// Returns the digest that a line of a tool message names.
fn parse_picture_line(line: &str) -> Option<&str> {
    let inside = line.strip_prefix(BEGIN)?.strip_suffix(']')?;
    let (_, digest) = inside.rsplit_once(", ")?;
    digest.strip_prefix(SCHEME).filter(|digest| is_picture_digest(digest))
}

/// Returns the digests that a tool message names, in its order.
pub(super) fn tool_picture_digests(message: &ChatMessage) -> Vec<String> {
    if message.role != Role::Tool {
        return Vec::new();
    }
    let text = message.text();
    text.lines().filter_map(parse_picture_line).take(TOOL_PICTURES_MAX).map(str::to_owned).collect()
}

/// The pictures of one tool message.
pub(super) struct ToolPictures {
    blocks: Vec<ContentBlock>,
}

impl ToolPictures {
    /// Finds the pictures of a tool message, the last one first; none where it names none. `name` is the tool's.
    pub(super) async fn load_for_message(
        pictures: &dyn PictureResolver,
        (message, name): (&ChatMessage, Option<&str>),
        room: &mut Option<usize>,
    ) -> Result<Option<Self>> {
        let digests = tool_picture_digests(message);
        let mut found = Vec::new();
        for digest in digests.iter().rev() {
            found.push(match load_picture_if_room(pictures, digest, room).await? {
                // The text of a tool may name anything that the session keeps.
                PictureLookup::Picture(picture) if !picture.media_type.starts_with("image/") => {
                    PictureLookup::Note(GONE)
                }
                found => found,
            });
        }
        let call = message.tool_call_id.as_deref().unwrap_or_default();
        let mut blocks = Vec::new();
        for (number, found) in (1..).zip(found.into_iter().rev()) {
            let tool = name.map(|name| format!(" ({name})")).unwrap_or_default();
            let caption = format!("Image {number} of the result of the tool call {call}{tool}:");
            match found {
                PictureLookup::Picture(ResolvedPicture { media_type, base64_data }) => {
                    let (source, media_type) = (ImageContentSource::Inline { base64_data }, Some(media_type));
                    blocks.push(ContentBlock::from_text(caption));
                    blocks.push(ContentBlock::Image { source, media_type, detail: None });
                }
                PictureLookup::Note(note) => {
                    blocks.push(ContentBlock::from_text(format!("{caption} {note}")))
                }
            }
        }
        Ok((!blocks.is_empty()).then_some(Self { blocks }))
    }
}

/// Returns the name of the tool whose call a message answers: ids are unique within one message only, so the nearest
/// call before it counts.
pub(super) fn find_called_tool_name(messages: &[Arc<ChatMessage>], at: usize) -> Option<&str> {
    let id = messages.get(at)?.tool_call_id.as_deref()?;
    let mut calls = messages[..at].iter().rev().flat_map(|message| &message.tool_calls);
    calls.find(|call| call.id == id).map(|call| call.name.as_str())
}

/// Returns the messages with a user's message after each run of tool messages that has pictures: a provider takes
/// results of tools only directly behind their calls.
pub(super) fn insert_picture_messages(
    messages: Vec<Arc<ChatMessage>>,
    mut pictures: Vec<(usize, ToolPictures)>,
) -> Vec<Arc<ChatMessage>> {
    let mut shown = Vec::with_capacity(messages.len() + pictures.len());
    let mut waiting = Vec::new();
    // They were found from the last message to the first.
    for (at, message) in messages.into_iter().enumerate() {
        if message.role != Role::Tool {
            shown.extend(take_user_message(&mut waiting));
        }
        shown.push(message);
        if let Some((_, of_message)) = pictures.pop_if(|(place, _)| *place == at) {
            waiting.extend(of_message.blocks);
        }
    }
    shown.extend(take_user_message(&mut waiting));
    shown
}

fn take_user_message(blocks: &mut Vec<ContentBlock>) -> Option<Arc<ChatMessage>> {
    let blocks = std::mem::take(blocks);
    (!blocks.is_empty()).then(|| Arc::new(ChatMessage::user(MessageContent::Blocks(blocks))))
}
