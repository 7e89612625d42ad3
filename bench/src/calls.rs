//! calls: the time that harness, engine and mapping add to a call of a model, beside a bare call with the same bytes;
//! and the cost of a delta. The server answers at once ([`mock`](crate::mock)).

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::json;
use singletree::http::{HttpClient, HttpLimits};
use singletree::providers::{Capabilities, HttpProvider, Wire};
use singletree::{Agent, Chat, ChatEventKind, ChatMessage, ChatTurnOutcome, Graph};

use crate::args::Args;
use crate::measure::{ResourceReading, figures_from_json, median, peak_rss_mib, percentile};
use crate::mock::{MockModelServer, PIECE};
use crate::store::{self, OpenedChat};
use crate::{Failure, Figures, ensure};

/// Turns that are not measured, of each kind.
const WARM_UP: usize = 5;

/// How many messages of the user a conversation of whole calls begins with; they are the prompt's bytes.
const OPENING: usize = 50;

/// How many turns are measured in one conversation: each adds two short messages, and the prompt is to keep its size.
const TURNS_EACH: usize = 20;

/// An agent that asks the mock.
pub(crate) fn build_asking_agent(
    mock: &MockModelServer,
    answer: &str,
    streaming: bool,
) -> Result<Graph<singletree::agent::AgentState>, Failure> {
    let mut capabilities = Capabilities::of(Wire::OpenAi);
    capabilities.streaming = streaming;
    let client = Arc::new(HttpClient::new(HttpLimits::standard())?);
    let builder = HttpProvider::builder(Wire::OpenAi, "mock", client).base_url(mock.base_url(answer));
    Ok(Agent::new("asking", builder.capabilities(capabilities).build()?).graph()?)
}

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    ensure(args.turns > 0 && args.deltas > 1, || "calls needs turns, and more than one delta".into())?;
    // The bare client is made without one.
    drop(rustls::crypto::ring::default_provider().install_default());
    let bare = reqwest::Client::builder().no_proxy().http1_only().build()?;
    let mock = MockModelServer::start(&[1, args.deltas], 0)?;
    let mut all = measure_whole_answers(args, &mock, &bare).await?;
    all.extend(measure_streamed_deltas(args, &mock, &bare).await?);
    all.insert("peak_rss_mib".into(), json!(peak_rss_mib()?));
    Ok(all)
}

/// Whole answers to a long conversation: a turn and a bare call with the same bytes take turns.
async fn measure_whole_answers(
    args: &Args,
    mock: &MockModelServer,
    bare: &reqwest::Client,
) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } =
        store::open_chat_variant(args, build_asking_agent(mock, "whole", false)?).await?;
    let said = "m".repeat(args.prompt_bytes / OPENING);
    let (mut turns, mut bares, mut over, mut by) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for n in 0..args.turns + WARM_UP {
        let session = format!("s{}", n / TURNS_EACH);
        for _ in 0..if n % TURNS_EACH == 0 { OPENING } else { 0 } {
            run_turn(&chat, &session, &said).await?;
        }
        let before = ResourceReading::now();
        run_turn(&chat, &session, "And now?").await?;
        let ours = before.elapsed_usage().wall_s * 1e6;
        let body = mock.last_body();
        ensure(body.len() >= args.prompt_bytes, || format!("only {} bytes were sent", body.len()))?;
        let before = ResourceReading::now();
        let got = post_bare_request(bare, &mock.base_url("whole"), body).await?.bytes().await?;
        let theirs = before.elapsed_usage().wall_s * 1e6;
        ensure(!got.is_empty(), || "the bare call got nothing".into())?;
        if n >= WARM_UP {
            turns.push(ours);
            bares.push(theirs);
            over.push(ours - theirs);
            by.push(ours / theirs);
        }
    }
    Ok(figures_from_json(json!({
        "prompt_bytes": mock.last_body().len(),
        "turns": args.turns,
        "turn_us": percentile(&turns, 50.0),
        "turn_us_p99": percentile(&turns, 99.0),
        "bare_us": percentile(&bares, 50.0),
        "overhead_us": percentile(&over, 50.0),
        "by_bare": median(&by),
    })))
}

