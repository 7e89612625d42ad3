//! The state that every random graph has, as plain data; and how functions change it.

use serde_json::{Value, json};
use singletree_engine::{FieldShape, FieldSpec, Reducer, Snapshot, StateUpdate};

use super::dice::scatter;
use crate::rig::{field, int};

/// A state as the model holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// The item that an instance works on.
    pub(crate) n: i64,
    /// A digest of all that has happened: a step too many, too few or in the wrong place changes it for good.
    pub(crate) acc: i64,
    /// How many suspensions were answered.
    pub(crate) answer: i64,
    /// How often the graph went back.
    pub(crate) turns: i64,
    /// How many instances the last fan-out had.
    pub(crate) count: i64,
    pub(crate) items: Vec<i64>,
    /// The history: which functions ran, in order.
    pub(crate) log: Vec<String>,
    /// The histories of instances.
    pub(crate) rows: Vec<Value>,
    pub(crate) results: Vec<i64>,
    /// The `rows` of instances.
    pub(crate) nested: Vec<Value>,
    pub(crate) errors: Vec<Value>,
}

/// An update: the appended items, and the new values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Change {
    pub(crate) acc: Option<i64>,
    pub(crate) turns: Option<i64>,
    pub(crate) count: Option<i64>,
    pub(crate) items: Option<Vec<i64>>,
    pub(crate) log: Vec<String>,
    pub(crate) rows: Vec<Value>,
    pub(crate) results: Vec<i64>,
    pub(crate) nested: Vec<Value>,
    pub(crate) errors: Vec<Value>,
}

pub(crate) fn numbered(count: u8) -> Vec<i64> {
    (1..=i64::from(count)).collect()
}

/// The fields of a graph that begins with so many items.
pub(crate) fn fields(items: u8) -> Vec<FieldSpec> {
    let list = |name, shape: FieldShape| field(name, shape.list(), json!([])).reducer(Reducer::Append);
    vec![
        int("n"),
        int("acc"),
        int("answer"),
        int("turns"),
        int("count"),
        field("items", FieldShape::Int.list(), json!(numbered(items))),
        list("log", FieldShape::Str),
        list("rows", FieldShape::Any),
        list("results", FieldShape::Int),
        list("nested", FieldShape::Any),
        list("errors", FieldShape::Any),
    ]
}

impl State {
    pub(crate) fn new(items: u8) -> Self {
        Self {
            n: 0,
            acc: 0,
            answer: 0,
            turns: 0,
            count: 0,
            items: numbered(items),
            log: Vec::new(),
            rows: Vec::new(),
            results: Vec::new(),
            nested: Vec::new(),
            errors: Vec::new(),
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        self.acc = change.acc.unwrap_or(self.acc);
        self.turns = change.turns.unwrap_or(self.turns);
        self.count = change.count.unwrap_or(self.count);
        self.items = change.items.unwrap_or_else(|| std::mem::take(&mut self.items));
        self.log.extend(change.log);
        self.rows.extend(change.rows);
        self.results.extend(change.results);
        self.nested.extend(change.nested);
        self.errors.extend(change.errors);
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "n": self.n, "acc": self.acc, "answer": self.answer, "turns": self.turns, "count": self.count,
            "items": self.items, "log": self.log, "rows": self.rows, "results": self.results,
            "nested": self.nested, "errors": self.errors,
        })
    }

    pub(crate) fn view(&self) -> View {
        let lengths =
            [self.log.len(), self.rows.len(), self.results.len(), self.nested.len(), self.errors.len()];
        View {
            n: self.n,
            acc: self.acc,
            answer: self.answer,
            turns: self.turns,
            count: self.count,
            items: self.items.len() as u64,
            lengths: lengths.map(|it| it as u64),
            last: self.results.last().copied().unwrap_or_default(),
        }
    }
}

/// The part of a state that a function reads: enough to notice any difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    pub(crate) n: i64,
    pub(crate) acc: i64,
    pub(crate) answer: i64,
    pub(crate) turns: i64,
    pub(crate) count: i64,
    pub(crate) items: u64,
    lengths: [u64; 5],
    last: i64,
}

pub(crate) fn number(state: &Snapshot, name: &str) -> i64 {
    state.get(name).unwrap().to_json().unwrap().as_i64().unwrap()
}

impl View {
    /// Reads it off the engine's state.
    pub(crate) fn of(state: &Snapshot) -> Self {
        let list = |name| state.get(name).unwrap().as_list().unwrap().clone();
        let number = |name| number(state, name);
        let last = list("results").last().map_or(0, |it| it.json().unwrap().as_i64().unwrap());
        Self {
            n: number("n"),
            acc: number("acc"),
            answer: number("answer"),
            turns: number("turns"),
            count: number("count"),
            items: list("items").len(),
            lengths: ["log", "rows", "results", "nested", "errors"].map(|it| list(it).len()),
            last,
        }
    }

    /// Mixes the view and a function's id to a number; the salt tells the ways of ending apart.
    pub(crate) fn mixed(&self, id: u32, salt: u64) -> i64 {
        let numbers = [self.n, self.acc, self.answer, self.turns, self.count, self.last];
        let numbers = numbers.iter().map(|it| it.cast_unsigned());
        let all = numbers.chain([self.items, u64::from(id), salt]).chain(self.lengths);
        // JSON keeps 52 bits in any reader.
        (all.fold(0, |hash, it| scatter(hash ^ it)) >> 12).cast_signed()
    }
}

impl Change {
    /// The same as the engine takes it.
    pub(crate) fn update(self) -> StateUpdate {
        let mut update = StateUpdate::new();
        let numbers = [("acc", self.acc), ("turns", self.turns), ("count", self.count)];
        for (name, number) in numbers {
            if let Some(number) = number {
                update = update.with_json(name, number.into());
            }
        }
        if let Some(items) = self.items {
            update = update.with_json("items", items.into());
        }
        if !self.log.is_empty() {
            update = update.with_json("log", self.log.into());
        }
        update
    }
}
