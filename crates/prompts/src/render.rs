//! Rendering a prompt (spec: prompt-management §6, §8, §11, §13).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use singletree_llm::{ChatMessage, ContentBlock, ImageContentSource, MessageContent};

use crate::error::{Error, RenderError, Result};
use crate::hash;
use crate::inputs::PromptInputs;
use crate::prompt::Prompt;
use crate::result::PromptResult;
use crate::template::{BlockTemplate, ChatSegment, ImageTemplate, SegmentContent, SegmentRole, Template};
use crate::templating::{TemplateEngine, TemplateVariables};

/// The error is a description that names the place.
type Rendered<T> = std::result::Result<T, String>;

/// Renders a prompt.
pub(crate) fn render_prompt(
    templating: &TemplateEngine,
    prompt: &Arc<Prompt>,
    inputs: &PromptInputs,
    now: SystemTime,
) -> Result<PromptResult> {
    let walk = PromptRenderer { templating, variables: TemplateVariables::new(&inputs.variables), inputs };
    let messages =
        walk.render_messages(prompt.template()).map_err(|it| build_render_error(prompt, inputs, it))?;
    let json = messages.iter().map(|message| serde_json::to_value(message.as_ref()));
    let json = json.collect::<std::result::Result<_, _>>().expect("a message is JSON: its keys are text");
    Ok(PromptResult {
        prompt: prompt.clone(),
        rendered_hash: hash::hash_json_value(&json),
        messages,
        variables: inputs.redacted_variables(),
        rendered_at: now,
    })
}

/// Makes the error of a prompt that was not rendered.
pub(crate) fn build_render_error(prompt: &Prompt, inputs: &PromptInputs, description: String) -> Error {
    Error::Render(Box::new(RenderError {
        name: prompt.name().to_owned(),
        version: prompt.version().to_owned(),
        label: prompt.label().to_owned(),
        variables: inputs.redacted_variables(),
        description: inputs.redact_secrets(description),
    }))
}

/// Checks a template without variables: its parts must parse and fit together.
pub(crate) fn check_template(templating: &TemplateEngine, template: &Template) -> Rendered<()> {
    match template {
        Template::Text(text) => templating.check_syntax(text),
        Template::Chat(segments) => {
            check_segments(segments)?;
            segments.iter().enumerate().try_for_each(|(at, segment)| {
                let place = SegmentLocation::from_segment(at, segment);
                segment_templates(segment).into_iter().try_for_each(|part| {
                    templating.check_syntax(part).map_err(|error| place.describe_fault(error))
                })
            })
        }
    }
}

/// The templates of a segment.
fn segment_templates(segment: &ChatSegment) -> Vec<&str> {
    match segment {
        ChatSegment::Content { content: SegmentContent::Text(text), .. } => vec![text],
        ChatSegment::Content { content: SegmentContent::Blocks(blocks), .. } => {
            blocks.iter().flat_map(block_templates).collect()
        }
        ChatSegment::Placeholder { .. } => Vec::new(),
    }
}

fn block_templates(block: &BlockTemplate) -> Vec<&str> {
    match block {
        BlockTemplate::Text { text } => vec![text],
        BlockTemplate::Image { source: ImageTemplate::Url { url, .. }, .. } => vec![url],
        BlockTemplate::Image { source: ImageTemplate::Inline { base64_data, media_type }, .. } => {
            vec![base64_data, media_type]
        }
    }
}

/// Where in a chat template something is.
struct SegmentLocation {
    segment: usize,
    kind: String,
    block: Option<usize>,
}

impl SegmentLocation {
    fn from_segment(at: usize, segment: &ChatSegment) -> Self {
        let kind = match segment {
            ChatSegment::Content { role, .. } => role.as_role().to_string(),
            ChatSegment::Placeholder { name } => format!("placeholder `{name}`"),
        };
        Self { segment: at, kind, block: None }
    }

    fn describe_fault(&self, what: impl fmt::Display) -> String {
        match self.block {
            None => format!("segment {} ({}): {what}", self.segment, self.kind),
            Some(block) => format!("segment {} ({}), block {block}: {what}", self.segment, self.kind),
        }
    }
}

