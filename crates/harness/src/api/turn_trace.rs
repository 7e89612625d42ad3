//! The trace of a turn, read from the records that its commits stored (spec: observability §4).

use std::collections::HashMap;
use std::sync::Arc;

use singletree_durable::{
    EventRow, LoggedTurn, LoggedTurnQuery, SessionId, SessionKey, TenantId, TurnRow, TurnRowQuery,
    WaitRowQuery,
};
use singletree_engine::Identity;
use singletree_session::{
    OutcomeRecord, StoredOutcome, StoredTrace, TelemetryPiece, TelemetryRecord, TurnId, TurnRowExt,
};
use singletree_telemetry::{
    SpanId, SpanSettings, StoredTurn, StoredTurnEnding, TraceContext, TraceId, TraceSampling, TraceSpan,
    TurnPiece, render_spans,
};

use crate::api::chat::Chat;
use crate::runtime::unsent_turns::{UnsentTurn, UnsentTurns};
use crate::turn::caller_trace::{is_first_turn_event, span_id_seed};
use crate::{Error, Result};

/// How many events are read at once.
const PAGE: u64 = 256;
/// How many events are read first of a turn whose last one is known.
const FIRST_PAGE: u64 = 8;

/// The stored records of a turn, from which its spans are rendered.
///
/// Rendering needs nothing else, so that the same turn gives the same spans, with the same ids, in every process and at any
/// time. The trace is that of the invocation: the turns of one that waited are in one trace, each below the one before it.
#[derive(Debug, Clone)]
pub struct TurnTrace {
    /// The turn.
    pub turn: TurnId,
    /// Its number in the session.
    pub no: u64,
    /// Its session.
    pub session: SessionId,
    /// The agent that ran it.
    pub agent: String,
    /// Whether it has ended: until then there may be more records later.
    pub is_ended: bool,
    /// Whether the turn has no records: it ran where none were stored, or its log is not kept any more.
    pub is_partial: bool,
    pub(super) stored: StoredTurn,
    /// The seed of the ids of its spans.
    seed: Vec<u8>,
    /// The seed of the ids of the turn that it resumes.
    earlier: Option<Vec<u8>>,
    caller: Option<CallerTrace>,
}

/// The trace in which an invocation was called.
#[derive(Debug, Clone)]
struct CallerTrace {
    context: TraceContext,
    state: Option<Arc<str>>,
}

impl TurnTrace {
    /// Returns the id of the trace that the spans of the turn are in, but for those of detached units.
    #[must_use]
    pub fn trace_id(&self, settings: &SpanSettings) -> TraceId {
        self.with_caller(settings).trace_of(&self.stored.identity)
    }

    /// Returns the context in which the invocation was called, where it was called in a trace.
    #[must_use]
    pub fn caller(&self) -> Option<TraceContext> {
        self.caller.as_ref().map(|caller| caller.context)
    }

    /// Tells whether the trace of the invocation is exported.
    #[must_use]
    pub fn is_in_sample(&self, sampling: &TraceSampling) -> bool {
        sampling.includes(&self.agent, self.trace_id(&SpanSettings::new()), self.caller())
    }

    fn with_caller(&self, settings: &SpanSettings) -> SpanSettings {
        match self.caller() {
            Some(caller) => settings.clone().caller_context(caller),
            None => settings.clone(),
        }
    }

    /// Renders the spans of the turn, in the order in which they ended.
    ///
    /// Payloads are there if the settings want them and the texts were read ([`Self::with_texts`]). The messages of errors
    /// and the metadata of waits are never there.
    #[must_use]
    pub fn render_spans(&self, settings: &SpanSettings) -> Vec<TraceSpan> {
        let settings = self.with_caller(settings);
        let mut settings = settings.id_seed(self.seed.clone());
        if self.stored.texts.is_none() {
            settings = settings.disable_provider_payload(true);
        }
        if let Some(earlier) = &self.earlier {
            settings = settings.goes_on_with(SpanId::of_invocation(earlier));
        }
        let mut spans = render_spans(&self.stored.to_events(), &settings);
        keep_last_of_each_id(&mut spans);
        if let Some(caller) = &self.caller {
            caller.write_state(&mut spans);
        }
        let root = SpanId::of_invocation(&self.seed);
        for span in spans.iter_mut().filter(|span| span.span_id == root) {
            let mut set = |name: &'static str, value: singletree_telemetry::AttributeValue| {
                span.attributes.insert(name.into(), value);
            };
            set("singletree.agent", self.agent.as_str().into());
            set("singletree.turn", self.turn.to_string().as_str().into());
            if self.is_partial {
                set("singletree.telemetry.partial", true.into());
            }
            let left_out = self.stored.left_out_count();
            if left_out > 0 {
                set("singletree.telemetry.left_out", left_out.into());
            }
        }
        spans
    }
}

