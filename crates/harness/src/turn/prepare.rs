//! Prepares a turn to run: reads the stored state, and decides where the run begins.

use std::sync::Arc;

use singletree_durable::{PausedInvocation, SessionHead, StoredTurnKind, TurnRow, WaitRow, WaitRowQuery};
use singletree_engine::{
    Error as RunError, Item, RunEntry, RunStart, SessionState, UNVERSIONED, migrate_session,
};
use singletree_session::{
    BudgetUsage, DispatchPath, EffectIntent, HISTORY, HistoryMarks, HistoryWindow, ItemNumbering,
    PendingAnswer, ProvenanceTracker, Records, SideRecords, StoredFields, StoredPosition, TurnModelUsage,
    TurnPromptPolicy, TurnRowExt, TurnState, UnknownRows, cut_history, decode_message, entered_outer_node,
    find_list_field, has_intent_record, to_engine_fields,
};

use crate::Error;
use crate::agents::agent::Durability;
use crate::error::store_corrupt_error;
use crate::runtime::chat_inner::{ChatInner, ServedAgent};
use crate::runtime::field_reads::read_fields;
use crate::runtime::loaded_session::{LoadedSession, TurnHandle};
use crate::turn::journal_port::{ClaimedWait, JournalPort, JournalPortParts, TurnInput};
use crate::turn::stream::TurnStream;
use crate::turn::tool_message;

mod read;

/// A turn that is ready to run.
pub(crate) struct PreparedTurn {
    pub(crate) port: Arc<JournalPort>,
    pub(crate) stream: TurnStream,
    pub(crate) start: RunStart,
}

/// Where a run begins.
struct RunStartState {
    entered: RunEntry,
    start: RunTrigger,
    marks: HistoryMarks,
    numbers: ItemNumbering,
    path: DispatchPath,
    positioned: bool,
    records: Records,
    claim: Option<ClaimedWait>,
}

enum RunTrigger {
    Message(TurnInput),
    Payload(serde_json::Map<String, serde_json::Value>),
    Recover,
}

pub(crate) struct TurnPreparation<'a> {
    pub(crate) inner: &'a Arc<ChatInner>,
    pub(crate) loaded: &'a Arc<LoadedSession>,
    pub(crate) served: &'a Arc<ServedAgent>,
}

