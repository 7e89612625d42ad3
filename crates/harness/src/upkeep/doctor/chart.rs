//! One session, read whole.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use singletree_durable::{
    EarlySignalRow, EventRow, FencingToken, FieldValue, InvocationId, ItemPlacement, ItemRange, Journal,
    ListItemRow, PositionRow, SessionRow, TurnRow, TurnRowQuery, UsageRowQuery, WaitRow, WaitRowQuery,
};
use singletree_engine::Item;
use singletree_llm::Role;
use singletree_session::{HISTORY, decode_message};

use super::PAGE;
use super::finding::{DoctorFinding, FindingKind, RepairAction};
use crate::Error;

/// All stored rows of a session; bodies are reduced to the parts that are checked.
pub(super) struct SessionRowSet {
    pub(super) fence: FencingToken,
    pub(super) row: SessionRow,
    /// Ordered by number.
    pub(super) turns: Vec<TurnRow>,
    pub(super) waits: BTreeMap<u64, WaitRow>,
    pub(super) positions: BTreeMap<InvocationId, PositionRow>,
    /// The early signals.
    pub(super) mail: Vec<EarlySignalRow>,
    /// The turns that have records.
    pub(super) recorded: BTreeSet<u64>,
    pub(super) items: BTreeMap<u64, CheckedItem>,
    /// The numbers of the items that have a place, by list, generation and sequence number.
    pub(super) places: BTreeMap<(String, u64), BTreeMap<u64, u64>>,
    pub(super) events: Vec<EventRow>,
    /// How many calls of each model the session is said to have made.
    pub(super) calls: BTreeMap<String, u64>,
    /// The history, in order.
    pub(super) said: Vec<CheckedMessage>,
}

/// An item, without its text.
pub(super) struct CheckedItem {
    pub(super) turn: u64,
    pub(super) placed: bool,
    /// Equal texts have equal digests.
    pub(super) digest: u64,
}

/// The parts of a message that are checked.
pub(super) enum CheckedMessage {
    Message { role: Role, calls: Vec<String>, answers: Option<String> },
    Unreadable(String),
}

impl SessionRowSet {
    /// Reads a session; an error comes back with the row that it belongs to.
    pub(super) async fn read_session(
        journal: &dyn Journal,
        row: SessionRow,
    ) -> Result<Self, (SessionRow, Error)> {
        let fence = match journal.read_newest_fence().await {
            Ok(fence) => fence,
            Err(error) => return Err((row, error.into())),
        };
        let mut chart = Self {
            fence,
            row,
            turns: Vec::new(),
            waits: BTreeMap::new(),
            positions: BTreeMap::new(),
            mail: Vec::new(),
            recorded: BTreeSet::new(),
            items: BTreeMap::new(),
            places: BTreeMap::new(),
            events: Vec::new(),
            calls: BTreeMap::new(),
            said: Vec::new(),
        };
        match chart.read_all_rows(journal).await {
            Ok(()) => Ok(chart),
            Err(error) => Err((chart.row, error)),
        }
    }

    async fn read_all_rows(&mut self, journal: &dyn Journal) -> Result<(), Error> {
        self.read_turns(journal).await?;
        self.read_waits(journal).await?;
        self.read_items(journal).await?;
        self.read_events(journal).await?;
        let used = journal.read_model_usage(&UsageRowQuery::Session(self.row.key.clone())).await?;
        self.calls = used.into_iter().map(|row| (row.model, row.calls)).collect();
        self.read_history(journal).await
    }

    async fn read_turns(&mut self, journal: &dyn Journal) -> Result<(), Error> {
        let mut no = 0;
        loop {
            let page = journal.read_turns(&self.row.key, &TurnRowQuery::From { no, limit: PAGE }).await?;
            let Some(last) = page.last().map(|it| it.no) else { return Ok(()) };
            self.turns.extend(page);
            no = last + 1;
        }
    }

    async fn read_waits(&mut self, journal: &dyn Journal) -> Result<(), Error> {
        let key = self.row.key.clone();
        let pending = journal.read_waits(&WaitRowQuery::Pending(key.clone())).await?;
        let mut invocations: BTreeSet<InvocationId> =
            pending.into_iter().map(|(_, it)| it.invocation).collect();
        invocations.extend(self.turns.iter().map(|turn| turn.invocation.clone()));
        for invocation in invocations {
            let query = WaitRowQuery::Invocation(key.tenant.clone(), invocation);
            let waits = journal.read_waits(&query).await?;
            self.waits.extend(waits.into_iter().filter(|(of, _)| *of == key).map(|(_, it)| (it.no, it)));
        }
        let positions = journal.read_positions(&key).await?;
        self.positions =
            positions.into_iter().map(|position| (position.invocation.clone(), position)).collect();
        self.mail = journal.read_early_signals(&key).await?;
        for turn in &self.turns {
            if !journal.read_turn_records(&key, turn.no).await?.is_empty() {
                self.recorded.insert(turn.no);
            }
        }
        Ok(())
    }

