//! Reading prompts: templates, segments, blocks, sampling.

use serde_json::Value;
use singletree::llm::{ImageDetailLevel, RuntimeConfig};
use singletree::prompts::{
    BlockTemplate, ChatSegment, ImageTemplate, Prompt, SegmentContent, SegmentRole, Template, TokenBudget,
};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::parse_literals;
use crate::yaml::YamlValue;

/// Reads a prompt of a backend.
pub(super) fn parse_prompt(spot: LocatedNode) -> Outcome<Prompt> {
    let path = spot.path.clone();
    let mut block = spot.into_map_reader()?;
    let name = block.take_required("name")?.as_text()?.to_owned();
    let version = block.take_required("version")?.as_text()?.to_owned();
    let template = match (block.take_value("template"), block.take_value("chat_template")) {
        (Some(text), None) => Template::Text(text.as_text()?.to_owned()),
        (None, Some(list)) => {
            Template::Chat(list.into_items()?.into_iter().map(parse_segment).collect::<Outcome<_>>()?)
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(CaseFailure::reader_error(path, "a prompt has either 'template' or 'chat_template'"));
        }
    };
    let mut prompt = Prompt::new(name, version, template);
    if let Some(label) = block.take_text("label")? {
        prompt = prompt.with_label(label);
    }
    if let Some(hash) = block.take_text("template_hash")? {
        prompt = prompt.with_template_hash(hash);
    }
    if let Some(config) = block.take_value("sampling").filter(|value| !value.is_null()) {
        prompt = prompt.with_sampling(parse_sampling(config)?);
    }
    // The raw configuration, which the backend must read as far as it makes sense (§5).
    if let Some(budget) =
        block.take_value("token_budget").and_then(|value| TokenBudget::from_config(&value.node.to_json()))
    {
        prompt = prompt.with_token_budget(budget);
    }
    if let Some(entities) = block.take_value("observability_entities").filter(|value| !value.is_null()) {
        prompt = prompt.with_observability_entities(parse_literals(entities)?);
    }
    if let Some(metadata) = block.take_value("metadata").filter(|value| !value.is_null()) {
        prompt = prompt.with_metadata(parse_literals(metadata)?);
    }
    block.reject_remaining_keys()?;
    Ok(prompt)
}

/// Reads the configuration of sampling: the declared fields, and every other one into the extras (§5).
fn parse_sampling(spot: LocatedNode) -> Outcome<RuntimeConfig> {
    let mut block = spot.into_map_reader()?;
    let mut take = |key: &str| block.take_value(key).filter(|value| !value.is_null());
    let mut config = RuntimeConfig {
        temperature: take("temperature").map(|it| it.as_number()).transpose()?,
        max_tokens: take("max_tokens").map(|it| parse_count(&it)).transpose()?,
        top_p: take("top_p").map(|it| it.as_number()).transpose()?,
        seed: take("seed").map(|it| it.as_integer()).transpose()?,
        frequency_penalty: take("frequency_penalty").map(|it| it.as_number()).transpose()?,
        presence_penalty: take("presence_penalty").map(|it| it.as_number()).transpose()?,
        stop_sequences: take("stop_sequences").map(LocatedNode::into_texts).transpose()?,
        extras: take("extras").map(parse_literals).transpose()?.unwrap_or_default(),
    };
    while let Some((key, value)) = block.take_next_entry() {
        config.extras.insert(key, value.node.to_json());
    }
    Ok(config)
}

/// Reads a number from 0 on.
pub(super) fn parse_count(spot: &LocatedNode) -> Outcome<u64> {
    u64::try_from(spot.as_integer()?).map_err(|_| spot.unexpected_kind("a number from 0 on"))
}

fn parse_segment(spot: LocatedNode) -> Outcome<ChatSegment> {
    let mut block = spot.into_map_reader()?;
    if let Some(name) = block.take_text("placeholder")? {
        block.reject_remaining_keys()?;
        return Ok(ChatSegment::placeholder(name));
    }
    let role = block.take_required("role")?;
    let role = match role.as_text()? {
        "system" => SegmentRole::System,
        "user" => SegmentRole::User,
        "assistant" => SegmentRole::Assistant,
        _ => return Err(role.unexpected_kind("system, user or assistant")),
    };
    let content = block.take_required("content")?;
    let content = match &content.node.value {
        YamlValue::List(_) => SegmentContent::Blocks(
            content.into_items()?.into_iter().map(parse_block_template).collect::<Outcome<_>>()?,
        ),
        _ => SegmentContent::Text(content.as_text()?.to_owned()),
    };
    block.reject_remaining_keys()?;
    Ok(ChatSegment::Content { role, content })
}

fn parse_block_template(spot: LocatedNode) -> Outcome<BlockTemplate> {
    let mut block = spot.into_map_reader()?;
    let kind = block.take_required("type")?;
    let read = match kind.as_text()? {
        "text" => BlockTemplate::Text { text: block.take_required("text")?.as_text()?.to_owned() },
        "image" => take_image_template(&mut block)?,
        _ => return Err(kind.unexpected_kind("text or image")),
    };
    block.reject_remaining_keys()?;
    Ok(read)
}

fn take_image_template(block: &mut YamlMapReader) -> Outcome<BlockTemplate> {
    let mut source = block.take_required("source")?.into_map_reader()?;
    let kind = source.take_required("type")?;
    let read = match kind.as_text()? {
        "url" => ImageTemplate::Url {
            url: source.take_required("url")?.as_text()?.to_owned(),
            media_type: block.take_text("media_type")?,
        },
        "inline" => ImageTemplate::Inline {
            base64_data: source.take_required("base64_data")?.as_text()?.to_owned(),
            media_type: block.take_required("media_type")?.as_text()?.to_owned(),
        },
        _ => return Err(kind.unexpected_kind("url or inline")),
    };
    source.reject_remaining_keys()?;
    let detail = match block.take_value("detail") {
        None => None,
        Some(spot) => Some(match spot.node.to_json() {
            Value::String(it) if it == "auto" => ImageDetailLevel::Auto,
            Value::String(it) if it == "low" => ImageDetailLevel::Low,
            Value::String(it) if it == "high" => ImageDetailLevel::High,
            _ => return Err(spot.unexpected_kind("auto, low or high")),
        }),
    };
    Ok(BlockTemplate::Image { source: read, detail })
}
