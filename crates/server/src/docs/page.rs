//! The document as a page for people: HTML and one style sheet, no script.

mod html;
mod shape;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use html::{escape_html, render_prose};
use shape::{render_shape, render_short_type};

const STYLE: &str = include_str!("page.css");

/// Returns the Content-Security-Policy of the page: it may use its style sheet, and nothing else.
pub(super) fn content_security_policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// Writes the page.
pub(super) fn render_docs_page(document: &Value) -> String {
    let mut page = String::new();
    let info = &document["info"];
    let title = format!("{} {}", text_or_empty(&info["title"]), text_or_empty(&info["version"]));
    page += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += &format!("<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n", escape_html(&title));
    page += "<nav>\n";
    for (tag, operations) in group_operations_by_tag(document) {
        page += &format!("<h2>{}</h2>\n<ul>\n", escape_html(tag));
        for it in operations {
            let (id, summary) =
                (text_or_empty(&it.operation["operationId"]), text_or_empty(&it.operation["summary"]));
            page += &format!("<li><a href=\"#{}\">{}</a></li>\n", escape_html(id), escape_html(summary));
        }
        page += "</ul>\n";
    }
    page += "<h2><a href=\"#shapes\">shapes</a></h2>\n</nav>\n<main>\n";
    page +=
        &format!("<h1>{}</h1>\n{}", escape_html(&title), render_prose(text_or_empty(&info["description"])));
    page += "<p>The same for programs: <a href=\"/openapi.json\">/openapi.json</a>.</p>\n";
    for (tag, operations) in group_operations_by_tag(document) {
        page += &format!("<h2>{}</h2>\n", escape_html(tag));
        for it in operations {
            render_operation(&mut page, &it);
        }
    }
    render_all_shapes(&mut page, document);
    page += "</main>\n</body>\n</html>\n";
    page
}

/// One operation and where it is.
struct LocatedOperation<'a> {
    method: &'a str,
    path: &'a str,
    operation: &'a Value,
}

/// Returns the operations by their tags, both in the document's order.
fn group_operations_by_tag(document: &Value) -> Vec<(&str, Vec<LocatedOperation<'_>>)> {
    let tags = document["tags"].as_array().into_iter().flatten().map(|items| text_or_empty(&items["name"]));
    let all = || {
        object_members(&document["paths"]).flat_map(|(path, methods)| {
            object_members(methods).map(move |(method, operation)| LocatedOperation {
                method,
                path,
                operation,
            })
        })
    };
    tags.map(|tag| (tag, all().filter(|all| all.operation["tags"][0] == tag).collect())).collect()
}

fn render_operation(page: &mut String, placed: &LocatedOperation<'_>) {
    let LocatedOperation { method, path, operation } = placed;
    let (id, summary) = (
        escape_html(text_or_empty(&operation["operationId"])),
        escape_html(text_or_empty(&operation["summary"])),
    );
    *page += &format!("<section id=\"{id}\">\n<h3>{summary}</h3>\n");
    *page += &format!(
        "<p class=\"path\"><b class=\"{method}\">{}</b> <code>{}</code></p>\n",
        method.to_ascii_uppercase(),
        escape_html(path)
    );
    *page += &render_prose(text_or_empty(&operation["description"]));
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        *page += "<h4>Parameters</h4>\n<dl>\n";
        for it in parameters {
            let (name, place) =
                (escape_html(text_or_empty(&it["name"])), escape_html(text_or_empty(&it["in"])));
            let kind = render_short_type(&it["schema"]);
            let about = render_prose(text_or_empty(&it["description"]));
            *page += &format!("<dt><code>{name}</code> <i>{place}</i> {kind}</dt>\n<dd>{about}</dd>\n");
        }
        *page += "</dl>\n";
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let needed = if body["required"] == true { "" } else { ", or none" };
        *page += &format!("<h4>Body{needed}</h4>\n{}", render_media_types(&body["content"]));
    }
    *page += "<h4>Answers</h4>\n<dl>\n";
    for (status, response) in object_members(&operation["responses"]) {
        *page += &format!(
            "<dt><code>{}</code></dt>\n<dd>{}{}</dd>\n",
            escape_html(status),
            render_prose(text_or_empty(&response["description"])),
            render_media_types(&response["content"])
        );
    }
    *page += "</dl>\n</section>\n";
}

/// Writes the type of a body, one line for each media type.
fn render_media_types(content: &Value) -> String {
    let line = |(kind, media): (&str, &Value)| {
        let schema = media.get("x-event").unwrap_or(&media["schema"]);
        format!("<p class=\"media\"><code>{}</code> {}</p>\n", escape_html(kind), render_short_type(schema))
    };
    object_members(content).map(line).collect()
}

fn render_all_shapes(page: &mut String, document: &Value) {
    *page += "<h2 id=\"shapes\">shapes</h2>\n";
    for (name, schema) in object_members(&document["components"]["schemas"]) {
        let name = escape_html(name);
        *page +=
            &format!("<section id=\"shape-{name}\">\n<h3>{name}</h3>\n{}</section>\n", render_shape(schema));
    }
}

fn text_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn object_members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, it)| (name.as_str(), it))
}