impl TurnPreparation<'_> {
    /// Returns the session's fields: from memory if they are there as this agent needs them, else from the store.
    pub(crate) async fn load_session_fields(&self) -> Result<StoredFields, Error> {
        loop {
            self.inner.ensure_loaded(self.loaded).await?;
            let window = self.history_window();
            let (held, before) = {
                let state = self.loaded.lock_state();
                (state.held_fields().cloned(), state.change_count())
            };
            let cut = held.map(|held| cut_history(held, window)).transpose()?.flatten();
            let (fields, before) = match cut {
                Some(fields) => (fields, before),
                None => {
                    // While a deletion is being committed, the store still has the rows that it deletes.
                    let before = self.inner.await_landed_changes(self.loaded).await?;
                    (self.read_stored_fields(window).await?, before)
                }
            };
            if self.loaded.lock_state().hold_fields_read(fields.clone(), before) {
                return Ok(fields);
            }
        }
    }

    async fn read_stored_fields(&self, window: Option<HistoryWindow>) -> Result<StoredFields, Error> {
        let (journal, key) = (self.inner.journal.as_ref(), &self.loaded.key);
        let ahead = self.loaded.lock_state().take_prefetched_fields();
        let rows = match ahead {
            Some(rows) => rows,
            None => self
                .inner
                .await_store_read(journal.read_session(key))
                .await?
                .map(|inner| inner.fields)
                .unwrap_or_default(),
        };
        self.inner.await_read_sequence(read_fields(journal, key, rows, window)).await
    }

    /// Returns the window on the history (D22); a history that is migrated first is needed whole.
    fn history_window(&self) -> Option<HistoryWindow> {
        let agent = &self.served.agent;
        let state = self.loaded.lock_state();
        let is_old = state
            .session_head()
            .is_some_and(|head| session_schema_version(head) != agent.graph.session_version());
        agent.window.filter(|_| !is_old)
    }

    /// A turn on the session as it is stored, before anything is known of its run.
    pub(crate) async fn load_turn_state(&self, row: TurnRow) -> Result<TurnState, Error> {
        let stored = self.load_session_fields().await?;
        self.build_turn_state(stored, row)
    }

    pub(crate) fn build_turn_state(&self, stored: StoredFields, row: TurnRow) -> Result<TurnState, Error> {
        let unknown = || Error::SessionUnknown { session: self.loaded.key.session.to_string() };
        let head = self.loaded.lock_state().session_head().cloned().ok_or_else(unknown)?;
        // Until the run says otherwise, the turn adds nothing: its tail begins at the end of the stored history.
        let len = find_list_field(&stored, HISTORY).map_or(0, singletree_engine::PersistentList::len);
        let marks = HistoryMarks { first: len, boundary: len, announced: len };
        // An unreadable policy is refused where a turn begins; a turn that only ends shows nothing to a model.
        let policy = TurnPromptPolicy::from_stored_text(&head.prompt_policy).unwrap_or_default();
        Ok(TurnState {
            row,
            head,
            policy,
            stored,
            unread: false,
            names: self.served.names.clone(),
            rows: self.served.rows.clone(),
            numbers: ItemNumbering::default(),
            marks,
            path: DispatchPath::NewSession,
            positioned: false,
            runs_before: 0,
            stands: false,
            unknown_rows: UnknownRows::None,
            migrated: None,
            records: Records::new(),
            bounds: self.served.bounds,
            spent: BudgetUsage::default(),
            used: TurnModelUsage::default(),
            making: ProvenanceTracker::new(self.served.agent.durability == Durability::Step),
            taken: Vec::new(),
            sides: SideRecords::default(),
            effects: EffectIntent::None,
            trace: None,
        })
    }

    /// As [`TurnPreparation::load_turn_state`], for a turn that is run.
    async fn load_runnable_turn(&self, row: TurnRow) -> Result<TurnState, Error> {
        let turning = self.load_turn_state(row).await?;
        TurnPromptPolicy::from_stored_text(&turning.head.prompt_policy)?;
        Ok(turning)
    }

    /// Gets the turn of a message ready.
    pub(crate) async fn prepare_message(
        &self,
        handle: &TurnHandle,
        row: TurnRow,
        message: Item,
    ) -> Result<PreparedTurn, Error> {
        let mut turning = self.load_runnable_turn(row).await?;
        turning.trace = self.inner.find_caller_trace(self.loaded, handle, &turning.row).await?;
        let beginning = self.start_at_entry(&mut turning, message)?;
        Ok(self.finish_preparation(turning, beginning))
    }

    fn start_at_entry(&self, turning: &mut TurnState, message: Item) -> Result<RunStartState, Error> {
        let mut numbers = ItemNumbering::default();
        if let Some(no) = turning.row.message {
            numbers.insert_number(&message, no);
        }
        // A message that would exceed the limits of the history is refused before a model is asked (D13).
        let (held, bytes) = (turning.committed_history().len(), turning.history_bytes());
        let appended = turning.row.message.map(|_| message.clone());
        let own = appended.as_ref().map_or(0, |appended| appended.json_text().map_or(0, str::len) as u64);
        let added = u64::from(appended.is_some());
        self.served.bounds.check_history_size(held.saturating_add(added), bytes.saturating_add(own))?;
        if let Some(message) = &appended {
            tool_message::check_answers_open_call(
                &turning.committed_history(),
                decode_message(message)?.as_ref(),
            )?;
        }
        let existing = held > 0;
        let command = match turning.policy {
            TurnPromptPolicy::Conversation => None,
            TurnPromptPolicy::Command => Some(decode_message(&message)?.text().into_owned()),
        };
        Ok(RunStartState {
            entered: RunEntry::Fresh(self.load_migrated_state(turning)?),
            start: RunTrigger::Message(TurnInput { message: appended, command }),
            marks: turning.marks,
            numbers,
            path: if existing { DispatchPath::ExistingSession } else { DispatchPath::NewSession },
            positioned: false,
            records: Records::new(),
            claim: None,
        })
    }

    /// Returns the session's state, brought to the graph's version (sessions §7).
    fn load_migrated_state(&self, turning: &mut TurnState) -> Result<Option<SessionState>, Error> {
        if turning.stored.is_empty() {
            return Ok(None);
        }
        let agent = &self.served.agent;
        let schema_version = session_schema_version(&turning.head).to_owned();
        let is_old = schema_version != agent.graph.session_version();
        let loaded = SessionState { schema_version, fields: to_engine_fields(&turning.stored) };
        let loaded = migrate_session(loaded, agent.graph.session_version(), &agent.migrations)?;
        turning.migrated = is_old.then(|| loaded.clone());
        Ok(Some(loaded))
    }

    /// Gets a turn ready whose process died.
    pub(crate) async fn prepare_recovery(
        &self,
        handle: &TurnHandle,
        row: TurnRow,
        has_run: bool,
    ) -> Result<PreparedTurn, Error> {
        let journal = &self.inner.journal;
        let mut turning = self.load_runnable_turn(row).await?;
        turning.runs_before = turning.row.deaths.max(u32::from(has_run));
        let position = self
            .inner
            .await_store_read(journal.read_position(&self.loaded.key, &turning.row.invocation))
            .await?;
        let beginning = match position {
            Some(position) if position.turn == turning.row.no => {
                let position = decode_position(&position.body)?;
                turning.trace = position.trace.clone().map(Arc::new);
                let records = self.read_records(turning.row.no).await?;
                let (standing, numbers) =
                    self.read_stored_run(&mut turning, &position, records.clone()).await?;
                turning.stands = true;
                turning.spent = position.spent;
                turning.used = position.used.clone();
                turning.taken = self.read_taken_messages(&position).await?;
                turning.effects =
                    EffectIntent::from_has_intent(position.effects || has_intent_record(&records));
                RunStartState {
                    entered: RunEntry::Standing(standing),
                    start: RunTrigger::Recover,
                    marks: position.marks,
                    numbers,
                    path: dispatch_path_of_turn(&turning.row, position.marks),
                    positioned: true,
                    records,
                    claim: None,
                }
            }
            Some(position) if turning.row.kind == StoredTurnKind::Resume => {
                let wait = self.read_answered_wait(&turning.row).await?;
                let answer = wait.answer.as_ref().map(singletree_durable::JsonDocument::decode).transpose();
                let answer =
                    answer.map_err(|error| store_corrupt_error("an answer".into(), Some(error.into())))?;
                let records = self.read_records(turning.row.no).await?;
                self.start_at_pause(
                    &mut turning,
                    &decode_position(&position.body)?,
                    answer.unwrap_or_default(),
                    records,
                )
                .await?
            }
            _ => {
                let none =
                    || store_corrupt_error(format!("turn {} has nothing to answer", turning.row.no), None);
                let no =
                    self.inner.find_message_item(&self.loaded.key, &turning.row).await?.ok_or_else(none)?;
                let message = self.read_item(no).await?;
                turning.trace = self.inner.find_caller_trace(self.loaded, handle, &turning.row).await?;
                self.start_at_entry(&mut turning, message)?
            }
        };
        Ok(self.finish_preparation(turning, beginning))
    }

    async fn read_answered_wait(&self, row: &TurnRow) -> Result<WaitRow, Error> {
        let query = WaitRowQuery::Invocation(self.loaded.key.tenant.clone(), row.invocation.clone());
        let waits = self.inner.await_store_read(self.inner.journal.read_waits(&query)).await?;
        let wait = waits.into_iter().map(|(_, it)| it).find(|it| Some(it.no) == row.wait);
        wait.ok_or_else(|| store_corrupt_error(format!("the wait of turn {} is missing", row.no), None))
    }

    async fn start_at_pause(
        &self,
        turning: &mut TurnState,
        position: &StoredPosition,
        payload: serde_json::Map<String, serde_json::Value>,
        records: Records,
    ) -> Result<RunStartState, Error> {
        // Nobody may have written the session since (D1).
        if position.version != turning.head.version {
            let what = format!("version {} became {}", position.version, turning.head.version);
            return Err(RunError::SessionConflict { source: what.into() }.into());
        }
        turning.effects = EffectIntent::from_has_intent(position.effects);
        turning.trace = position.trace.clone().map(Arc::new);
        let (standing, numbers) = self.read_stored_run(turning, position, records.clone()).await?;
        Ok(RunStartState {
            entered: RunEntry::Standing(standing),
            start: RunTrigger::Payload(payload),
            marks: position.marks,
            numbers,
            path: DispatchPath::SignalResume,
            positioned: true,
            records,
            claim: None,
        })
    }

    /// Gets the turn ready that a signal starts. Nothing is written yet: the claim does that.
    pub(crate) async fn prepare_answer(
        &self,
        wait: WaitRow,
        paused: PausedInvocation,
        (handle, answering): (&Arc<TurnHandle>, PendingAnswer),
    ) -> Result<PreparedTurn, (Error, PendingAnswer)> {
        let suspended = paused.turn.clone();
        match self.prepare_resume(&wait, paused, &answering).await {
            Ok((turning, mut beginning)) => {
                let handle = handle.clone();
                beginning.claim = Some(ClaimedWait { suspended, wait, answering, handle });
                Ok(self.finish_preparation(turning, beginning))
            }
            Err(error) => Err((error, answering)),
        }
    }

    async fn prepare_resume(
        &self,
        wait: &WaitRow,
        paused: PausedInvocation,
        answering: &PendingAnswer,
    ) -> Result<(TurnState, RunStartState), Error> {
        let suspended = paused.turn;
        let row = TurnRow {
            ordinal: suspended.ordinal + 1,
            kind: StoredTurnKind::Resume,
            message: None,
            wait: Some(wait.no),
            outcome: None,
            ended_at: None,
            retries: None,
            ..suspended
        };
        let mut turning = self.load_runnable_turn(row).await?;
        let unfit = |it: serde_json::Error| RunError::SuspensionRecord {
            invocation: wait.invocation.to_string(),
            reason: format!("where it stands is damaged: {it}"),
        };
        let position = paused.position.body.decode().map_err(unfit)?;
        let (payload, records) = (answering.payload.clone(), read::records_by_name(paused.records));
        let beginning = self.start_at_pause(&mut turning, &position, payload, records).await?;
        Ok((turning, beginning))
    }

    /// Returns the paused invocation of a wait: as it was read with the session, else from the store.
    pub(crate) async fn load_paused_invocation(&self, wait: &WaitRow) -> Result<PausedInvocation, Error> {
        let ahead = self.loaded.lock_state().take_prefetched_run(wait.turn);
        if let Some(paused) = ahead {
            return Ok(paused);
        }
        let turn = self.read_turn_row(wait.turn).await?;
        let (inner, journal, key) = (self.inner, &self.inner.journal, &self.loaded.key);
        let position = inner.await_store_read(journal.read_position(key, &wait.invocation)).await?;
        let position = position.ok_or_else(|| RunError::SuspensionRecord {
            invocation: wait.invocation.to_string(),
            reason: "where it stands is not known".into(),
        })?;
        let records = inner.await_store_read(journal.read_turn_records(key, turn.no)).await?;
        Ok(PausedInvocation { turn, position, records })
    }

    fn finish_preparation(&self, mut turning: TurnState, beginning: RunStartState) -> PreparedTurn {
        turning.marks = beginning.marks;
        turning.making.inside = match &beginning.entered {
            RunEntry::Standing(it) => entered_outer_node(&it.cursor),
            RunEntry::Fresh { .. } => None,
        };
        turning.numbers = beginning.numbers;
        turning.path = beginning.path;
        turning.positioned = beginning.positioned;
        turning.records = beginning.records;
        let marks = turning.marks;
        let (port, stream) = self.open_journal_port(turning, beginning.entered, beginning.claim);
        stream.set_history_marks(marks);
        let start = match beginning.start {
            RunTrigger::Message(message) => RunStart::Fresh {
                initial: singletree_engine::StateUpdate::new(),
                hook: Some(Box::new(port.make_entry_update(message))),
            },
            RunTrigger::Payload(payload) => RunStart::Resume { payload },
            RunTrigger::Recover => RunStart::Recover,
        };
        PreparedTurn { port, stream, start }
    }
}

