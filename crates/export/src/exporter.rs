//! The loop of an export: notes are read, their turns rendered and sent, and the notes removed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{DocumentStore, Error as StoreError, TenantId, Timestamp};
use singletree_env::Env;
use singletree_harness::{Chat, Error, TurnTrace, UnsentTurn};
use singletree_telemetry::{SpanReceiver, SpanRefusal, SpanSettings, TraceSampling, TraceSpan};

use crate::backlog::{BacklogNote, PAGE, read_page, remove_notes, split_by_bytes, trim_backlog};
use crate::claim::ExportClaims;
use crate::counts::{ExportCounters, ExportCounts, ExportProblem, SkipReason};
use crate::limits::ExportLimits;
use crate::sending::{RenderedTurns, send_turns};

/// How many tenants are listed at once.
const TENANTS: u64 = 256;
/// How many spans are held before they are sent, apart from those of the turn that goes beyond it.
pub(crate) const SPANS: usize = 1024;
/// How long to wait before the turns of a tenant that another process exports are looked at again.
const CLAIM_RETRY: Duration = Duration::from_secs(5);

/// Hears of problems.
pub type OnExportProblem = Arc<dyn Fn(&ExportProblem) + Send + Sync>;

/// Removes secrets from a text.
pub type RedactText = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Exports the traces of the turns of all tenants that a chat serves, in processes that share a database one tenant at a
/// time.
///
/// The chat must be one that notes its unsent turns
/// ([`ChatBuilder::note_unsent_turns`](singletree_harness::ChatBuilder::note_unsent_turns)).
pub struct TraceExporter {
    chat: Chat,
    documents: Arc<dyn DocumentStore>,
    receiver: Arc<dyn SpanReceiver>,
    env: Env,
    spans: SpanSettings,
    sampling: TraceSampling,
    limits: ExportLimits,
    /// Where other processes have the same database.
    claims: Option<ExportClaims>,
    on_problem: OnExportProblem,
    redact: Option<RedactText>,
    counters: Arc<ExportCounters>,
}

/// How much of a tenant's backlog a pass has exported.
enum TenantPass {
    /// Nothing is left.
    Empty,
    /// There may be more.
    More,
    /// Another process exports it.
    ClaimedElsewhere,
    /// The receiver or the store takes nothing for so long.
    Interrupted(Duration),
}

impl TraceExporter {
    /// Makes an exporter of the turns of a chat, with the documents of the same store.
    #[must_use]
    pub fn new(
        chat: Chat,
        documents: Arc<dyn DocumentStore>,
        receiver: Arc<dyn SpanReceiver>,
        env: Env,
    ) -> Self {
        Self {
            chat,
            documents,
            receiver,
            env,
            spans: SpanSettings::new(),
            sampling: TraceSampling::new(),
            limits: ExportLimits::default(),
            claims: None,
            on_problem: Arc::new(|_| {}),
            redact: None,
            counters: Arc::default(),
        }
    }

    /// Sets how spans are rendered. With payloads, the texts of a turn are read from the history of its session, so that
    /// a text that was deleted before the export is in no span.
    #[must_use]
    pub fn spans(mut self, spans: SpanSettings) -> Self {
        self.spans = spans;
        self
    }