/// A long streamed answer and one of one delta take turns, each in a session of its own, somebody listening; and the
/// same bytes read by a bare client.
async fn measure_streamed_deltas(
    args: &Args,
    mock: &MockModelServer,
    bare: &reqwest::Client,
) -> Result<Figures, Failure> {
    let long = format!("deltas-{}", args.deltas);
    let mut times = Vec::new();
    for (answer, count) in [("deltas-1", 1), (long.as_str(), args.deltas)] {
        let folder = args.db.with_extension(answer);
        let args = Args { db: folder, ..args.clone() };
        let OpenedChat { chat, .. } =
            store::open_chat_variant(&args, build_asking_agent(mock, answer, true)?).await?;
        let url = mock.base_url(answer);
        let (mut turns, mut bares) = (Vec::new(), Vec::new());
        for n in 0..args.turns + WARM_UP {
            let before = ResourceReading::now();
            run_turn_with_listener(&chat, &format!("s{n}"), count).await?;
            let ours = before.elapsed_usage().wall_s * 1e6;
            let body = mock.last_body();
            let before = ResourceReading::now();
            let mut pieces = post_bare_request(bare, &url, body).await?.bytes_stream();
            let mut bytes = 0;
            while let Some(piece) = pieces.next().await {
                bytes += piece?.len();
            }
            ensure(bytes > count * PIECE.len(), || format!("the bare call got {bytes} bytes"))?;
            if n >= WARM_UP {
                turns.push(ours);
                bares.push(before.elapsed_usage().wall_s * 1e6);
            }
        }
        times.push([median(&turns), median(&bares)]);
    }
    let [[short, bare_short], [long, bare_long]] = times[..] else {
        return Err("two kinds were timed".into());
    };
    let more = (args.deltas - 1) as f64;
    Ok(figures_from_json(json!({
        "deltas": args.deltas,
        "us_per_delta": (long - short) / more,
        "bare_us_per_delta": (bare_long - bare_short) / more,
        "streamed_turn_us": short,
    })))
}

async fn post_bare_request(
    bare: &reqwest::Client,
    base: &str,
    body: bytes::Bytes,
) -> Result<reqwest::Response, Failure> {
    let request = bare.post(format!("{base}/v1/chat/completions")).header("content-type", "application/json");
    Ok(request.body(body).send().await?.error_for_status()?)
}

async fn run_turn(chat: &Chat, session: &str, text: &str) -> Result<(), Failure> {
    let outcome = chat.session(session).send(ChatMessage::user(text)).await;
    let ChatTurnOutcome::Completed(done) = outcome else {
        return Err(format!("a turn ended {outcome:?}").into());
    };
    let said: Vec<_> = done.replies.iter().map(|reply| reply.text()).collect();
    ensure(said == [PIECE], || format!("a turn is answered {said:?}"))
}

/// One turn with somebody who listens to every piece.
pub(crate) async fn run_turn_with_listener(chat: &Chat, session: &str, count: usize) -> Result<(), Failure> {
    let events = chat.session(session).stream(ChatMessage::user("Say much.")).await;
    let mut events = std::pin::pin!(events.map_err(|error| format!("not accepted: {error:?}"))?);
    let (mut shown, mut kept) = (String::new(), None);
    while let Some(event) = events.next().await {
        match event?.what {
            ChatEventKind::Delta { text, so_far, .. } => {
                if so_far {
                    shown.clear();
                }
                shown.push_str(&text);
            }
            ChatEventKind::MessageAppended { message, .. } => kept = Some(message.text().into_owned()),
            _ => {}
        }
    }
    let whole = PIECE.repeat(count);
    ensure(kept.as_deref() == Some(&whole), || {
        format!("{} of {} bytes are kept", kept.map_or(0, |kept| kept.len()), whole.len())
    })?;
    ensure(shown == whole, || format!("{} of {} bytes were shown", shown.len(), whole.len()))
}
