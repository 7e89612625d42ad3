//! The body of a prompt's file: text, or segments between markers.

use std::collections::BTreeSet;

use serde::Deserialize;
use singletree_llm::ImageDetailLevel;

use super::header::PromptFileMistake;
use crate::render::is_identifier;
use crate::template::{BlockTemplate, ChatSegment, ImageTemplate, SegmentContent, SegmentRole, Template};

type Read<T> = Result<T, PromptFileMistake>;

/// The escaped `[[` at the beginning of a line that is no marker.
const ESCAPED: &str = "\\[[";

/// Reads a body whose first line has this number.
pub(super) fn parse_body(body: &str, first_line: usize) -> Read<Template> {
    let lines: Vec<(usize, &str)> = (first_line..).zip(body.lines()).collect();
    let Some((line, begin)) = lines.iter().find(|(_, it)| !it.trim().is_empty()) else {
        return Err(PromptFileMistake::at_line(first_line, "there is no template"));
    };
    if parse_marker(begin).is_none() {
        return Ok(Template::Text(join_text_lines(&lines)));
    }
    let mut reader = PromptBodyParser { segments: Vec::new(), names: BTreeSet::new(), open: None };
    for (line, it) in lines.iter().skip_while(|(it, _)| it < line) {
        match parse_marker(it) {
            Some(marker) => reader.read_marker(*line, marker)?,
            None => reader.add_text_line(*line, it)?,
        }
    }
    reader.close_segment()?;
    Ok(Template::Chat(reader.segments))
}

/// Returns the content of a marker.
fn parse_marker(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("[[")?.strip_suffix("]]").map(str::trim)
}

/// Joins lines without the blank ones around them.
fn join_text_lines(lines: &[(usize, &str)]) -> String {
    let is_blank = |(_, it): &&(usize, &str)| it.trim().is_empty();
    let before = lines.iter().take_while(is_blank).count();
    let after = lines[before..].iter().rev().take_while(is_blank).count();
    let plain = lines[before..lines.len() - after].iter().map(|(_, it)| match it.strip_prefix(ESCAPED) {
        Some(rest) => format!("[[{rest}"),
        None => (*it).to_owned(),
    });
    plain.collect::<Vec<_>>().join("\n")
}

/// A segment that is being read.
struct OpenSegment<'a> {
    line: usize,
    role: SegmentRole,
    blocks: Vec<BlockTemplate>,
    has_image: bool,
    lines: Vec<(usize, &'a str)>,
}

impl OpenSegment<'_> {
    /// Makes a block of the lines since the last one.
    fn end_text_block(&mut self) {
        let text = join_text_lines(&self.lines);
        self.lines.clear();
        if !text.is_empty() {
            self.blocks.push(BlockTemplate::Text { text });
        }
    }
}

struct PromptBodyParser<'a> {
    segments: Vec<ChatSegment>,
    names: BTreeSet<&'a str>,
    open: Option<OpenSegment<'a>>,
}

impl<'a> PromptBodyParser<'a> {
    fn read_marker(&mut self, line: usize, marker: &'a str) -> Read<()> {
        let (word, rest) = marker.split_once(char::is_whitespace).unwrap_or((marker, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("system", "") => self.begin_segment(line, SegmentRole::System),
            ("user", "") => self.begin_segment(line, SegmentRole::User),
            ("assistant", "") => self.begin_segment(line, SegmentRole::Assistant),
            ("placeholder", name) => self.add_placeholder(line, name),
            ("image", fields) => self.add_image_block(line, fields),
            _ => {
                let known = "system, user, assistant, placeholder NAME, image ...";
                let what = format!("unknown marker [[{marker}]]: there are {known}; text begins with \\[[");
                Err(PromptFileMistake::at_line(line, what))
            }
        }
    }

    fn begin_segment(&mut self, line: usize, role: SegmentRole) -> Read<()> {
        self.close_segment()?;
        self.open = Some(OpenSegment { line, role, blocks: Vec::new(), has_image: false, lines: Vec::new() });
        Ok(())
    }

    fn add_placeholder(&mut self, line: usize, name: &'a str) -> Read<()> {
        self.close_segment()?;
        if !is_identifier(name) {
            let what = format!("a placeholder's name is letters, digits and underscores, not {name:?}");
            return Err(PromptFileMistake::at_line(line, what));
        }
        if !self.names.insert(name) {
            return Err(PromptFileMistake::at_line(line, format!("the placeholder {name:?} is there twice")));
        }
        self.segments.push(ChatSegment::placeholder(name));
        Ok(())
    }

    fn add_image_block(&mut self, line: usize, fields: &str) -> Read<()> {
        let block = parse_image_block(fields).map_err(|error| PromptFileMistake::at_line(line, error))?;
        match &mut self.open {
            Some(open) if open.role == SegmentRole::User => {
                open.end_text_block();
                open.blocks.push(block);
                open.has_image = true;
                Ok(())
            }
            Some(_) | None => Err(PromptFileMistake::at_line(line, "an image stands in a segment [[user]]")),
        }
    }

    fn add_text_line(&mut self, line: usize, text: &'a str) -> Read<()> {
        match &mut self.open {
            Some(open) => open.lines.push((line, text)),
            None if text.trim().is_empty() => {}
            None => {
                return Err(PromptFileMistake::at_line(
                    line,
                    "text stands in a segment: begin one, as [[user]]",
                ));
            }
        }
        Ok(())
    }

    fn close_segment(&mut self) -> Read<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.end_text_block();
        let content = match open.blocks.pop() {
            None => return Err(PromptFileMistake::at_line(open.line, "the segment is empty")),
            Some(BlockTemplate::Text { text }) if !open.has_image => SegmentContent::Text(text),
            Some(last) => {
                open.blocks.push(last);
                SegmentContent::Blocks(open.blocks)
            }
        };
        self.segments.push(ChatSegment::Content { role: open.role, content });
        Ok(())
    }
}

/// The fields of an image's marker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageFields {
    url: Option<String>,
    base64_data: Option<String>,
    media_type: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ImageLine {
    image: ImageFields,
}

fn parse_image_block(fields: &str) -> Result<BlockTemplate, String> {
    let line: ImageLine =
        toml::from_str(&format!("image = {{ {fields} }}")).map_err(|error| error.message().to_owned())?;
    let ImageFields { url, base64_data, media_type, detail } = line.image;
    let source = match (url, base64_data, media_type) {
        (Some(url), None, media_type) => ImageTemplate::Url { url, media_type },
        (None, Some(base64_data), Some(media_type)) => ImageTemplate::Inline { base64_data, media_type },
        (None, Some(_), None) => return Err("an image with base64_data needs its media_type".into()),
        (Some(_), Some(_), _) | (None, None, _) => {
            return Err("an image has either url or base64_data".into());
        }
    };
    let detail = match detail.as_deref() {
        None => None,
        Some("auto") => Some(ImageDetailLevel::Auto),
        Some("low") => Some(ImageDetailLevel::Low),
        Some("high") => Some(ImageDetailLevel::High),
        Some(other) => return Err(format!("an image's detail is auto, low or high, not {other:?}")),
    };
    Ok(BlockTemplate::Image { source, detail })
}