    /// Sets which invocations are exported.
    #[must_use]
    pub fn sampling(mut self, sampling: TraceSampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Sets the bounds.
    #[must_use]
    pub fn limits(mut self, limits: ExportLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Says that other processes export from the same database.
    #[must_use]
    pub fn shared_store(mut self) -> Self {
        self.claims = Some(ExportClaims::new(self.env.ids.generate_uuid()));
        self
    }

    /// Sets who hears of problems. It must return at once.
    #[must_use]
    pub fn on_problem(mut self, on_problem: OnExportProblem) -> Self {
        self.on_problem = on_problem;
        self
    }

    /// Sets a function that removes secrets from the texts of spans (INV-16).
    #[must_use]
    pub fn redacting(mut self, redact: RedactText) -> Self {
        self.redact = Some(redact);
        self
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> ExportCounts {
        self.counters.snapshot()
    }

    /// Exports until `shutdown` is ready: first the turns that earlier processes have left, then each soon after its end.
    ///
    /// # Cancellation
    /// When the future is dropped, or `shutdown` is ready, the request under way ends; the turns that no receiver has taken
    /// are left to the next process.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let exporting = async {
            let mut due = BTreeSet::new();
            let mut searched: Option<Timestamp> = None;
            loop {
                let now = self.env.clock.now();
                let is_search_due =
                    searched.is_none_or(|at| now.duration_since(at) >= self.limits.look_again);
                let pause = match self.run_pass(&mut due, is_search_due).await {
                    Ok(pause) => {
                        searched = if is_search_due { Some(now) } else { searched };
                        pause
                    }
                    Err(_) => Some(self.limits.retry),
                };
                match pause {
                    Some(pause) => self.env.timer.sleep_for(pause).await,
                    None => self.wait_for_turns().await,
                }
                due.extend(self.chat.unsent_turns().take_tenants());
            }
        };
        tokio::select! {
            biased;
            () = shutdown => {}
            () = exporting => {}
        }
        self.release().await;
    }

    /// Lets other processes over the same database export at once: after [`Self::run`] was dropped. Otherwise they wait
    /// for 45 seconds at most.
    ///
    /// # Cancellation
    /// Dropping the future leaves the remaining claims to their time.
    pub async fn release(&self) {
        if let Some(claims) = &self.claims {
            claims.release_all(self.documents.as_ref()).await;
        }
    }

    /// Exports the turns that wait, once: for a process that is about to end. Returns whether none is left.
    ///
    /// # Errors
    /// The store cannot be read, or a turn that was sent cannot be noted as sent.
    ///
    /// # Cancellation
    /// As of [`Self::run`].
    pub async fn flush(&self) -> Result<bool, StoreError> {
        Ok(self.run_pass(&mut BTreeSet::new(), true).await?.is_none())
    }

    /// Waits until turns have ended, or the store is to be looked at again.
    async fn wait_for_turns(&self) {
        let ended = self.chat.unsent_turns();
        tokio::select! {
            biased;
            () = ended.wait() => {}
            () = self.env.timer.sleep_for(self.limits.look_again) => return,
        }
        self.env.timer.sleep_for(self.limits.gather).await;
    }

    /// Exports the turns of the given tenants, page by page of each tenant in turn. Returns how long to wait before the next attempt, or
    /// nothing when all is done.
    async fn run_pass(
        &self,
        due: &mut BTreeSet<TenantId>,
        is_search_due: bool,
    ) -> Result<Option<Duration>, StoreError> {
        if is_search_due {
            due.extend(self.find_tenants().await?);
        }
        let mut claimed = false;
        let mut round: Vec<TenantId> = due.iter().cloned().collect();
        while !round.is_empty() {
            let mut next = Vec::new();
            for tenant in round {
                match self.export_page(&tenant).await? {
                    TenantPass::Empty => drop(due.remove(&tenant)),
                    TenantPass::More => next.push(tenant),
                    TenantPass::ClaimedElsewhere => claimed = true,
                    TenantPass::Interrupted(wait) => {
                        if is_search_due {
                            self.trim_backlogs(due).await?;
                        }
                        return Ok(Some(wait));
                    }
                }
            }
            round = next;
        }
        Ok(claimed.then_some(CLAIM_RETRY))
    }

    async fn find_tenants(&self) -> Result<Vec<TenantId>, StoreError> {
        let mut found: Vec<TenantId> = Vec::new();
        loop {
            let page = self.chat.tenants(found.last(), TENANTS).await.map_err(store_error)?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page);
        }
    }

