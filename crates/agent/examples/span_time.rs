//! How long the spans of a turn take to be rendered from its stored records: an agent that calls two tools.
//!
//! `cargo run --release -p singletree-agent --example span_time`

use std::sync::Arc;
use std::time::Instant;

use singletree_agent::Agent;
use singletree_durable::MemoryStore;
use singletree_env::SystemClock;
use singletree_harness::{Chat, ChatTurnOutcome};
use singletree_llm::{ChatMessage, Script, ScriptedProvider};
use singletree_telemetry::{SpanProfile, SpanSettings};
use singletree_tools::{ClockTool, Tool, ToolLimits, Toolbox};

/// How often the turn is rendered.
const TIMES: u32 = 20_000;

const SCRIPT: &str = r#"{ "model": "script", "rules": [
    { "when": { "user": ["time"] }, "then": { "calls": [
        { "tool": "clock", "arguments": {} }, { "tool": "clock", "arguments": {} } ] } },
    { "when": { "results": "any" }, "then": { "reply": "It is late." } } ] }"#;

#[tokio::main(flavor = "current_thread")]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock and shows figures"
)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let clock: Arc<dyn Tool> = Arc::new(ClockTool::new(Arc::new(SystemClock))?);
    let toolbox = Toolbox::new(vec![clock], ToolLimits::standard())?;
    let agent = Agent::new("agent", Arc::new(model)).instructions("Be brief.").toolbox(toolbox);
    let chat = Chat::builder().agent(agent).open(MemoryStore::new())?;
    let outcome = chat.session("s").send(ChatMessage::user("time")).await;
    let ChatTurnOutcome::Completed(turn) = outcome else { return Err("the turn does not complete".into()) };
    let trace = chat.turn_trace(&turn.turn).await?;
    for profile in [SpanProfile::OpenArmature, SpanProfile::GenAi] {
        let settings = SpanSettings::new().profile(profile);
        let spans = trace.render_spans(&settings).len();
        let begun = Instant::now();
        for _ in 0..TIMES {
            assert_eq!(std::hint::black_box(trace.render_spans(&settings)).len(), spans);
        }
        let micros = begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES) / spans as f64;
        println!("{profile:?}: {spans} spans of a turn, {micros:.2} µs a span (bound 5)");
    }
    Ok(())
}
