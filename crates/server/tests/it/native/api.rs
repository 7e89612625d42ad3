//! A client that holds the server to its word: no answer that its document does not describe.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Events, Rig};

/// Somebody who has read the document.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) client: Client,
    document: Arc<Value>,
    /// The server, where nobody else holds it.
    #[expect(dead_code, reason = "it is held so that it goes on")]
    rig: Option<Arc<Rig>>,
}

impl Api {
    /// Starts a server as usual, and reads its document.
    pub(crate) async fn start() -> Self {
        let rig = Arc::new(Rig::start().await);
        Self { rig: Some(rig.clone()), ..Self::of(&rig).await }
    }

    /// Reads the document of a rig's server.
    pub(crate) async fn of(rig: &Rig) -> Self {
        Self::with(rig.client()).await
    }

    pub(crate) async fn with(client: Client) -> Self {
        let document = client.get("/openapi.json").await.json();
        Self { client, document: document.into(), rig: None }
    }

    /// Sends this header with every request.
    pub(crate) fn header(&self, name: &str, value: &str) -> Self {
        Self { client: self.client.clone().with(name, value), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.checked("get", path, self.client.get(path).await)
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.checked("delete", path, self.client.delete(path).await)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.checked("post", path, self.client.post(path, &body).await)
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.checked("put", path, self.client.send(hyper::Method::PUT, path, Some(&body)).await)
    }

    /// Sends a message and returns how its turn ended.
    pub(crate) async fn send(&self, session: &str, text: &str) -> Value {
        let answer = self.post(&format!("/v1/sessions/{session}/messages"), json!({ "content": text })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Opens the stream of a session's events, from after the one that was seen last.
    pub(crate) async fn follow(&self, session: &str, last: Option<&str>) -> Events {
        let events = self.client.events(&format!("/v1/sessions/{session}/events"), last).await;
        assert_eq!(events.status, 200);
        events
    }

    /// Checks a frame's data.
    pub(crate) fn is_event(&self, data: &Value) {
        self.is_item(data, "StreamItem");
    }

    /// Checks a frame's data against the schema of this name.
    pub(crate) fn is_item(&self, data: &Value, schema: &str) {
        self.fits(data, &json!({ "$ref": format!("#/components/schemas/{schema}") }), "a frame");
    }

    fn checked(&self, method: &str, path: &str, answer: Answer) -> Answer {
        let place = path.split('?').next().unwrap_or_default();
        let operation = self.operation(method, place);
        let told = format!("{method} {path} -> {}: {}", answer.status, answer.text());
        let responses = &operation["responses"];
        let response =
            responses.get(answer.status.to_string()).unwrap_or_else(|| panic!("undescribed: {told}"));
        match response.get("content") {
            None => assert!(answer.body.is_empty(), "{told}"),
            Some(content) => {
                let kind = answer.header("content-type").split(';').next().unwrap();
                let media = content.get(kind).unwrap_or_else(|| panic!("{kind} is undescribed: {told}"));
                if kind == "application/json" {
                    self.fits(&answer.json(), &media["schema"], &told);
                }
            }
        }
        assert!(answer.headers.contains_key("x-request-id"), "{told}");
        answer
    }

    fn operation(&self, method: &str, path: &str) -> &Value {
        let paths = self.document["paths"].as_object().unwrap();
        let fits = |template: &str| {
            let (a, b) = (template.split('/'), path.split('/'));
            a.clone().count() == b.clone().count() && a.zip(b).all(|(a, b)| a.starts_with('{') || a == b)
        };
        // A word goes before a name.
        let mut found: Vec<_> = paths.iter().filter(|(template, _)| fits(template)).collect();
        found.sort_by_key(|(template, _)| template.matches('{').count());
        let operation = found.first().and_then(|(_, it)| it.get(method));
        operation.unwrap_or_else(|| panic!("{method} {path} is not in the document"))
    }

    fn fits(&self, value: &Value, schema: &Value, told: &str) {
        let mut root = schema.clone();
        root["components"] = self.document["components"].clone();
        let validator = jsonschema::draft202012::new(&root).unwrap();
        let errors: Vec<_> = validator.iter_errors(value).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{told}\n{errors:?}\n{value:#}");
    }
}

/// Leaves out the values that differ in each run: times, ids of requests.
pub(crate) fn bare(mut value: Value) -> Value {
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("request_id");
            map.values_mut().for_each(strip);
        }
        Value::Array(all) => all.iter_mut().for_each(strip),
        _ => {}
    }
}
