//! The message that a client builds from a stream: by the rules of `ai` 5. The tests with the client itself prove the
//! rules.

use serde_json::{Map, Value, json};

/// A message on its way.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) message: Value,
    pub(super) errors: Vec<String>,
}

impl Page {
    /// Reads a whole stream into a message of its own.
    pub(super) fn of(parts: &[Value]) -> Self {
        Self { message: json!({ "role": "assistant", "parts": [] }), errors: Vec::new() }.reading(parts)
    }

    /// Goes on with a message that is there.
    pub(super) fn going_on(message: &Value, parts: &[Value]) -> Self {
        Self { message: message.clone(), errors: Vec::new() }.reading(parts)
    }

    fn reading(mut self, parts: &[Value]) -> Self {
        let mut open = Map::new();
        parts.iter().for_each(|it| self.part(it, &mut open));
        self
    }

    fn parts(&mut self) -> &mut Vec<Value> {
        self.message["parts"].as_array_mut().unwrap()
    }

    fn metadata(&mut self, metadata: &Value) {
        for (name, value) in metadata.as_object().into_iter().flatten() {
            self.message["metadata"][name] = value.clone();
        }
    }

    fn call(&mut self, id: &Value) -> &mut Value {
        let parts = self.parts();
        parts.iter_mut().rev().find(|it| it["toolCallId"] == *id).expect("a call comes before what it gave")
    }

    fn part(&mut self, part: &Value, open: &mut Map<String, Value>) {
        let id = part["id"].as_str().unwrap_or_default().to_owned();
        match part["type"].as_str().unwrap() {
            "start" => {
                self.message["id"] = part["messageId"].clone();
                self.metadata(&part["messageMetadata"]);
            }
            "start-step" => self.parts().push(json!({ "type": "step-start" })),
            "finish-step" => open.clear(),
            "reasoning-start" => {
                open.insert(id, self.parts().len().into());
                self.parts().push(json!({ "type": "reasoning", "text": "", "state": "streaming" }));
            }
            "text-start" => {
                open.insert(id, self.parts().len().into());
                self.parts().push(json!({ "type": "text", "text": "", "state": "streaming" }));
            }
            "text-delta" | "reasoning-delta" => {
                let at = usize::try_from(open[&id].as_u64().unwrap()).unwrap();
                let text =
                    self.parts()[at]["text"].as_str().unwrap().to_owned() + part["delta"].as_str().unwrap();
                self.parts()[at]["text"] = text.into();
            }
            "text-end" | "reasoning-end" => {
                let at = usize::try_from(open.remove(&id).unwrap().as_u64().unwrap()).unwrap();
                self.parts()[at]["state"] = "done".into();
                if let Some(metadata) = part.get("providerMetadata") {
                    self.parts()[at]["providerMetadata"] = metadata.clone();
                }
            }
            "tool-input-available" => {
                let call = json!({
                    "type": "dynamic-tool", "toolName": part["toolName"], "toolCallId": part["toolCallId"],
                    "state": "input-available", "input": part["input"], "providerExecuted": part["providerExecuted"],
                });
                self.parts().push(call);
            }
            "tool-output-available" => {
                let call = self.call(&part["toolCallId"]);
                (call["state"], call["output"]) = ("output-available".into(), part["output"].clone());
            }
            "tool-output-error" => {
                let call = self.call(&part["toolCallId"]);
                (call["state"], call["errorText"]) = ("output-error".into(), part["errorText"].clone());
            }
            "tool-approval-request" => {
                let call = self.call(&part["toolCallId"]);
                call["state"] = "approval-requested".into();
                call["approval"] = json!({ "id": part["approvalId"] });
            }
            "tool-output-denied" => self.call(&part["toolCallId"])["state"] = "output-denied".into(),
            "error" => self.errors.push(part["errorText"].as_str().unwrap().to_owned()),
            "finish" => self.metadata(&part["messageMetadata"]),
            data if data.starts_with("data-") && part["transient"] == true => {}
            data if data.starts_with("data-") => {
                let same = |it: &&mut Value| it["type"] == part["type"] && it["id"] == part["id"];
                match self.parts().iter_mut().find(same) {
                    Some(there) => there["data"] = part["data"].clone(),
                    None => self.parts().push(part.clone()),
                }
            }
            other => panic!("a client gives up at {other}"),
        }
    }
}