impl TurnPreparation<'_> {
    pub(crate) fn open_journal_port(
        &self,
        turning: TurnState,
        entered: RunEntry,
        claim: Option<ClaimedWait>,
    ) -> (Arc<JournalPort>, TurnStream) {
        let session = self.loaded.key.session.clone();
        let (feed, clock) = (self.loaded.feed.clone(), self.inner.env.clock.clone());
        let shown = (feed, self.inner.limits.shown_bytes, turning.sides.clone());
        let stream = TurnStream::new(session, turning.row.turn_id(), turning.runs_before, shown, clock);
        let port = JournalPort::new(JournalPortParts {
            inner: self.inner.clone(),
            loaded: self.loaded.clone(),
            served: self.served.clone(),
            stream: stream.clone(),
            entered,
            turning,
            claim,
        });
        (Arc::new(port), stream)
    }
}

/// Returns the version of the states of a position.
fn position_schema_version(position: &StoredPosition, head: &SessionHead) -> String {
    position.schema_version.clone().unwrap_or_else(|| session_schema_version(head).to_owned())
}

fn session_schema_version(head: &SessionHead) -> &str {
    if head.schema_version.is_empty() { UNVERSIONED } else { &head.schema_version }
}

fn decode_position(body: &singletree_durable::JsonDocument) -> Result<StoredPosition, Error> {
    body.decode().map_err(|error| {
        RunError::Position { reason: format!("the stored position is damaged: {error}") }.into()
    })
}

fn dispatch_path_of_turn(row: &TurnRow, marks: HistoryMarks) -> DispatchPath {
    match row.kind {
        StoredTurnKind::Message if marks.first == 0 => DispatchPath::NewSession,
        StoredTurnKind::Message => DispatchPath::ExistingSession,
        StoredTurnKind::Resume | StoredTurnKind::Close => DispatchPath::SignalResume,
    }
}