    async fn read_items(&mut self, journal: &dyn Journal) -> Result<(), Error> {
        let end = self.row.counters.items;
        let mut from = 0;
        while from < end {
            let to = from.saturating_add(PAGE).min(end);
            self.add_items(journal.read_items(&self.row.key, &ItemRange::Numbers { from, to }).await?);
            from = to;
        }
        // Those that the counters know nothing of.
        let beyond = ItemRange::Numbers { from: end, to: u64::MAX };
        self.add_items(journal.read_items(&self.row.key, &beyond).await?);
        Ok(())
    }

    fn add_items(&mut self, rows: Vec<ListItemRow>) {
        for row in rows {
            let body = CheckedItem {
                turn: row.turn,
                placed: row.placement.is_some(),
                digest: digest_text(row.body.as_str()),
            };
            self.items.insert(row.no, body);
            if let Some(ItemPlacement { field, generation, seq }) = row.placement {
                self.places.entry((field, generation)).or_default().insert(seq, row.no);
            }
        }
    }

    async fn read_events(&mut self, journal: &dyn Journal) -> Result<(), Error> {
        let mut from = 0;
        loop {
            let page = journal.read_events(&self.row.key, from, PAGE).await?;
            let Some(last) = page.last().map(|it| it.seq) else { return Ok(()) };
            self.events.extend(page);
            from = last + 1;
        }
    }

    async fn read_history(&mut self, journal: &dyn Journal) -> Result<(), Error> {
        let Some((generation, len)) = self.find_history_list() else { return Ok(()) };
        let mut from = 0;
        while from < len {
            let limit = PAGE.min(len - from);
            let range = ItemRange::List { field: HISTORY.to_owned(), generation, from, limit };
            let rows = journal.read_items(&self.row.key, &range).await?;
            let Some(last) = rows.last().and_then(|row| Some(row.placement.as_ref()?.seq)) else { break };
            self.said.extend(rows.iter().map(to_checked_message));
            from = last + 1;
        }
        Ok(())
    }

    /// Returns generation and length of the history, if the session has one.
    pub(super) fn find_history_list(&self) -> Option<(u64, u64)> {
        let field = self.row.fields.iter().find(|field| field.name == HISTORY)?;
        match field.value {
            FieldValue::List { generation, len, .. } => Some((generation, len)),
            FieldValue::Value(_) => None,
        }
    }

    /// Returns the bytes that the history is said to have.
    pub(super) fn history_bytes(&self) -> u64 {
        let field = self.row.fields.iter().find(|field| field.name == HISTORY);
        match field.map(|field| &field.value) {
            Some(FieldValue::List { bytes, .. }) => *bytes,
            Some(FieldValue::Value(_)) | None => 0,
        }
    }

    /// Returns the turn of this number.
    pub(super) fn find_turn(&self, no: u64) -> Option<&TurnRow> {
        self.turns.binary_search_by_key(&no, |turn| turn.no).ok().and_then(|at| self.turns.get(at))
    }

    /// Returns the turns by invocation, each in the order of their ordinals.
    pub(super) fn turns_by_invocation(&self) -> BTreeMap<&InvocationId, Vec<&TurnRow>> {
        let mut invocations: BTreeMap<&InvocationId, Vec<&TurnRow>> = BTreeMap::new();
        for turn in &self.turns {
            invocations.entry(&turn.invocation).or_default().push(turn);
        }
        for turns in invocations.values_mut() {
            turns.sort_by_key(|turn| (turn.ordinal, turn.no));
        }
        invocations
    }

    pub(super) fn make_finding(
        &self,
        symptom: FindingKind,
        what: String,
        mend: Option<RepairAction>,
    ) -> DoctorFinding {
        DoctorFinding { session: self.row.key.clone(), symptom, what, mend }
    }
}

fn digest_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn to_checked_message(row: &ListItemRow) -> CheckedMessage {
    let unreadable = |why: String| CheckedMessage::Unreadable(format!("item {}: {why}", row.no));
    match decode_message(&Item::from_text(row.body.as_str())) {
        Err(error) => unreadable(singletree_engine::format_error_chain(&error)),
        Ok(message) => match message.validate() {
            Err(error) => unreadable(error.to_string()),
            Ok(()) => CheckedMessage::Message {
                role: message.role,
                calls: message.tool_calls.iter().map(|tool_call| tool_call.id.clone()).collect(),
                answers: message.tool_call_id.clone(),
            },
        },
    }
}
