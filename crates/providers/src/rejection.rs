//! Whether a server refused a content block, by its own words.

/// Says whether a message of a server means that the model does not take a block of the request (spec: llm-provider
/// §8.1.3, §8.2.3, §8.3.3). No vendor has a code for it.
pub(crate) fn names_a_block(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let block = says(&["image", "audio", "multimodal", "content block", "content type"])
        || says(&["media type", "media_type", "mime type", "mimetype", "file uri"]);
    let refused = says(&["not support", "unsupported", "not accept", "not allowed"])
        || says(&["only text", "no vision", "could not process"]);
    block && refused
}
