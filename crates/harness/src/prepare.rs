//! Prepares a turn to run: reads the stored state, and decides where the run begins.

use std::sync::Arc;

use singletree_durable::{
    ItemRange, PausedInvocation, PositionHistory, RecordRow, SessionHead, StoredTurnKind, TurnRow,
    TurnRowQuery, WaitRow, WaitRowQuery,
};
use singletree_engine::{
    Error as RunError, Fields, Identity, Item, RunEntry, RunStart, SessionState, StoredRun, UNVERSIONED,
    migrate_session,
};

use crate::Error;
use crate::agent::Durability;
use crate::budget::BudgetUsage;
use crate::calls::{EffectIntent, Records, have_intent};
use crate::chat_inner::{ChatInner, ServedAgent};
use crate::history::HISTORY;
use crate::journal_port::{ClaimedWait, JournalPort, JournalPortParts, TurnInput};
use crate::loaded_session::{LoadedSession, TurnHandle};
use crate::made::{self, ProvenanceTracker};
use crate::outcome::DispatchPath;
use crate::policy::TurnPromptPolicy;
use crate::position::{FrameDecoder, HistoryMarks, StoredPosition};
use crate::record::{self, TurnRowExt};
use crate::session::PendingAnswer;
use crate::session::batch::ItemNumbering;
use crate::session::turn::TurnState;
use crate::side::SideRecords;
use crate::steer::{SteeredMessage, SteeredPosition};
use crate::stored::{self, StoredFields, corrupt};
use crate::stream::TurnStream;
use crate::tool_message;
use crate::usage::TurnModelUsage;
use crate::window::HistoryWindow;

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
    pub(crate) async fn fields(&self) -> Result<StoredFields, Error> {
        loop {
            self.inner.ensure_loaded(self.loaded).await?;
            let window = self.window();
            let (held, before) = {
                let state = self.loaded.state();
                (state.fields().cloned(), state.changes())
            };
            let cut = held.map(|held| stored::cut(held, window)).transpose()?.flatten();
            let (fields, before) = match cut {
                Some(fields) => (fields, before),
                None => {
                    // While a deletion is being committed, the store still has the rows that it deletes.
                    let before = self.inner.landed_changes(self.loaded).await?;
                    (self.read_fields(window).await?, before)
                }
            };
            if self.loaded.state().hold_fields_read(fields.clone(), before) {
                return Ok(fields);
            }
        }
    }

    async fn read_fields(&self, window: Option<HistoryWindow>) -> Result<StoredFields, Error> {
        let (journal, key) = (self.inner.journal.as_ref(), &self.loaded.key);
        let ahead = self.loaded.state().take_prefetched_fields();
        let rows = match ahead {
            Some(rows) => rows,
            None => {
                self.inner.read(journal.session(key)).await?.map(|inner| inner.fields).unwrap_or_default()
            }
        };
        self.inner.limited(stored::read(journal, key, rows, window)).await
    }

    /// Returns the window on the history (D22); a history that is migrated first is needed whole.
    fn window(&self) -> Option<HistoryWindow> {
        let agent = &self.served.agent;
        let state = self.loaded.state();
        let is_old = state.head().is_some_and(|head| version_of(head) != agent.graph.session_version());
        agent.window.filter(|_| !is_old)
    }

    /// A turn on the session as it is stored, before anything is known of its run.
    pub(crate) async fn turning(&self, row: TurnRow) -> Result<TurnState, Error> {
        let stored = self.fields().await?;
        self.turning_on(stored, row)
    }

    pub(crate) fn turning_on(&self, stored: StoredFields, row: TurnRow) -> Result<TurnState, Error> {
        let unknown = || Error::SessionUnknown { session: self.loaded.key.session.to_string() };
        let head = self.loaded.state().head().cloned().ok_or_else(unknown)?;
        // Until the run says otherwise, the turn adds nothing: its tail begins at the end of the stored history.
        let len = stored::list(&stored, HISTORY).map_or(0, singletree_engine::PersistentList::len);
        let marks = HistoryMarks { first: len, boundary: len, announced: len };
        // An unreadable policy is refused where a turn begins; a turn that only ends shows nothing to a model.
        let policy = TurnPromptPolicy::stored(&head.prompt_policy).unwrap_or_default();
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
            migrated: None,
            records: Records::new(),
            bounds: self.served.bounds,
            spent: BudgetUsage::default(),
            used: TurnModelUsage::default(),
            making: ProvenanceTracker::new(self.served.agent.durability == Durability::Step),
            taken: Vec::new(),
            sides: SideRecords::default(),
            effects: EffectIntent::None,
        })
    }

    /// As [`TurnPreparation::turning`], for a turn that is run.
    async fn running(&self, row: TurnRow) -> Result<TurnState, Error> {
        let turning = self.turning(row).await?;
        TurnPromptPolicy::stored(&turning.head.prompt_policy)?;
        Ok(turning)
    }

    /// Gets the turn of a message ready.
    pub(crate) async fn message(&self, row: TurnRow, message: Item) -> Result<PreparedTurn, Error> {
        let mut turning = self.running(row).await?;
        let beginning = self.at_entry(&mut turning, message)?;
        Ok(self.ready(turning, beginning))
    }

    fn at_entry(&self, turning: &mut TurnState, message: Item) -> Result<RunStartState, Error> {
        let mut numbers = ItemNumbering::default();
        if let Some(no) = turning.row.message {
            numbers.note(&message, no);
        }
        // A message that would exceed the limits of the history is refused before a model is asked (D13).
        let (held, bytes) = (turning.committed().len(), turning.history_bytes());
        let appended = turning.row.message.map(|_| message.clone());
        let own = appended.as_ref().map_or(0, |appended| appended.text().map_or(0, str::len) as u64);
        let added = u64::from(appended.is_some());
        self.served.bounds.history(held.saturating_add(added), bytes.saturating_add(own))?;
        if let Some(message) = &appended {
            tool_message::check(&turning.committed(), record::message(message)?.as_ref())?;
        }
        let existing = held > 0;
        let command = match turning.policy {
            TurnPromptPolicy::Conversation => None,
            TurnPromptPolicy::Command => Some(record::message(&message)?.text().into_owned()),
        };
        Ok(RunStartState {
            entered: RunEntry::Fresh(self.loaded(turning)?),
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
    fn loaded(&self, turning: &mut TurnState) -> Result<Option<SessionState>, Error> {
        if turning.stored.is_empty() {
            return Ok(None);
        }
        let agent = &self.served.agent;
        let schema_version = version_of(&turning.head).to_owned();
        let is_old = schema_version != agent.graph.session_version();
        let loaded = SessionState { schema_version, fields: stored::to_fields(&turning.stored) };
        let loaded = migrate_session(loaded, agent.graph.session_version(), &agent.migrations)?;
        turning.migrated = is_old.then(|| loaded.clone());
        Ok(Some(loaded))
    }

    /// Gets a turn ready whose process died.
    pub(crate) async fn recovery(&self, row: TurnRow, has_run: bool) -> Result<PreparedTurn, Error> {
        let journal = &self.inner.journal;
        let mut turning = self.running(row).await?;
        turning.runs_before = turning.row.deaths.max(u32::from(has_run));
        let position = self.inner.read(journal.position(&self.loaded.key, &turning.row.invocation)).await?;
        let beginning = match position {
            Some(position) if position.turn == turning.row.no => {
                let position = decode(&position.body)?;
                let records = self.records(turning.row.no).await?;
                let (standing, numbers) = self.standing(&mut turning, &position, records.clone()).await?;
                turning.stands = true;
                turning.spent = position.spent;
                turning.used = position.used.clone();
                turning.taken = self.taken(&position).await?;
                turning.effects = EffectIntent::of(position.effects || have_intent(&records));
                RunStartState {
                    entered: RunEntry::Standing(standing),
                    start: RunTrigger::Recover,
                    marks: position.marks,
                    numbers,
                    path: path_of(&turning.row, position.marks),
                    positioned: true,
                    records,
                    claim: None,
                }
            }
            Some(position) if turning.row.kind == StoredTurnKind::Resume => {
                let wait = self.answered(&turning.row).await?;
                let answer = wait.answer.as_ref().map(singletree_durable::JsonDocument::decode).transpose();
                let answer = answer.map_err(|error| corrupt("an answer".into(), Some(error.into())))?;
                let records = self.records(turning.row.no).await?;
                self.at_pause(&mut turning, &decode(&position.body)?, answer.unwrap_or_default(), records)
                    .await?
            }
            _ => {
                let none = || corrupt(format!("turn {} has nothing to answer", turning.row.no), None);
                let no = self.inner.message_of(&self.loaded.key, &turning.row).await?.ok_or_else(none)?;
                let message = self.item(no).await?;
                self.at_entry(&mut turning, message)?
            }
        };
        Ok(self.ready(turning, beginning))
    }

    async fn answered(&self, row: &TurnRow) -> Result<WaitRow, Error> {
        let query = WaitRowQuery::Invocation(self.loaded.key.tenant.clone(), row.invocation.clone());
        let waits = self.inner.read(self.inner.journal.waits(&query)).await?;
        let wait = waits.into_iter().map(|(_, it)| it).find(|it| Some(it.no) == row.wait);
        wait.ok_or_else(|| corrupt(format!("the wait of turn {} is missing", row.no), None))
    }

    /// Reads one item.
    pub(crate) async fn item(&self, no: u64) -> Result<Item, Error> {
        let range = ItemRange::Numbers { from: no, to: no + 1 };
        let rows = self.inner.read(self.inner.journal.items(&self.loaded.key, &range)).await?;
        let missing = || corrupt(format!("item {no} is missing"), None);
        rows.first().map(|row| Item::from_text(row.body.as_str())).ok_or_else(missing)
    }

    /// Reads where a run stands, brought to the graph's version: the process that stored it may have had another (R36).
    pub(crate) async fn standing(
        &self,
        turning: &mut TurnState,
        position: &StoredPosition,
        records: Records,
    ) -> Result<(StoredRun, ItemNumbering), Error> {
        let (frames, numbers) = self.frames(turning, position).await?;
        let from = written_by(position, &turning.head);
        let invocation = &turning.row.invocation;
        let identity = Some(Identity {
            invocation_id: invocation.clone(),
            correlation_id: invocation.to_string(),
            session_id: Some(self.loaded.key.session.clone()),
        });
        let (cursor, containers, completed) = (position.cursor.clone(), Vec::new(), PositionHistory::new());
        let standing = StoredRun { identity, cursor, frames, records, containers, completed };
        let migrations = self.served.agent.run_migrations();
        Ok((self.served.agent.graph.migrate_standing(standing, &from, &migrations)?, numbers))
    }

    /// Reads the states of where a run stands, in the version that they are stored in.
    pub(crate) async fn frames(
        &self,
        turning: &mut TurnState,
        position: &StoredPosition,
    ) -> Result<(Vec<Fields>, ItemNumbering), Error> {
        let is_old = written_by(position, &turning.head) != self.served.agent.graph.schema().version();
        let window = self.window().filter(|_| !is_old);
        if is_old {
            // Migrations see whole lists.
            turning.stored = self.read_fields(None).await?;
        }
        let mut numbers = ItemNumbering::default();
        let names = (!is_old).then_some(turning.names.as_ref());
        let (journal, key, stored) = (self.inner.journal.as_ref(), &self.loaded.key, &turning.stored);
        let mut decoder = FrameDecoder { journal, key, stored, names, numbers: &mut numbers, window };
        let frames = self.inner.limited(decoder.frames(position.frames.clone())).await?;
        Ok((frames, numbers))
    }

    pub(crate) async fn records(&self, turn: u64) -> Result<Records, Error> {
        Ok(by_name(self.inner.read(self.inner.journal.records(&self.loaded.key, turn)).await?))
    }

    async fn at_pause(
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
        turning.effects = EffectIntent::of(position.effects);
        let (standing, numbers) = self.standing(turning, position, records.clone()).await?;
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
    pub(crate) async fn answer(
        &self,
        wait: WaitRow,
        paused: PausedInvocation,
        (handle, answering): (&Arc<TurnHandle>, PendingAnswer),
    ) -> Result<PreparedTurn, (Error, PendingAnswer)> {
        let suspended = paused.turn.clone();
        match self.resume(&wait, paused, &answering).await {
            Ok((turning, mut beginning)) => {
                let handle = handle.clone();
                beginning.claim = Some(ClaimedWait { suspended, wait, answering, handle });
                Ok(self.ready(turning, beginning))
            }
            Err(error) => Err((error, answering)),
        }
    }

    async fn resume(
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
        let mut turning = self.running(row).await?;
        let unfit = |it: serde_json::Error| RunError::SuspensionRecord {
            invocation: wait.invocation.to_string(),
            reason: format!("where it stands is damaged: {it}"),
        };
        let position = paused.position.body.decode().map_err(unfit)?;
        let (payload, records) = (answering.payload.clone(), by_name(paused.records));
        let beginning = self.at_pause(&mut turning, &position, payload, records).await?;
        Ok((turning, beginning))
    }

    /// Returns the paused invocation of a wait: as it was read with the session, else from the store.
    pub(crate) async fn paused(&self, wait: &WaitRow) -> Result<PausedInvocation, Error> {
        let ahead = self.loaded.state().take_prefetched_run(wait.turn);
        if let Some(paused) = ahead {
            return Ok(paused);
        }
        let turn = self.turn(wait.turn).await?;
        let (inner, journal, key) = (self.inner, &self.inner.journal, &self.loaded.key);
        let position = inner.read(journal.position(key, &wait.invocation)).await?;
        let position = position.ok_or_else(|| RunError::SuspensionRecord {
            invocation: wait.invocation.to_string(),
            reason: "where it stands is not known".into(),
        })?;
        let records = inner.read(journal.records(key, turn.no)).await?;
        Ok(PausedInvocation { turn, position, records })
    }

    /// Reads the turns of the messages that a turn had taken where it stands.
    pub(crate) async fn taken(&self, position: &StoredPosition) -> Result<Vec<SteeredMessage>, Error> {
        let mut taken = Vec::new();
        for SteeredPosition { turn, position } in &position.taken {
            taken.push(SteeredMessage { row: self.turn(*turn).await?, position: *position, side: None });
        }
        Ok(taken)
    }

    /// Reads the row of a turn.
    pub(crate) async fn turn(&self, no: u64) -> Result<TurnRow, Error> {
        let rows = self.inner.read(self.inner.journal.turns(&self.loaded.key, &TurnRowQuery::No(no))).await?;
        rows.into_iter().next().ok_or_else(|| corrupt(format!("turn {no} is missing"), None))
    }

    fn ready(&self, mut turning: TurnState, beginning: RunStartState) -> PreparedTurn {
        turning.marks = beginning.marks;
        turning.making.inside = match &beginning.entered {
            RunEntry::Standing(it) => made::inside(&it.cursor),
            RunEntry::Fresh { .. } => None,
        };
        turning.numbers = beginning.numbers;
        turning.path = beginning.path;
        turning.positioned = beginning.positioned;
        turning.records = beginning.records;
        let marks = turning.marks;
        let (port, stream) = self.keep(turning, beginning.entered, beginning.claim);
        stream.begin_at(marks);
        let start = match beginning.start {
            RunTrigger::Message(message) => RunStart::Fresh {
                initial: singletree_engine::StateUpdate::new(),
                hook: Some(Box::new(port.entry(message))),
            },
            RunTrigger::Payload(payload) => RunStart::Resume { payload },
            RunTrigger::Recover => RunStart::Recover,
        };
        PreparedTurn { port, stream, start }
    }
}

impl TurnPreparation<'_> {
    pub(crate) fn keep(
        &self,
        turning: TurnState,
        entered: RunEntry,
        claim: Option<ClaimedWait>,
    ) -> (Arc<JournalPort>, TurnStream) {
        let session = self.loaded.key.session.clone();
        let (feed, clock) = (self.loaded.feed.clone(), self.inner.clock.clone());
        let shown = (feed, self.inner.limits.shown_bytes, turning.sides.clone());
        let stream = TurnStream::new(session, turning.row.id(), turning.runs_before, shown, clock);
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
fn written_by(position: &StoredPosition, head: &SessionHead) -> String {
    position.schema_version.clone().unwrap_or_else(|| version_of(head).to_owned())
}

fn version_of(head: &SessionHead) -> &str {
    if head.schema_version.is_empty() { UNVERSIONED } else { &head.schema_version }
}

fn decode(body: &singletree_durable::JsonDocument) -> Result<StoredPosition, Error> {
    body.decode().map_err(|error| {
        RunError::Position { reason: format!("the stored position is damaged: {error}") }.into()
    })
}

fn by_name(records: Vec<RecordRow>) -> Records {
    records.into_iter().map(|record| (record.name, Item::from_text(record.body.as_str()))).collect()
}

fn path_of(row: &TurnRow, marks: HistoryMarks) -> DispatchPath {
    match row.kind {
        StoredTurnKind::Message if marks.first == 0 => DispatchPath::NewSession,
        StoredTurnKind::Message => DispatchPath::ExistingSession,
        StoredTurnKind::Resume | StoredTurnKind::Close => DispatchPath::SignalResume,
    }
}
