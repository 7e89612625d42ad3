//! The OpenAPI 3.1 document: one object, made of the routes' tables.

use serde_json::{Map, Value, json};
use singletree_protocol::native;

use super::schemas::OpenApiSchemas;
use crate::section::{
    ApiOperation, ApiRoute, BodyContent, OperationHeader, OperationResponse, RouteAccess, schema_of,
};

/// The description of the API in the document's `info`.
const ABOUT: &str = include_str!("about.txt");

/// Makes the document of all routes that are documented.
pub(super) fn build_openapi_document(routes: &[ApiRoute]) -> Value {
    let mut schemas = OpenApiSchemas::new();
    let mut paths = Map::new();
    let (mut tags, mut parameters) = (Vec::new(), Vec::new());
    let problem = schemas.response_schema(schema_of::<native::ErrorBody>);
    for route in routes {
        let Some(operation) = &route.operation else { continue };
        if !tags.contains(&operation.tag) {
            tags.push(operation.tag);
        }
        parameters.extend(operation.query);
        let described = describe_operation(route, operation, &mut schemas, &problem);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "singletree",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Durable conversations with agents.",
            "description": ABOUT,
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags.iter().map(|tag| json!({ "name": tag })).collect::<Value>(),
        "paths": paths,
        "components": {
            "schemas": schemas.into_shared_schemas(&parameters),
            "securitySchemes": { "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "A key of `singletree keys create`, or a token of an issuer that the server trusts.",
            } },
        },
    })
}

fn describe_operation(
    route: &ApiRoute,
    operation: &ApiOperation,
    schemas: &mut OpenApiSchemas,
    problem: &Value,
) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "security": match route.access {
            RouteAccess::Open => json!([]),
            RouteAccess::Keyed => json!([{ "key": [] }]),
        },
        "responses": describe_responses(route, operation, schemas, problem),
    });
    let scope = route.scope.map(|scope| format!("Needs the scope `{scope}`.")).unwrap_or_default();
    let about = [operation.about, &scope]
        .into_iter()
        .filter(|item| !item.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n");
    if !about.is_empty() {
        described["description"] = about.into();
    }
    let parameters = describe_parameters(route, operation, schemas);
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some((kind, mut schema)) = describe_content(operation.body, |of| schemas.request_schema(of)) {
        if let BodyContent::Bytes(_) = operation.body {
            schema["minLength"] = json!(1);
        }
        let is_required =
            matches!(operation.body, BodyContent::Bytes(_)) || has_required_fields(operation, schemas);
        described["requestBody"] =
            json!({ "required": is_required, "content": { kind: { "schema": schema } } });
    }
    described
}

/// Tells whether a body has to have fields: without, none is needed.
fn has_required_fields(operation: &ApiOperation, schemas: &mut OpenApiSchemas) -> bool {
    match operation.body {
        BodyContent::Json(of) => schemas.request_properties(of).iter().any(|property| property.2),
        BodyContent::Events(_) | BodyContent::Bytes(_) | BodyContent::Empty => false,
    }
}

fn describe_parameters(
    route: &ApiRoute,
    operation: &ApiOperation,
    schemas: &mut OpenApiSchemas,
) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = names
        .map(|name| {
            let about = describe_path_parameter(name);
            let schema = match name {
                "session" => json!({ "type": "string", "pattern": native::ID_PATTERN }),
                _ => json!({ "type": "string", "minLength": 1, "maxLength": 512 }),
            };
            json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema })
        })
        .collect();
    for (name, mut schema, required) in
        operation.query.map(|query| schemas.request_properties(query)).unwrap_or_default()
    {
        let about =
            schema.as_object_mut().and_then(|object| object.remove("description")).unwrap_or_default();
        all.push(json!({ "name": name, "in": "query", "required": required, "description": about, "schema": schema }));
    }
    all.extend(operation.headers.iter().map(|OperationHeader { name, about, values }| {
        let schema = match values {
            [] => json!({ "type": "string" }),
            values => json!({ "type": "string", "enum": values }),
        };
        json!({ "name": name, "in": "header", "required": false, "description": about, "schema": schema })
    }));
    all
}

