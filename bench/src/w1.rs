//! w1: one session, durable turns one after the other; time, CPU and size at marks.

use serde_json::json;
use singletree::harness::HISTORY;
use singletree::{Chat, ChatMessage, ChatTurnOutcome};

use crate::agents::{build_reply_graph, constant_reply_text, user_message_text};
use crate::args::Args;
use crate::disk::{database_bytes, database_file_bytes};
use crate::measure::{ResourceReading, ResourceUsage, figures_from_json, median, peak_rss_mib, percentile};
use crate::store::{self, OpenedChat};
use crate::{Failure, Figures, ensure};

/// The session's name.
pub(crate) const SESSION: &str = "one";

/// One turn, with its result checked: the reply, and how long the history is then.
pub(crate) async fn run_checked_turn(chat: &Chat, session: &str, n: usize) -> Result<(), Failure> {
    match chat.session(session).send(ChatMessage::user(user_message_text(n))).await {
        ChatTurnOutcome::Completed(done) => {
            let history =
                done.final_state.as_ref().and_then(|final_state| final_state.get(HISTORY)?.as_list());
            let len = history.map_or(0, |history| history.len());
            ensure(len == 2 * (n as u64 + 1), || format!("{len} messages after turn {n}"))?;
            let [said] = done.replies.as_slice() else {
                return Err(format!("{} replies to turn {n}", done.replies.len()).into());
            };
            ensure(said.text() == constant_reply_text(), || format!("turn {n} is answered {:?}", said.text()))
        }
        other => Err(format!("turn {n} ended {other:?}").into()),
    }
}

/// Checks the stored messages of a session after so many turns.
pub(crate) async fn check_stored_messages(chat: &Chat, session: &str, turns: usize) -> Result<(), Failure> {
    let Some(last) = turns.checked_sub(1) else { return Ok(()) };
    // One message more than there may be is asked for.
    let tail = chat.session(session).history(2 * last as u64..2 * last as u64 + 3).await?;
    let texts: Vec<_> = tail.iter().map(|it| it.message.text().into_owned()).collect();
    ensure(texts == [user_message_text(last), constant_reply_text()], || {
        format!("{session} ends with {texts:?}")
    })
}

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, store } = store::open_chat_variant(args, build_reply_graph()?).await?;
    let mut turns = TurnReadings::new(args.turns);
    for n in 0..args.turns {
        let before = ResourceReading::now();
        run_checked_turn(&chat, SESSION, n).await?;
        turns.add_turn_usage(before.elapsed_usage());
        if args.marks.contains(&(n + 1)) {
            turns.record_mark(args)?;
        }
    }
    check_stored_messages(&chat, SESSION, args.turns).await?;
    let mut figures = turns.into_figures()?;
    if let Some(store) = store {
        let per_turn = |sum: u64| json!(sum as f64 / args.turns as f64);
        figures.insert("commits_per_turn".into(), per_turn(store.commit_count()));
        figures.insert("bound_bytes_per_turn".into(), per_turn(store.bytes_written()));
    }
    Ok(figures)
}

/// The readings of all turns so far.
struct TurnReadings {
    wall_s: Vec<f64>,
    cpu_s: Vec<f64>,
    total: ResourceUsage,
    /// Since the last mark.
    since: ResourceUsage,
    marked: usize,
    marks: Figures,
}

impl TurnReadings {
    /// Room is made at once, so that it is not counted later.
    fn new(turns: usize) -> Self {
        let (wall_s, cpu_s) = (Vec::with_capacity(turns), Vec::with_capacity(turns));
        let (total, since) = (ResourceUsage::default(), ResourceUsage::default());
        Self { wall_s, cpu_s, total, since, marked: 0, marks: Figures::new() }
    }

    fn add_turn_usage(&mut self, span: ResourceUsage) {
        self.wall_s.push(span.wall_s);
        self.cpu_s.push(span.cpu_s);
        self.total.add(span);
        self.since.add(span);
    }

    /// Takes the reading of a mark: medians of the last turns, as every peer does, and the means since the last mark.
    fn record_mark(&mut self, args: &Args) -> Result<(), Failure> {
        let n = self.wall_s.len();
        let window = n.saturating_sub(if n <= 10 { 5 } else { 20 });
        let since = (n - self.marked) as f64;
        let mark = json!({
            "ms_per_turn": median(&self.wall_s[window..]) * 1e3,
            "cpu_ms_per_turn": median(&self.cpu_s[window..]) * 1e3,
            "db_bytes": database_bytes(&args.db)?,
            "file_bytes": database_file_bytes(&args.db)?,
            "elapsed_s": self.total.wall_s,
            "since": self.marked,
            "cpu_ms_per_turn_since": self.since.cpu_s / since * 1e3,
            "alloc_bytes_per_turn": self.since.allocated / since,
        });
        self.marks.insert(n.to_string(), mark);
        (self.since, self.marked) = (ResourceUsage::default(), n);
        Ok(())
    }

    fn into_figures(self) -> Result<Figures, Failure> {
        let n = self.wall_s.len();
        Ok(figures_from_json(json!({
            "turns": n,
            "turns_per_s": n as f64 / self.total.wall_s,
            "cpu_ms_per_turn": self.total.cpu_s / n as f64 * 1e3,
            "alloc_bytes_per_turn": self.total.allocated / n as f64,
            "p50_ms": percentile(&self.wall_s, 50.0) * 1e3,
            "p99_ms": percentile(&self.wall_s, 99.0) * 1e3,
            "marks": self.marks,
            "peak_rss_mib": peak_rss_mib()?,
        })))
    }
}