/// Checks the rules that no variable changes (spec: prompt-management §3.1, §11).
fn check_segments(segments: &[ChatSegment]) -> Rendered<()> {
    let mut names = BTreeSet::new();
    segments.iter().enumerate().try_for_each(|(at, segment)| {
        let place = SegmentLocation::from_segment(at, segment);
        match segment {
            ChatSegment::Placeholder { name } if !is_identifier(name) => Err(place.describe_fault(
                "a placeholder's name is letters, digits and underscores, and begins with no digit",
            )),
            ChatSegment::Placeholder { name } if !names.insert(name) => {
                Err(place.describe_fault("the placeholder's name is there twice"))
            }
            ChatSegment::Content { content: SegmentContent::Blocks(blocks), .. } if blocks.is_empty() => {
                Err(place.describe_fault("the list of content blocks is empty"))
            }
            ChatSegment::Content { role, content: SegmentContent::Blocks(blocks) } => {
                let image = blocks.iter().position(|block| matches!(block, BlockTemplate::Image { .. }));
                match (role, image) {
                    (SegmentRole::User, _) | (_, None) => Ok(()),
                    (SegmentRole::System | SegmentRole::Assistant, block) => {
                        Err(SegmentLocation { block, ..place }.describe_fault("only a user says an image"))
                    }
                }
            }
            ChatSegment::Placeholder { .. }
            | ChatSegment::Content { content: SegmentContent::Text(_), .. } => Ok(()),
        }
    })
}

/// Tells whether a name is one of a placeholder: `[A-Za-z_][A-Za-z0-9_]*`.
pub(crate) fn is_identifier(name: &str) -> bool {
    let tail = |it: char| it.is_ascii_alphanumeric() || it == '_';
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') && name.chars().all(tail)
}

/// One render.
struct PromptRenderer<'a> {
    templating: &'a TemplateEngine,
    variables: TemplateVariables,
    inputs: &'a PromptInputs,
}

impl PromptRenderer<'_> {
    fn render_messages(&self, template: &Template) -> Rendered<Vec<Arc<ChatMessage>>> {
        let segments = match template {
            Template::Text(text) => {
                let text = self.render_non_empty_text(text)?;
                return Ok(vec![Arc::new(ChatMessage::user(text))]);
            }
            Template::Chat(segments) => segments,
        };
        check_segments(segments)?;
        let mut messages = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            let place = SegmentLocation::from_segment(at, segment);
            match segment {
                ChatSegment::Content { role, content } => {
                    messages.push(Arc::new(self.render_segment(*role, content, place)?));
                }
                ChatSegment::Placeholder { name } => {
                    let given = self.inputs.placeholders.get(name);
                    let given = given.ok_or_else(|| place.describe_fault("no messages were given for it"))?;
                    messages.extend(given.iter().cloned());
                }
            }
        }
        if messages.is_empty() { Err("the list of rendered messages is empty".into()) } else { Ok(messages) }
    }

    fn render_segment(
        &self,
        role: SegmentRole,
        content: &SegmentContent,
        place: SegmentLocation,
    ) -> Rendered<ChatMessage> {
        let content = match content {
            SegmentContent::Text(text) => MessageContent::Text(
                self.render_non_empty_text(text).map_err(|error| place.describe_fault(error))?,
            ),
            SegmentContent::Blocks(blocks) => {
                let mut place = place;
                let blocks = blocks.iter().enumerate().map(|(at, block)| {
                    place.block = Some(at);
                    self.render_block(block).map_err(|error| place.describe_fault(error))
                });
                MessageContent::Blocks(blocks.collect::<Rendered<_>>()?)
            }
        };
        let (tool_calls, tool_call_id) = (Vec::new(), None);
        Ok(ChatMessage { role: role.as_role(), content, tool_calls, tool_call_id })
    }

    fn render_block(&self, block: &BlockTemplate) -> Rendered<ContentBlock> {
        Ok(match block {
            BlockTemplate::Text { text } => ContentBlock::from_text(self.render_non_empty_text(text)?),
            BlockTemplate::Image { source, detail } => {
                let (source, media_type) = match source {
                    ImageTemplate::Url { url, media_type } => {
                        (ImageContentSource::Url { url: self.render_text(url)? }, media_type.clone())
                    }
                    ImageTemplate::Inline { base64_data, media_type } => {
                        let base64_data = self.render_text(base64_data)?;
                        (ImageContentSource::Inline { base64_data }, Some(self.render_text(media_type)?))
                    }
                };
                ContentBlock::Image { source, media_type, detail: *detail }
            }
        })
    }

    fn render_text(&self, template: &str) -> Rendered<String> {
        self.templating.render_template(template, &self.variables)
    }

    /// Renders text that must not be empty: no character at all; blanks count.
    fn render_non_empty_text(&self, template: &str) -> Rendered<String> {
        let text = self.render_text(template)?;
        if text.is_empty() { Err("the rendered text is empty".into()) } else { Ok(text) }
    }
}
