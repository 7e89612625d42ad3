//! The content of a message: a string, or content blocks (spec: llm-provider §3.1).

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// The content of a message.
///
/// One unsigned text block is equal to its string, and no block at all is equal to the empty
/// string (spec: llm-provider §3.1.1).
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum MessageContent {
    /// Text only.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<ContentBlock>),
}

impl MessageContent {
    /// Says whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// Returns the text: the string, or the text blocks joined. Thinking and images are no text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        if let Some(text) = self.as_plain_text() {
            return Cow::Borrowed(text);
        }
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Blocks(blocks) => Cow::Owned(blocks.iter().filter_map(ContentBlock::text).collect()),
        }
    }

    /// Returns the blocks, if the content is made of blocks.
    #[must_use]
    pub fn blocks(&self) -> &[ContentBlock] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }

    /// Makes the shortest equal content: a string where one unsigned text block is all there is.
    #[must_use]
    pub fn from_blocks(mut blocks: Vec<ContentBlock>) -> Self {
        match blocks.as_mut_slice() {
            [] => Self::Text(String::new()),
            [ContentBlock::Text { text, signature: None }] => Self::Text(std::mem::take(text)),
            _ => Self::Blocks(blocks),
        }
    }

    fn as_plain_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Blocks(blocks) => match blocks.as_slice() {
                [] => Some(""),
                [ContentBlock::Text { text, signature: None }] => Some(text),
                _ => None,
            },
        }
    }
}

impl PartialEq for MessageContent {
    fn eq(&self, other: &Self) -> bool {
        match (self.as_plain_text(), other.as_plain_text()) {
            (Some(one), Some(two)) => one == two,
            (None, None) => self.blocks() == other.blocks(),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Eq for MessageContent {}

impl From<String> for MessageContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for MessageContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<ContentBlock>> for MessageContent {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::Blocks(blocks)
    }
}

/// One block of content.
///
/// Signatures are opaque: kept verbatim, sent back only to the provider that made them
/// (spec: llm-provider §3.1.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text of a user or of the model.
    Text {
        /// The text, never empty.
        text: String,
        /// The provider's continuity token.
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A picture of a user.
    Image {
        /// Where the picture is.
        source: ImageContentSource,
        /// Its IANA media type; required for inline pictures.
        #[serde(skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// How closely to look.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<ImageDetailLevel>,
    },
    /// Reasoning that the model showed.
    Thinking {
        /// The reasoning, never empty.
        text: String,
        /// The provider's proof of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Reasoning that the provider withheld.
    RedactedThinking {
        /// The provider's opaque blob.
        data: String,
    },
}

impl ContentBlock {
    /// Makes a text block.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), signature: None }
    }

    /// Returns the text of a text block.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Image { .. } | Self::Thinking { .. } | Self::RedactedThinking { .. } => None,
        }
    }

    /// Returns the discriminator of the block on the wire.
    #[must_use]
    pub fn wire_type_name(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Thinking { .. } => "thinking",
            Self::RedactedThinking { .. } => "redacted_thinking",
        }
    }
}

/// Where a picture is (spec: llm-provider §3.1.3). `Debug` shows no picture data.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ImageContentSource {
    /// Behind a URL, which is passed on unchanged and never fetched.
    Url {
        /// The URL.
        url: String,
    },
    /// In the message itself.
    Inline {
        /// The bytes, base64; never inspected.
        base64_data: String,
    },
}

impl fmt::Debug for ImageContentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url } if url.starts_with("data:") => {
                write!(f, "Url(data, {} bytes)", url.len())
            }
            Self::Url { url } => write!(f, "Url({url})"),
            Self::Inline { base64_data } => write!(f, "Inline({} bytes)", base64_data.len()),
        }
    }
}

/// How closely a model should look at a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageDetailLevel {
    /// The provider decides.
    Auto,
    /// A small version is enough.
    Low,
    /// Every detail counts.
    High,
}
