//! Reading prompts: templates, segments, blocks, sampling.

use serde_json::Value;
use singletree::llm::{ImageDetailLevel, RuntimeConfig};
use singletree::prompts::{
    BlockTemplate, ChatSegment, ImageTemplate, Prompt, SegmentContent, SegmentRole, Template, TokenBudget,
};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::literals;
use crate::yaml::YamlValue;

/// Reads a prompt of a backend.
pub(super) fn prompt(spot: LocatedNode) -> Outcome<Prompt> {
    let path = spot.path.clone();
    let mut block = spot.fields()?;
    let name = block.need("name")?.text()?.to_owned();
    let version = block.need("version")?.text()?.to_owned();
    let template = match (block.take("template"), block.take("chat_template")) {
        (Some(text), None) => Template::Text(text.text()?.to_owned()),
        (None, Some(list)) => Template::Chat(list.items()?.into_iter().map(segment).collect::<Outcome<_>>()?),
        (Some(_), Some(_)) | (None, None) => {
            return Err(CaseFailure::reader(path, "a prompt has either 'template' or 'chat_template'"));
        }
    };
    let mut prompt = Prompt::new(name, version, template);
    if let Some(label) = block.text("label")? {
        prompt = prompt.with_label(label);
    }
    if let Some(hash) = block.text("template_hash")? {
        prompt = prompt.with_template_hash(hash);
    }
    if let Some(config) = block.take("sampling").filter(|value| !value.is_null()) {
        prompt = prompt.with_sampling(sampling(config)?);
    }
    // The raw configuration, which the backend must read as far as it makes sense (§5).
    if let Some(budget) =
        block.take("token_budget").and_then(|value| TokenBudget::from_config(&value.node.to_json()))
    {
        prompt = prompt.with_token_budget(budget);
    }
    if let Some(entities) = block.take("observability_entities").filter(|value| !value.is_null()) {
        prompt = prompt.with_observability_entities(literals(entities)?);
    }
    if let Some(metadata) = block.take("metadata").filter(|value| !value.is_null()) {
        prompt = prompt.with_metadata(literals(metadata)?);
    }
    block.finish()?;
    Ok(prompt)
}

/// Reads the configuration of sampling: the declared fields, and every other one into the extras (§5).
fn sampling(spot: LocatedNode) -> Outcome<RuntimeConfig> {
    let mut block = spot.fields()?;
    let mut take = |key: &str| block.take(key).filter(|value| !value.is_null());
    let mut config = RuntimeConfig {
        temperature: take("temperature").map(|it| it.number()).transpose()?,
        max_tokens: take("max_tokens").map(|it| count(&it)).transpose()?,
        top_p: take("top_p").map(|it| it.number()).transpose()?,
        seed: take("seed").map(|it| it.whole()).transpose()?,
        frequency_penalty: take("frequency_penalty").map(|it| it.number()).transpose()?,
        presence_penalty: take("presence_penalty").map(|it| it.number()).transpose()?,
        stop_sequences: take("stop_sequences").map(LocatedNode::texts).transpose()?,
        extras: take("extras").map(literals).transpose()?.unwrap_or_default(),
    };
    while let Some((key, value)) = block.next() {
        config.extras.insert(key, value.node.to_json());
    }
    Ok(config)
}

/// Reads a number from 0 on.
pub(super) fn count(spot: &LocatedNode) -> Outcome<u64> {
    u64::try_from(spot.whole()?).map_err(|_| spot.wrong("a number from 0 on"))
}

fn segment(spot: LocatedNode) -> Outcome<ChatSegment> {
    let mut block = spot.fields()?;
    if let Some(name) = block.text("placeholder")? {
        block.finish()?;
        return Ok(ChatSegment::placeholder(name));
    }
    let role = block.need("role")?;
    let role = match role.text()? {
        "system" => SegmentRole::System,
        "user" => SegmentRole::User,
        "assistant" => SegmentRole::Assistant,
        _ => return Err(role.wrong("system, user or assistant")),
    };
    let content = block.need("content")?;
    let content = match &content.node.value {
        YamlValue::List(_) => {
            SegmentContent::Blocks(content.items()?.into_iter().map(block_of).collect::<Outcome<_>>()?)
        }
        _ => SegmentContent::Text(content.text()?.to_owned()),
    };
    block.finish()?;
    Ok(ChatSegment::Content { role, content })
}

fn block_of(spot: LocatedNode) -> Outcome<BlockTemplate> {
    let mut block = spot.fields()?;
    let kind = block.need("type")?;
    let read = match kind.text()? {
        "text" => BlockTemplate::Text { text: block.need("text")?.text()?.to_owned() },
        "image" => image(&mut block)?,
        _ => return Err(kind.wrong("text or image")),
    };
    block.finish()?;
    Ok(read)
}

fn image(block: &mut YamlMapReader) -> Outcome<BlockTemplate> {
    let mut source = block.need("source")?.fields()?;
    let kind = source.need("type")?;
    let read = match kind.text()? {
        "url" => ImageTemplate::Url {
            url: source.need("url")?.text()?.to_owned(),
            media_type: block.text("media_type")?,
        },
        "inline" => ImageTemplate::Inline {
            base64_data: source.need("base64_data")?.text()?.to_owned(),
            media_type: block.need("media_type")?.text()?.to_owned(),
        },
        _ => return Err(kind.wrong("url or inline")),
    };
    source.finish()?;
    let detail = match block.take("detail") {
        None => None,
        Some(spot) => Some(match spot.node.to_json() {
            Value::String(it) if it == "auto" => ImageDetailLevel::Auto,
            Value::String(it) if it == "low" => ImageDetailLevel::Low,
            Value::String(it) if it == "high" => ImageDetailLevel::High,
            _ => return Err(spot.wrong("auto, low or high")),
        }),
    };
    Ok(BlockTemplate::Image { source: read, detail })
}