/// The pieces of a turn that the log has.
#[derive(Debug, Default)]
struct TurnPieces {
    pieces: Vec<TurnPiece>,
    caller: Option<CallerTrace>,
}

impl CallerTrace {
    /// Reads it from the first event of a turn of the invocation.
    fn read_from(first: &EventRow) -> Option<Self> {
        let headers = StoredTrace::read_from(first)?;
        let context = TraceContext::from_header(headers.traceparent())?;
        Some(Self { context, state: headers.tracestate().map(Arc::from) })
    }

    /// Gives the `tracestate` to the spans of the caller's trace; detached units are in others.
    fn write_state(&self, spans: &mut [TraceSpan]) {
        for span in spans.iter_mut().filter(|span| span.trace_id == self.context.trace_id) {
            span.trace_state.clone_from(&self.state);
        }
    }
}

/// Keeps the last span of each id: a call that was recorded before its process died may have been made again.
fn keep_last_of_each_id(spans: &mut Vec<TraceSpan>) {
    let last: HashMap<_, _> = spans.iter().enumerate().map(|(at, span)| (span.span_id, at)).collect();
    let mut at = 0;
    spans.retain(|span| {
        at += 1;
        last.get(&span.span_id) == Some(&(at - 1))
    });
}

impl UnsentTurn {
    /// As [`Chat::turn_trace`], with fewer reads: the note says where the records of the turn are.
    ///
    /// # Errors
    /// As [`Chat::turn_trace`].
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn read_trace(&self, chat: &Chat) -> Result<TurnTrace> {
        let key = SessionKey::new(chat.served_tenant()?.clone(), self.session.clone());
        chat.read_turn_trace(&key, &self.turn, Some((self.no, self.last_event))).await
    }

    /// Returns how its row and its last events are read; none of one that resumes another, of which that one is needed, too.
    fn to_query(&self, tenant: &TenantId) -> Option<LoggedTurnQuery> {
        let key = || SessionKey::new(tenant.clone(), self.session.clone());
        let past = self.last_event.saturating_add(1);
        let from = past.saturating_sub(FIRST_PAGE);
        let query = || LoggedTurnQuery { key: key(), no: self.no, from, limit: past - from };
        (self.turn.ordinal == 0).then(query)
    }
}

impl Chat {
    /// Returns who tells of ended turns whose traces are to be exported
    /// ([`ChatBuilder::note_unsent_turns`](crate::ChatBuilder::note_unsent_turns)). All handles share one list of
    /// tenants: each tenant is told once.
    #[must_use]
    pub fn unsent_turns(&self) -> UnsentTurns {
        self.inner.unsent_turns.clone()
    }