/// Returns the description of a path parameter with a usual name.
fn describe_path_parameter(name: &str) -> &'static str {
    match name {
        "session" => "The session's id.",
        "turn" => "The turn's id.",
        "signal" => "The signal's id, as the wait names it.",
        _ => "Which one.",
    }
}

fn describe_responses(
    route: &ApiRoute,
    operation: &ApiOperation,
    schemas: &mut OpenApiSchemas,
    problem: &Value,
) -> Map<String, Value> {
    let mut all = Map::new();
    for answer in &operation.answers {
        add_response(&mut all, answer, schemas);
    }
    let has_body = !matches!(operation.body, BodyContent::Empty);
    let is_keyed = route.access == RouteAccess::Keyed;
    let usual = [
        (400, is_keyed),
        (401, is_keyed),
        (403, route.scope.is_some()),
        (404, route.path.contains('{') && operation.can_miss),
        (413, has_body),
        (415, matches!(operation.body, BodyContent::Json(_))),
        (429, is_keyed),
        (503, is_keyed),
    ];
    let usual = usual.into_iter().filter(|it| it.1).map(|it| it.0);
    for status in usual.chain(operation.fails.iter().copied()) {
        all.entry(status.to_string()).or_insert_with(|| describe_failure(status, problem));
    }
    all.insert(
        "default".into(),
        json!({
            "description": "Whatever else goes wrong.",
            "content": { "application/json": { "schema": problem } },
        }),
    );
    all
}

/// Adds an answer beside others of its status.
fn add_response(all: &mut Map<String, Value>, answer: &OperationResponse, schemas: &mut OpenApiSchemas) {
    let response =
        all.entry(answer.status.to_string()).or_insert_with(|| json!({ "description": answer.about }));
    if matches!(answer.status, 201 | 202) {
        response["headers"]["Location"] =
            json!({ "description": "Where it is.", "schema": { "type": "string" } });
    }
    let Some((kind, schema)) = describe_content(answer.content, |of| schemas.response_schema(of)) else {
        return;
    };
    let media = &mut response["content"][kind];
    match answer.content {
        BodyContent::Events(_) => {
            *media = json!({ "schema": { "type": "string" }, "x-event": schema });
        }
        BodyContent::Json(_) | BodyContent::Bytes(_) | BodyContent::Empty => match media.get_mut("schema") {
            None => *media = json!({ "schema": schema }),
            Some(other) => *other = json!({ "anyOf": [other.take(), schema] }),
        },
    }
}

fn describe_content(
    content: BodyContent,
    schema: impl FnOnce(crate::section::SchemaOf) -> Value,
) -> Option<(&'static str, Value)> {
    match content {
        BodyContent::Json(of) => Some(("application/json", schema(of))),
        BodyContent::Events(of) => Some(("text/event-stream", schema(of))),
        BodyContent::Bytes("application/json") => Some(("application/json", json!({ "type": "object" }))),
        BodyContent::Bytes(kind) => Some((kind, json!({ "type": "string", "contentMediaType": kind }))),
        BodyContent::Empty => None,
    }
}

fn describe_failure(status: u16, problem: &Value) -> Value {
    let about = match status {
        400 => "The request is not right: the error says where.",
        401 => "A valid key is needed.",
        403 => "The key lacks the scope.",
        404 => "There is nothing of this name, or it is somebody else's: both are answered alike.",
        409 => "It conflicts with what is there.",
        410 => "Its time is over.",
        413 => "It is larger than allowed.",
        415 => "It is of a type that is not taken here.",
        429 => "Too much at once: `Retry-After` says when to try again.",
        503 => "Not now: `Retry-After` says when to try again.",
        _ => "It failed.",
    };
    let mut failed =
        json!({ "description": about, "content": { "application/json": { "schema": problem } } });
    if matches!(status, 429 | 503) {
        let schema = json!({ "type": "integer", "minimum": 0 });
        failed["headers"]["Retry-After"] = json!({ "description": "In so many seconds.", "schema": schema });
    }
    failed
}
