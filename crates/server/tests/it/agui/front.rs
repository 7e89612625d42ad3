//! A front end that speaks AG-UI 1.0, as strict as the protocol's own client: events that are malformed or out of order
//! fail the test.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Client, Events};

/// A front end with one thread.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    client: Client,
    pub(crate) path: String,
    pub(crate) thread: String,
    /// Its messages, as it would post them.
    pub(crate) messages: Vec<Value>,
    /// The interrupts that it waits for.
    pub(crate) interrupts: Vec<Value>,
    runs: u32,
}

/// How a run ended, as a front end is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ran {
    pub(crate) events: Vec<Value>,
}

impl Ran {
    /// Returns the types of the events, without those that narrate.
    pub(crate) fn types(&self) -> Vec<&str> {
        let types = self.events.iter().map(|it| it["type"].as_str().unwrap());
        types.filter(|it| *it != "CUSTOM").collect()
    }

    pub(crate) fn last(&self) -> &Value {
        self.events.last().unwrap()
    }

    /// Returns `success`, `interrupt`, `cancelled`, or the category of the error.
    pub(crate) fn end(&self) -> &str {
        let last = self.last();
        let told = if last["type"] == "RUN_ERROR" { &last["code"] } else { &last["outcome"]["type"] };
        told.as_str().unwrap()
    }
}

impl Front {
    pub(crate) fn new(client: Client, thread: &str) -> Self {
        let (messages, interrupts) = (Vec::new(), Vec::new());
        Self { client, path: "/v1/agui".into(), thread: thread.into(), messages, interrupts, runs: 0 }
    }

    /// Puts a message of the user into its list.
    pub(crate) fn says(&mut self, id: &str, text: &str) {
        self.messages.push(json!({ "id": id, "role": "user", "content": text }));
    }

    /// Returns the input that it posts for a run.
    pub(crate) fn input(&self, run: &str) -> Value {
        json!({
            "threadId": self.thread, "runId": run, "protocolVersion": "1.0", "messages": self.messages,
            "tools": [], "context": [], "state": {}, "forwardedProps": {},
        })
    }

    /// Says something and runs.
    pub(crate) async fn send(&mut self, id: &str, text: &str) -> Ran {
        self.says(id, text);
        self.run().await
    }

    /// Runs with its present messages.
    pub(crate) async fn run(&mut self) -> Ran {
        self.runs += 1;
        let input = self.input(&format!("run-{}", self.runs));
        self.post(input).await
    }

    /// Runs without a message.
    pub(crate) async fn look(&mut self) -> Ran {
        self.runs += 1;
        let mut input = self.input(&format!("run-{}", self.runs));
        input["messages"] = json!([]);
        self.post(input).await
    }

    /// Answers all that it waits for.
    pub(crate) async fn resume(&mut self, status: &str, payload: Value) -> Ran {
        self.runs += 1;
        let mut input = self.input(&format!("run-{}", self.runs));
        let answers = self
            .interrupts
            .iter()
            .map(|it| json!({ "interruptId": it["id"], "status": status, "payload": payload }));
        input["resume"] = answers.collect();
        self.post(input).await
    }

    /// Posts a run and takes its events to the end.
    pub(crate) async fn post(&mut self, input: Value) -> Ran {
        let mut events = self.open(&input).await;
        let mut reader = Reader::default();
        let mut all = Vec::new();
        while let Some(event) = events.json().await {
            reader.take(self, &event);
            all.push(event);
        }
        assert!(reader.over, "the stream broke off: {all:?}");
        assert_eq!((&all[0]["threadId"], &all[0]["runId"]), (&input["threadId"], &input["runId"]));
        Ran { events: all }
    }

    /// Posts a run, and leaves reading to whoever asked.
    pub(crate) async fn open(&self, input: &Value) -> Events {
        let events = self.client.post_events(&self.path, input).await;
        assert_eq!(events.status, 200);
        events
    }
}

/// The order of events, as the protocol's own client checks it.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    begun: bool,
    pub(crate) over: bool,
    texts: BTreeSet<String>,
    calls: BTreeSet<String>,
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_else(|| panic!("no {name} in {event}"))
}