    /// Reads the records of a turn that its spans are rendered from, also while it runs: then those of its commits so far.
    ///
    /// # Errors
    /// `chat_turn_unknown`, `chat_tenant_foreign`, `store_unavailable` and its kin, `store_corrupt`.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn turn_trace(&self, turn: &TurnId) -> Result<TurnTrace> {
        let unknown = || Error::TurnUnknown { turn: turn.to_string() };
        let (inner, tenant) = (&self.inner, self.served_tenant()?);
        let found = inner.journal.find_session_of_invocation(tenant, &turn.invocation);
        let key = inner.await_store_read(found).await?.ok_or_else(unknown)?;
        self.read_turn_trace(&key, turn, None).await
    }

    /// As [`UnsentTurn::read_trace`] of each of them, in their order, by as few reads as the store has for them. All are in
    /// memory together.
    ///
    /// # Errors
    /// `chat_tenant_foreign`; those of the store: with `store_corrupt`, one of them has a row that cannot be read. Those of
    /// single turns stand in their places.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn unsent_traces(&self, turns: &[UnsentTurn]) -> Result<Vec<Result<TurnTrace>>> {
        let (inner, tenant) = (&self.inner, self.served_tenant()?);
        let queries: Vec<_> = turns.iter().filter_map(|turn| turn.to_query(tenant)).collect();
        let mut read = inner.await_store_read(inner.journal.read_logged_turns(&queries)).await?.into_iter();
        let mut traces = Vec::with_capacity(turns.len());
        for turn in turns {
            let logged = if turn.turn.ordinal == 0 { read.next() } else { None };
            let key = SessionKey::new(tenant.clone(), turn.session.clone());
            traces.push(match logged {
                Some(logged) => self.build_logged_trace(&key, turn, logged).await,
                None => turn.read_trace(self).await,
            });
        }
        Ok(traces)
    }

    /// Makes the trace of a turn that resumes none from its row and its last events.
    async fn build_logged_trace(
        &self,
        key: &SessionKey,
        turn: &UnsentTurn,
        logged: LoggedTurn,
    ) -> Result<TurnTrace> {
        let is_it = |row: &TurnRow| row.invocation == turn.turn.invocation && row.ordinal == 0;
        let Some(row) = logged.turn.filter(is_it) else {
            return Err(Error::TurnUnknown { turn: turn.turn.to_string() });
        };
        let events = logged.events;
        let end = events.partition_point(|event| event.seq <= turn.last_event);
        let mut pieces = Vec::new();
        let pieces = match take_pieces_back(&events[..end], row.no, &mut pieces) {
            Some(caller) => {
                pieces.reverse();
                TurnPieces { pieces, caller }
            }
            // Its first event is farther back.
            None => self.read_pieces_back_from(key, &row, turn.last_event).await?,
        };
        self.build_trace(key, (&row, None), pieces).await
    }

    /// Reads a turn; of one that has ended, its number and that of its last event may be known.
    async fn read_turn_trace(
        &self,
        key: &SessionKey,
        turn: &TurnId,
        ended: Option<(u64, u64)>,
    ) -> Result<TurnTrace> {
        let inner = &self.inner;
        let query = match ended {
            // It resumes none.
            Some((no, _)) if turn.ordinal == 0 => TurnRowQuery::No(no),
            _ => TurnRowQuery::Invocation(turn.invocation.clone()),
        };
        let rows = inner.await_store_read(inner.journal.read_turns(key, &query)).await?;
        let of = |ordinal: u32| {
            rows.iter().find(|row| row.invocation == turn.invocation && row.ordinal == ordinal)
        };
        let row = of(turn.ordinal).ok_or_else(|| Error::TurnUnknown { turn: turn.to_string() })?;
        let earlier = turn.ordinal.checked_sub(1).and_then(of);
        let pieces = match ended {
            Some((_, last)) => self.read_pieces_back_from(key, row, last).await?,
            None => self.read_telemetry_pieces(key, row).await?,
        };
        self.build_trace(key, (row, earlier), pieces).await
    }

    /// Makes the trace of a turn, and of the one that it resumes.
    async fn build_trace(
        &self,
        key: &SessionKey,
        (row, earlier): (&TurnRow, Option<&TurnRow>),
        TurnPieces { pieces, caller }: TurnPieces,
    ) -> Result<TurnTrace> {
        let epoch = &self.inner.epoch;
        let is_partial = pieces.is_empty();
        let pieces = if is_partial { vec![piece_without_records(row)] } else { pieces };
        let identity = Identity {
            invocation_id: row.invocation.clone(),
            correlation_id: row.invocation.to_string(),
            session_id: Some(key.session.clone()),
        };
        Ok(TurnTrace {
            turn: row.turn_id(),
            no: row.no,
            session: key.session.clone(),
            agent: row.agent.clone(),
            is_ended: row.status.is_ended(),
            is_partial,
            stored: StoredTurn {
                identity: Arc::new(identity),
                label: Some(row.agent.as_str().into()),
                resumed: row.ordinal > 0,
                pieces,
                ending: self.read_trace_ending(key, row).await?,
                texts: None,
            },
            seed: span_id_seed(epoch, key, row.no),
            earlier: earlier.map(|row| span_id_seed(epoch, key, row.no)),
            caller,
        })
    }

    /// Reads the pieces of a turn: those of its events, from its first to its last, and those that no event has yet.
    async fn read_telemetry_pieces(&self, key: &SessionKey, row: &TurnRow) -> Result<TurnPieces> {
        let inner = &self.inner;
        let numbers = inner.await_store_read(inner.journal.read_counters(key)).await?;
        let Some(mut from) = self.find_first_event(key, numbers.events, row.no).await? else {
            return Ok(TurnPieces::default());
        };
        let (mut pieces, mut caller, mut is_over) = (Vec::new(), None, false);
        while !is_over {
            let events = inner.await_store_read(inner.journal.read_events(key, from, PAGE)).await?;
            let Some(last) = events.last() else { break };
            from = last.seq + 1;
            for event in events.iter().filter(|event| event.turn == row.no) {
                if is_first_turn_event(event) {
                    caller = CallerTrace::read_from(event);
                }
                pieces.extend(TelemetryPiece::read_from(event).map(|json| TurnPiece { at: event.at, json }));
                is_over |= singletree_session::event_kinds::ends_turn(&event.kind);
            }
        }
        if !is_over {
            let rows = inner.await_store_read(inner.journal.read_turn_records(key, row.no)).await?;
            let records = rows.iter().map(|record| (record.name.as_str(), record.body.as_str()));
            let interim = TelemetryRecord::read_from(records);
            pieces.extend(interim.into_iter().map(|it| TurnPiece { at: it.at, json: it.piece }));
        }
        Ok(TurnPieces { pieces, caller })
    }

    /// Reads the pieces of an ended turn backwards from its last event, with which its other events usually are. None of a
    /// turn whose first event is not kept.
    async fn read_pieces_back_from(&self, key: &SessionKey, row: &TurnRow, last: u64) -> Result<TurnPieces> {
        let inner = &self.inner;
        let (mut to, mut size, mut pieces) = (last.saturating_add(1), FIRST_PAGE, Vec::new());
        loop {
            let from = to.saturating_sub(size);
            let mut events = inner.await_store_read(inner.journal.read_events(key, from, to - from)).await?;
            // Where some are not kept, later ones are read in their place.
            events.retain(|event| event.seq < to);
            if let Some(caller) = take_pieces_back(&events, row.no, &mut pieces) {
                pieces.reverse();
                return Ok(TurnPieces { pieces, caller });
            }
            if from == 0 || events.first().is_none_or(|event| event.seq > from) {
                return Ok(TurnPieces::default());
            }
            (to, size) = (from, PAGE);
        }
    }

    async fn read_trace_ending(
        &self,
        key: &SessionKey,
        row: &TurnRow,
    ) -> Result<Option<(singletree_durable::Timestamp, StoredTurnEnding)>> {
        let (Some(at), Some(ended)) = (row.ended_at, StoredOutcome::from_turn_row(row)?) else {
            return Ok(None);
        };
        let how = match ended.recorded {
            OutcomeRecord::Completed(_) => StoredTurnEnding::Completed,
            OutcomeRecord::Errored { category, .. } => StoredTurnEnding::Failed(category),
            OutcomeRecord::Suspended { wait, .. } => {
                let query = WaitRowQuery::Invocation(key.tenant.clone(), row.invocation.clone());
                let waits = self.inner.await_store_read(self.inner.journal.read_waits(&query)).await?;
                let signal = waits.into_iter().find(|(_, it)| it.no == wait).map(|(_, it)| it.signal);
                StoredTurnEnding::Suspended(signal.unwrap_or_default())
            }
        };
        Ok(Some((at, how)))
    }
}

/// Takes the pieces of a turn from events, from the last one back. Returns the context in which it was called once its
/// first event is reached.
fn take_pieces_back(
    events: &[EventRow],
    turn: u64,
    pieces: &mut Vec<TurnPiece>,
) -> Option<Option<CallerTrace>> {
    for event in events.iter().rev().filter(|event| event.turn == turn) {
        pieces.extend(TelemetryPiece::read_from(event).map(|json| TurnPiece { at: event.at, json }));
        if is_first_turn_event(event) {
            return Some(CallerTrace::read_from(event));
        }
    }
    None
}

/// Returns a piece that says no more than that the turn was accepted.
fn piece_without_records(row: &TurnRow) -> TurnPiece {
    TurnPiece { at: row.accepted_at, json: StoredTurn::piece_of_start(&row.agent) }
}