    /// Exports the first page of a tenant's backlog.
    async fn export_page(&self, tenant: &TenantId) -> Result<TenantPass, StoreError> {
        let documents = self.documents.as_ref();
        let mut page = read_page(documents, tenant).await?;
        if page.is_empty() {
            return Ok(TenantPass::Empty);
        }
        if let Some(claims) = &self.claims {
            if !claims.claim_tenant(documents, tenant, self.env.clock.now()).await? {
                return Ok(TenantPass::ClaimedElsewhere);
            }
            // Another process may have sent these in the meantime.
            page = read_page(documents, tenant).await?;
        }
        let is_last = (page.len() as u64) < PAGE;
        let interrupted = self.export_notes(tenant, page).await?;
        let ended = interrupted.is_some() || is_last;
        if let Some(claims) = self.claims.as_ref().filter(|_| ended) {
            claims.release_tenant(documents, tenant).await;
        }
        Ok(match interrupted {
            Some(wait) => TenantPass::Interrupted(wait),
            None if is_last => TenantPass::Empty,
            None => TenantPass::More,
        })
    }

    /// Exports the turns of notes. Returns how long to wait where the receiver takes nothing.
    async fn export_notes(
        &self,
        tenant: &TenantId,
        notes: Vec<BacklogNote>,
    ) -> Result<Option<Duration>, StoreError> {
        let (chat, now) = (self.chat.of(tenant.clone()), self.env.clock.now());
        let mut rendered = RenderedTurns::default();
        let (mut keys, mut turns, mut done) = (Vec::new(), Vec::new(), Vec::new());
        let (mut aged, mut unreadable) = (0, 0);
        for note in notes {
            let is_too_old = note.is_too_old(&self.limits, now);
            aged += u64::from(is_too_old);
            match note.turn.filter(|_| !is_too_old) {
                Some(turn) => {
                    turns.push(turn);
                    keys.push(note.key);
                }
                None => {
                    unreadable += u64::from(!is_too_old);
                    done.push(note.key);
                }
            }
        }
        let mut keys = keys.into_iter();
        for part in split_by_bytes(&turns) {
            for (key, read) in keys.by_ref().take(part.len()).zip(self.read_traces(&chat, part).await?) {
                match self.render_turn(&chat, read).await? {
                    RenderResult::Spans(spans) => rendered.add_turn(key, spans),
                    RenderResult::NotWanted => done.push(key),
                    RenderResult::Unreadable => {
                        unreadable += 1;
                        done.push(key);
                    }
                }
                if rendered.span_count() >= SPANS
                    && let Some(wait) = self.send_rendered(tenant, std::mem::take(&mut rendered)).await?
                {
                    return Ok(Some(wait));
                }
            }
        }
        remove_notes(self.documents.as_ref(), done).await?;
        self.note_skipped(tenant, aged, SkipReason::Age);
        self.note_skipped(tenant, unreadable, SkipReason::Unreadable);
        self.send_rendered(tenant, rendered).await
    }

    /// Reads the traces of turns together, or one by one where a row among them cannot be read.
    async fn read_traces(
        &self,
        chat: &Chat,
        turns: &[UnsentTurn],
    ) -> Result<Vec<Result<TurnTrace, Error>>, StoreError> {
        match chat.unsent_traces(turns).await {
            Ok(traces) => return Ok(traces),
            Err(Error::Store { source }) if !is_lasting(&source) => return Err(source),
            Err(_) => {}
        }
        let mut traces = Vec::with_capacity(turns.len());
        for turn in turns {
            traces.push(turn.read_trace(chat).await);
        }
        Ok(traces)
    }

    async fn render_turn(
        &self,
        chat: &Chat,
        read: Result<TurnTrace, Error>,
    ) -> Result<RenderResult, StoreError> {
        match self.render_if_wanted(chat, read).await {
            Ok(Some(spans)) => Ok(RenderResult::Spans(spans)),
            Ok(None) => Ok(RenderResult::NotWanted),
            Err(Error::Store { source }) if !is_lasting(&source) => Err(source),
            Err(_) => Ok(RenderResult::Unreadable),
        }
    }

