//! w4: every session suspends; in a new process on the same file, every one is resumed.

use std::future::Future;

use serde_json::{Map, json};
use singletree::{Answer, Chat, ChatMessage, ChatTurnOutcome, SignalAddress};

use crate::agents::{APPROVAL, build_approval_graph, constant_reply_text, user_message_text};
use crate::args::Args;
use crate::disk::database_bytes;
use crate::measure::{ResourceReading, figures_from_json, median, peak_rss_mib, percentile};
use crate::store::{self, OpenedChat};
use crate::{Failure, Figures, ensure};

pub(crate) async fn run_suspensions(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open_chat_variant(args, build_approval_graph()?).await?;
    measure_each_session(args, |n| suspend_session(&chat, n)).await
}

pub(crate) async fn run_resumptions(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open_chat_variant(args, build_approval_graph()?).await?;
    let resumed = measure_each_session(args, |n| resume_session(&chat, n)).await?;
    for n in 0..args.sessions {
        let stored = chat.session(session_name(n)).history(0..4).await?;
        let texts: Vec<_> = stored.iter().map(|item| item.message.text().into_owned()).collect();
        let whole = [user_message_text(n), constant_reply_text(), "done: yes".to_owned()];
        ensure(texts == whole, || format!("session {n} holds {texts:?}"))?;
    }
    Ok(resumed)
}

fn session_name(session: usize) -> String {
    session.to_string()
}

async fn suspend_session(chat: &Chat, n: usize) -> Result<(), Failure> {
    match chat.session(session_name(n)).send(ChatMessage::user(user_message_text(n))).await {
        ChatTurnOutcome::Suspended(it) if it.signal_descriptor.signal_id == APPROVAL => {
            let said: Vec<_> = it
                .pending_messages
                .iter()
                .map(|pending_message| pending_message.text().into_owned())
                .collect();
            ensure(said == [constant_reply_text()], || format!("session {n} said {said:?}"))
        }
        other => Err(format!("session {n} did not suspend: {other:?}").into()),
    }
}

async fn resume_session(chat: &Chat, n: usize) -> Result<(), Failure> {
    let answer = Answer::new(Map::from_iter([("decision".to_owned(), json!("yes"))]));
    let address = SignalAddress::Session { session: session_name(n), signal: APPROVAL.into() };
    let turn = chat.answer(address, answer).await?;
    match turn.outcome().await.as_ref() {
        ChatTurnOutcome::Completed(it) => {
            let last = it.replies.last().map(|reply| reply.text().into_owned());
            ensure(last.as_deref() == Some("done: yes"), || format!("session {n} ended with {last:?}"))
        }
        other => Err(format!("session {n} did not end: {other:?}").into()),
    }
}

/// Does one thing in every session, one after the other.
async fn measure_each_session<Done>(args: &Args, one: impl Fn(usize) -> Done) -> Result<Figures, Failure>
where
    Done: Future<Output = Result<(), Failure>>,
{
    ensure(args.sessions > 0, || "w4 needs sessions".into())?;
    let mut latencies = Vec::with_capacity(args.sessions);
    let before = ResourceReading::now();
    for n in 0..args.sessions {
        let before = ResourceReading::now();
        one(n).await?;
        latencies.push(before.elapsed_usage().wall_s);
    }
    let span = before.elapsed_usage();
    let (sessions, size) = (args.sessions as f64, database_bytes(&args.db)?);
    Ok(figures_from_json(json!({
        "sessions": args.sessions,
        "per_s": sessions / span.wall_s,
        "cpu_ms": span.cpu_s / sessions * 1e3,
        "ms_median": median(&latencies) * 1e3,
        "ms_p99": percentile(&latencies, 99.0) * 1e3,
        "ms_first": latencies[0] * 1e3,
        "db_bytes": size,
        "bytes_per_session": size as f64 / sessions,
        "peak_rss_mib": peak_rss_mib()?,
    })))
}
