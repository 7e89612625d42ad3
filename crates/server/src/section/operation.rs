//! The description of a route in the OpenAPI document, as data.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::forward::KeyUse;

/// Makes the schema of a type, in a document whose shared schemas the generator collects.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Makes the schema of a type.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The content of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BodyContent {
    /// JSON of a shape.
    Json(SchemaOf),
    /// Server-sent events, each with JSON of a shape as its data.
    Events(SchemaOf),
    /// Something else, of this media type.
    Bytes(&'static str),
    /// Nothing.
    Empty,
}

/// One way to answer.
#[derive(Debug, Clone)]
pub(crate) struct OperationResponse {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) content: BodyContent,
}

/// A header that an operation reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationHeader {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The values that it may have; any, if there are none.
    pub(crate) values: &'static [&'static str],
}

/// The description of a route in the OpenAPI document. How to write one: [`section`](super).
#[derive(Debug, Clone)]
pub(crate) struct ApiOperation {
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) about: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) headers: Vec<OperationHeader>,
    pub(crate) body: BodyContent,
    pub(crate) answers: Vec<OperationResponse>,
    pub(crate) fails: Vec<u16>,
    /// Whether the route answers 404 if the resource in its path does not exist.
    pub(crate) can_miss: bool,
    /// The advice with which an `Idempotency-Key` is refused, where it is.
    pub(crate) instead_of_key: Option<&'static str>,
}

impl ApiOperation {
    /// Makes an operation of its id, which names the method in generated clients, and a short summary.
    pub(crate) fn new(id: &'static str, summary: &'static str) -> Self {
        let (query, headers, body) = (None, Vec::new(), BodyContent::Empty);
        let (answers, fails, can_miss, instead_of_key) = (Vec::new(), Vec::new(), true, None);
        Self {
            id,
            summary,
            about: "",
            tag: "",
            query,
            headers,
            body,
            answers,
            fails,
            can_miss,
            instead_of_key,
        }
    }

    /// Returns its use of an idempotency key.
    pub(crate) fn key_use(&self) -> KeyUse {
        let is_key = |header: &OperationHeader| header.name.eq_ignore_ascii_case("idempotency-key");
        if self.headers.iter().any(is_key) { KeyUse::Documented } else { KeyUse::None }
    }

    /// Says more, in Markdown.
    pub(crate) fn with_description(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Puts it under a heading.
    pub(crate) fn with_tag(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    /// Takes parameters in the query: the properties of the type that the handler deserializes them into.
    pub(crate) fn with_query_type<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema_of::<T>);
        self
    }

    /// Takes a header, which is never required.
    pub(crate) fn with_header(self, name: &'static str, about: &'static str) -> Self {
        self.with_header_values(name, about, &[])
    }

    /// Reads a header that has one of these values.
    pub(crate) fn with_header_values(
        mut self,
        name: &'static str,
        about: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        self.headers.push(OperationHeader { name, about, values });
        self
    }

    /// Takes JSON.
    pub(crate) fn with_json_body<T: JsonSchema>(mut self) -> Self {
        self.body = BodyContent::Json(schema_of::<T>);
        self
    }

    /// Takes bytes of a media type.
    pub(crate) fn with_bytes_body(mut self, media_type: &'static str) -> Self {
        self.body = BodyContent::Bytes(media_type);
        self
    }

    /// Answers with JSON.
    pub(crate) fn with_json_response<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.push_response(status, about, BodyContent::Json(schema_of::<T>))
    }

    /// Answers with server-sent events, each with JSON as its data; also beside JSON, under one status.
    pub(crate) fn with_event_response<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.push_response(status, about, BodyContent::Events(schema_of::<T>))
    }

    /// Answers with bytes of a media type.
    pub(crate) fn with_bytes_response(
        self,
        status: u16,
        media_type: &'static str,
        about: &'static str,
    ) -> Self {
        self.push_response(status, about, BodyContent::Bytes(media_type))
    }

    /// Answers with nothing but a status.
    pub(crate) fn with_empty_response(self, status: u16, about: &'static str) -> Self {
        self.push_response(status, about, BodyContent::Empty)
    }

    /// Adds statuses of problems, beside those that its access, its path and its body bring.
    pub(crate) fn with_error_statuses(mut self, statuses: &[u16]) -> Self {
        self.fails.extend_from_slice(statuses);
        self
    }

    /// Refuses an `Idempotency-Key`, which would have no effect, with an advice.
    pub(crate) fn refuse_idempotency_key(mut self, instead: &'static str) -> Self {
        self.instead_of_key = Some(instead);
        self
    }

    /// Tells whether it answers with events or with one document, by `Accept`.
    pub(crate) fn negotiates_content(&self) -> bool {
        let is = |kind: fn(&BodyContent) -> bool| self.answers.iter().any(|answer| kind(&answer.content));
        is(|content| matches!(content, BodyContent::Events(_)))
            && is(|content| matches!(content, BodyContent::Json(_)))
    }

    /// Declares that the response does not depend on whether the resource in the path exists.
    pub(crate) fn without_not_found(mut self) -> Self {
        self.can_miss = false;
        self
    }

    fn push_response(mut self, status: u16, about: &'static str, content: BodyContent) -> Self {
        self.answers.push(OperationResponse { status, about, content });
        self
    }
}
