//! Sends the traces of turns of a time that is over, whether they were sent before or not.

use singletree_durable::{DocumentKey, TenantId, Timestamp};
use singletree_harness::{Chat, SessionInfo, TurnInfo, UnsentTurn};

use crate::error::{Error, Result};
use crate::exporter::{SPANS, TraceExporter};
use crate::sending::{RenderedTurns, send_turns};

/// How many sessions and turns are read at once.
const PAGE: u64 = 200;

/// When the turns ended that a backfill sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackfillRange {
    /// Not before this time.
    pub since: Timestamp,
    /// Not after this time; none for all until now.
    pub until: Option<Timestamp>,
}

impl BackfillRange {
    fn includes(&self, ended: Option<Timestamp>) -> bool {
        ended.is_some_and(|at| at >= self.since && self.until.is_none_or(|until| at <= until))
    }
}

/// The counts of a backfill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackfillReport {
    /// Turns whose spans the receiver has taken.
    pub turns: u64,
    /// Their spans.
    pub spans: u64,
    /// Spans among them that the receiver says that it dropped.
    pub rejected_spans: u64,
    /// Turns that the receiver refused for good.
    pub refused_turns: u64,
}

impl TraceExporter {
    /// Sends the turns of all tenants that ended within a time, as far as the sampling includes them. Turns whose records
    /// are not kept have the span of the invocation alone, which says `singletree.telemetry.partial`. Notes stay as they are.
    ///
    /// It may run beside a server. Sending a turn twice is harmless: its spans have the same ids.
    ///
    /// # Errors
    /// [`Error::category`]: those of the store; `telemetry_receiver_unavailable`, `telemetry_receiver_refused`. The turns that
    /// were sent before it stay sent.
    ///
    /// # Cancellation
    /// Dropping the future ends the request under way.
    pub async fn backfill(&self, range: BackfillRange) -> Result<BackfillReport> {
        let mut report = BackfillReport::default();
        let mut past: Option<TenantId> = None;
        loop {
            let tenants = self.chat().tenants(past.as_ref(), PAGE).await?;
            let Some(last) = tenants.last() else { return Ok(report) };
            past = Some(last.clone());
            for tenant in tenants {
                self.backfill_tenant(&tenant, range, &mut report).await?;
            }
        }
    }

    async fn backfill_tenant(
        &self,
        tenant: &TenantId,
        range: BackfillRange,
        report: &mut BackfillReport,
    ) -> Result<()> {
        let chat = self.chat().of(tenant.clone());
        let (mut rendered, mut from) = (RenderedTurns::default(), None);
        loop {
            let page = chat.sessions(from.as_deref(), PAGE).await?;
            for session in &page.items {
                for turn in turns_of_session(&chat, session, range).await? {
                    let read = chat.turn_trace(&turn.id).await;
                    let Some(spans) = self.render_if_wanted(&chat, read).await? else { continue };
                    let name = DocumentKey::new(tenant.clone(), UnsentTurn::KIND, turn.id.to_string());
                    rendered.add_turn(name, spans);
                    if rendered.span_count() >= SPANS {
                        self.send_part(std::mem::take(&mut rendered), report).await?;
                    }
                }
            }
            from = page.next;
            if from.is_none() {
                return self.send_part(rendered, report).await;
            }
        }
    }

    async fn send_part(&self, rendered: RenderedTurns, report: &mut BackfillReport) -> Result<()> {
        let sent = send_turns(self.receiver(), &rendered).await;
        report.turns += sent.taken.len() as u64;
        report.spans += sent.taken_spans as u64;
        report.rejected_spans += sent.rejected_spans;
        report.refused_turns += sent.refused.len() as u64;
        match sent.not_taken {
            Some(refusal) => Err(Error::Receiver { refusal }),
            None => Ok(()),
        }
    }
}

/// Reads the turns of a session that ended within a time.
async fn turns_of_session(chat: &Chat, session: &SessionInfo, range: BackfillRange) -> Result<Vec<TurnInfo>> {
    let (mut turns, mut from) = (Vec::new(), Some(0));
    while let Some(no) = from {
        let page = match chat.session(session.session.as_str()).turns(no, PAGE).await {
            Ok(page) => page,
            // It was deleted meanwhile.
            Err(singletree_harness::Error::SessionUnknown { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        turns.extend(page.items.into_iter().filter(|turn| range.includes(turn.ended_at)));
        from = page.next;
    }
    Ok(turns)
}
