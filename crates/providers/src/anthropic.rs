//! Anthropic Messages (spec: llm-provider §8.2). Streaming is our extension: the specification's mapping has none.
//!
//! Whose a signature is, nothing in a message says; where it stands does. Anthropic signs thinking, Gemini signs text and
//! calls, and nobody else signs. So signed thinking and redacted thinking go to Anthropic, everything else that only another
//! provider can have made is stripped (spec: llm-provider §3.1.7).

mod compose;
mod fold;
mod messages;
mod read;
mod refuse;
mod withheld;

use serde_json::Value;
use singletree_llm::{Error, Request, Response, Result};

use crate::answer::invalid;
use crate::mapping::{Composed, Decoder, Manner, Mapping, Refusal};
use crate::path;

/// Which version of the protocol is spoken.
const VERSION: &str = "2023-06-01";

/// The protocol of Anthropic.
#[derive(Debug)]
pub(crate) struct Anthropic;

impl Mapping for Anthropic {
    fn headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        let version = ("anthropic-version".to_owned(), VERSION.to_owned());
        let key = key.map(|it| ("x-api-key".to_owned(), it.to_owned()));
        [Some(version), key].into_iter().flatten().collect()
    }

    fn compose(&self, model: &str, request: &Request, manner: Manner) -> Result<Composed> {
        compose::compose(model, request, manner)
    }

    fn read(&self, body: Value, composed: &Composed) -> Result<Response> {
        read::read(body, composed.answer_tool.as_deref())
    }

    fn refuse(&self, refusal: &Refusal<'_>) -> Error {
        refuse::refuse(refusal)
    }

    fn decoder(&self, composed: &Composed) -> Box<dyn Decoder> {
        Box::new(read::Events::new(composed.answer_tool.as_deref()))
    }

    fn probe(&self, model: &str) -> String {
        format!("/v1/models/{}", path::segment(model))
    }

    // An alias is answered with the model that it stands for: the id need not be ours.
    fn read_probe(&self, _: &str, body: &Value) -> Result<()> {
        match body.get("id") {
            Some(Value::String(_)) => Ok(()),
            Some(_) | None => Err(invalid("the answer describes no model")),
        }
    }
}

#[cfg(test)]
mod tests;