impl Reader {
    /// Takes an event into a front end's messages.
    pub(crate) fn take(&mut self, front: &mut Front, event: &Value) {
        assert!(!self.over, "something comes after the end: {event}");
        let kind = text(event, "type");
        assert_eq!(kind == "RUN_STARTED", !self.begun, "a run begins with its start, once: {event}");
        self.begun = true;
        match kind {
            "RUN_STARTED" | "CUSTOM" | "REASONING_START" | "REASONING_END" => {}
            "REASONING_MESSAGE_START" => {
                assert!(self.texts.insert(text(event, "messageId").to_owned()), "{event}")
            }
            "REASONING_MESSAGE_CONTENT" => assert!(self.texts.contains(text(event, "messageId")), "{event}"),
            "REASONING_MESSAGE_END" => assert!(self.texts.remove(text(event, "messageId")), "{event}"),
            "TEXT_MESSAGE_START" => {
                let (id, role) = (text(event, "messageId"), text(event, "role"));
                assert!(self.texts.insert(id.to_owned()), "begun twice: {event}");
                if front.at(id).is_none() {
                    front.messages.push(json!({ "id": id, "role": role, "content": "" }));
                }
            }
            "TEXT_MESSAGE_CONTENT" => {
                let (id, delta) = (text(event, "messageId"), text(event, "delta"));
                assert!(self.texts.contains(id) && !delta.is_empty(), "{event}");
                let at = front.at(id).unwrap();
                let so_far = front.messages[at]["content"].as_str().unwrap_or_default().to_owned();
                front.messages[at]["content"] = (so_far + delta).into();
            }
            "TEXT_MESSAGE_END" => assert!(self.texts.remove(text(event, "messageId")), "{event}"),
            "TOOL_CALL_START" => {
                let (id, name) = (text(event, "toolCallId"), text(event, "toolCallName"));
                assert!(self.calls.insert(id.to_owned()), "begun twice: {event}");
                front.begin_call(text(event, "parentMessageId"), id, name);
            }
            "TOOL_CALL_ARGS" => {
                assert!(self.calls.contains(text(event, "toolCallId")), "{event}");
                front.argue(text(event, "toolCallId"), text(event, "delta"));
            }
            "TOOL_CALL_END" => assert!(self.calls.remove(text(event, "toolCallId")), "{event}"),
            "TOOL_CALL_RESULT" => front.result(event),
            "MESSAGES_SNAPSHOT" => front.snapshot(event["messages"].as_array().unwrap()),
            "RUN_FINISHED" => {
                assert!(
                    self.texts.is_empty() && self.calls.is_empty(),
                    "something is open at the end: {self:?}"
                );
                self.over = true;
                let interrupts = event["outcome"]["interrupts"].as_array().cloned();
                front.interrupts = interrupts.unwrap_or_default();
            }
            "RUN_ERROR" => self.over = true,
            other => panic!("no event of the protocol that we send: {other}"),
        }
    }
}

impl Front {
    fn at(&self, id: &str) -> Option<usize> {
        self.messages.iter().position(|it| it["id"] == id)
    }

    fn making(&self, call: &str) -> Option<usize> {
        let has =
            |it: &Value| it["toolCalls"].as_array().is_some_and(|it| it.iter().any(|it| it["id"] == call));
        self.messages.iter().position(has)
    }

    fn begin_call(&mut self, parent: &str, id: &str, name: &str) {
        if self.making(id).is_some() {
            return;
        }
        let at = self.at(parent).unwrap_or_else(|| {
            self.messages.push(json!({ "id": parent, "role": "assistant" }));
            self.messages.len() - 1
        });
        let call = json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
        match self.messages[at]["toolCalls"].as_array_mut() {
            Some(calls) => calls.push(call),
            None => self.messages[at]["toolCalls"] = json!([call]),
        }
    }

    fn argue(&mut self, id: &str, delta: &str) {
        let at = self.making(id).unwrap();
        let calls = self.messages[at]["toolCalls"].as_array_mut().unwrap();
        let call = calls.iter_mut().find(|it| it["id"] == id).unwrap();
        let so_far = call["function"]["arguments"].as_str().unwrap().to_owned();
        call["function"]["arguments"] = (so_far + delta).into();
    }

    fn result(&mut self, event: &Value) {
        let call = text(event, "toolCallId");
        let message = json!({
            "id": event["messageId"], "role": "tool", "toolCallId": call, "content": event["content"],
        });
        let at = self.making(call).map_or(self.messages.len(), |at| {
            let answers = self.messages[at + 1..].iter().take_while(|it| it["role"] == "tool").count();
            at + 1 + answers
        });
        self.messages.insert(at, message);
    }

    /// Keeps the messages of the snapshot in their place, and appends the new ones.
    fn snapshot(&mut self, wanted: &[Value]) {
        let had = self.messages.clone();
        self.messages =
            had.iter().filter_map(|it| wanted.iter().find(|new| new["id"] == it["id"])).cloned().collect();
        for new in wanted {
            if self.at(new["id"].as_str().unwrap()).is_none() {
                self.messages.push(new.clone());
            }
        }
    }
}