    /// Renders a turn; nothing of one that is not there any more, or that the sampling leaves out.
    pub(crate) async fn render_if_wanted(
        &self,
        chat: &Chat,
        read: Result<TurnTrace, Error>,
    ) -> Result<Option<Vec<TraceSpan>>, Error> {
        let trace = match read {
            Ok(trace) => trace,
            // Its session was deleted meanwhile.
            Err(Error::TurnUnknown { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if !trace.is_in_sample(&self.sampling) {
            return Ok(None);
        }
        let trace = if self.spans.wants_payloads() { trace.with_texts(chat).await? } else { trace };
        let mut spans = trace.render_spans(&self.spans);
        if let Some(redact) = &self.redact {
            spans.iter_mut().for_each(|span| span.map_texts(redact.as_ref()));
        }
        Ok(Some(spans))
    }

    pub(crate) fn chat(&self) -> &Chat {
        &self.chat
    }

    pub(crate) fn receiver(&self) -> &dyn SpanReceiver {
        self.receiver.as_ref()
    }

    /// Sends turns, and removes the notes of those that are done. Returns how long to wait where the receiver takes nothing.
    async fn send_rendered(
        &self,
        tenant: &TenantId,
        rendered: RenderedTurns,
    ) -> Result<Option<Duration>, StoreError> {
        let report = send_turns(self.receiver.as_ref(), &rendered).await;
        self.counters.count_sent(report.taken.len(), report.taken_spans, report.rejected_spans);
        if report.rejected_spans > 0 {
            let (spans, message) = (report.rejected_spans, report.message);
            (self.on_problem)(&ExportProblem::Rejected { spans, message });
        }
        let refused = report.refused.len() as u64;
        if let Some(refusal) = &report.refusal {
            self.report_not_taken(refusal, false);
        }
        let done = report.taken.into_iter().chain(report.refused).collect();
        remove_notes(self.documents.as_ref(), done).await?;
        self.note_skipped(tenant, refused, SkipReason::Refused);
        Ok(report.not_taken.map(|refusal| {
            self.counters.count_failed_attempt();
            let is_refused = matches!(refusal, SpanRefusal::Destination { .. });
            self.report_not_taken(&refusal, is_refused);
            let asked = match refusal {
                SpanRefusal::Unavailable { wait, .. } => wait.unwrap_or(self.limits.retry),
                _ => self.limits.retry_refused,
            };
            asked.max(self.limits.gather).min(self.limits.longest_wait)
        }))
    }

    fn report_not_taken(&self, refusal: &SpanRefusal, is_refused: bool) {
        (self.on_problem)(&ExportProblem::NotTaken { problem: refusal.problem().to_owned(), is_refused });
    }

    fn note_skipped(&self, tenant: &TenantId, turns: u64, reason: SkipReason) {
        if turns > 0 {
            self.counters.count_skipped(turns);
            (self.on_problem)(&ExportProblem::Skipped { tenant: tenant.clone(), turns, reason });
        }
    }

    /// Gives up the oldest turns of tenants that have more than the bound.
    async fn trim_backlogs(&self, tenants: &BTreeSet<TenantId>) -> Result<(), StoreError> {
        for tenant in tenants {
            let removed = trim_backlog(self.documents.as_ref(), tenant, self.limits.max_bytes).await?;
            self.note_skipped(tenant, removed, SkipReason::Bytes);
        }
        Ok(())
    }
}

/// The turn of a note, rendered.
enum RenderResult {
    Spans(Vec<TraceSpan>),
    /// Nothing is to be sent.
    NotWanted,
    Unreadable,
}

/// Tells whether the store would answer the same later.
fn is_lasting(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Format { .. })
}

/// Returns the store's error behind an error of the chat's.
fn store_error(error: Error) -> StoreError {
    match error {
        Error::Store { source } => source,
        error => StoreError::Unavailable { doing: "export", source: error.into() },
    }
}

impl fmt::Debug for TraceExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceExporter").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}
