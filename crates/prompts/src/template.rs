//! Templates: the content of a prompt before it is rendered (spec: prompt-management §3.1).

use serde_json::{Map, Value, json};
use singletree_llm::{ImageDetailLevel, Role};

/// The unrendered content of a prompt. A prompt has one of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// One template, which becomes one user message.
    Text(String),
    /// Segments, which become a message each, and places for messages of the caller.
    Chat(Vec<ChatSegment>),
}

/// One segment of a chat template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatSegment {
    /// A message that the author wrote.
    Content {
        /// Who speaks.
        role: SegmentRole,
        /// The content.
        content: SegmentContent,
    },
    /// A place for messages that the caller gives at render time.
    Placeholder {
        /// Its name: letters, digits and underscores, no digit first; unique in its template. Checked when it is
        /// rendered.
        name: String,
    },
}

/// The role of a segment's author. Results of tools are not authored: they come in through a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentRole {
    /// The application, setting the stage.
    System,
    /// The human.
    User,
    /// The model.
    Assistant,
}

/// The content of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentContent {
    /// One template of text.
    Text(String),
    /// Templates of content blocks, in order.
    Blocks(Vec<BlockTemplate>),
}

/// A template of a content block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockTemplate {
    /// A text block.
    Text {
        /// The template of its text.
        text: String,
    },
    /// An image block; only a user says one.
    Image {
        /// Where the picture is.
        source: ImageTemplate,
        /// How closely to look; no template.
        detail: Option<ImageDetailLevel>,
    },
}

/// A template of an image's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageTemplate {
    /// Behind a URL.
    Url {
        /// The template of the URL.
        url: String,
        /// Its media type, as it is; no template.
        media_type: Option<String>,
    },
    /// In the message itself.
    Inline {
        /// The template of the bytes, base64.
        base64_data: String,
        /// The template of the media type.
        media_type: String,
    },
}

impl SegmentRole {
    /// Returns the role of the message.
    #[must_use]
    pub fn as_role(self) -> Role {
        match self {
            Self::System => Role::System,
            Self::User => Role::User,
            Self::Assistant => Role::Assistant,
        }
    }
}

impl ChatSegment {
    /// Makes a segment of text.
    #[must_use]
    pub fn text(role: SegmentRole, template: impl Into<String>) -> Self {
        Self::Content { role, content: SegmentContent::Text(template.into()) }
    }

    /// Makes a segment of content blocks.
    #[must_use]
    pub fn blocks(role: SegmentRole, blocks: impl IntoIterator<Item = BlockTemplate>) -> Self {
        Self::Content { role, content: SegmentContent::Blocks(blocks.into_iter().collect()) }
    }

    /// Makes a place for messages.
    #[must_use]
    pub fn placeholder(name: impl Into<String>) -> Self {
        Self::Placeholder { name: name.into() }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Content { role, content } => {
                let content = match content {
                    SegmentContent::Text(text) => Value::from(text.as_str()),
                    SegmentContent::Blocks(blocks) => blocks.iter().map(BlockTemplate::to_json).collect(),
                };
                json!({ "role": role.as_role().as_str(), "content": content })
            }
            Self::Placeholder { name } => json!({ "placeholder": name }),
        }
    }
}

impl BlockTemplate {
    /// Makes a text block.
    #[must_use]
    pub fn text(template: impl Into<String>) -> Self {
        Self::Text { text: template.into() }
    }

    /// Makes an image block of a URL.
    #[must_use]
    pub fn image_url(template: impl Into<String>) -> Self {
        Self::Image { source: ImageTemplate::Url { url: template.into(), media_type: None }, detail: None }
    }

    fn to_json(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
        match self {
            Self::Text { text } => {
                put("type", "text".into());
                put("text", text.as_str().into());
            }
            Self::Image { source, detail } => {
                put("type", "image".into());
                match source {
                    ImageTemplate::Url { url, media_type } => {
                        put("source", json!({ "type": "url", "url": url }));
                        media_type.iter().for_each(|it| put("media_type", it.as_str().into()));
                    }
                    ImageTemplate::Inline { base64_data, media_type } => {
                        put("source", json!({ "type": "inline", "base64_data": base64_data }));
                        put("media_type", media_type.as_str().into());
                    }
                }
                detail.iter().for_each(|it| put("detail", image_detail_word(*it).into()));
            }
        }
        Value::Object(fields)
    }
}

/// Returns the word of the specification.
fn image_detail_word(detail: ImageDetailLevel) -> &'static str {
    match detail {
        ImageDetailLevel::Auto => "auto",
        ImageDetailLevel::Low => "low",
        ImageDetailLevel::High => "high",
    }
}

impl Template {
    /// Returns the template in the specification's shape: a string, or a list of segments.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Chat(segments) => segments.iter().map(ChatSegment::to_json).collect(),
        }
    }
}
