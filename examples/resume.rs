//! A turn suspends in one process and goes on in another, days later. Run it twice.
//!
//! ```sh
//! cargo run -p singletree --example resume -- chat.db
//! cargo run -p singletree --example resume -- chat.db
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use singletree::{
    Chat, ChatMessage, ChatTurnOutcome, Ctx, END, Graph, Messages, NodeResult, Signal, SqliteStore, State,
};

#[derive(State)]
struct Booking {
    #[state(append)]
    messages: Messages,
    seat: Option<String>,
}

async fn ask(cx: Ctx<Booking>) -> NodeResult<Booking> {
    cx.suspend(Signal::new("seat").with("question", "Window or aisle?")).await // the process may end here
}

async fn book(cx: Ctx<Booking>) -> NodeResult<Booking> {
    let seat = cx.state().seat.clone().unwrap_or_else(|| "any".to_owned());
    Ok(Booking::update().messages([ChatMessage::assistant(format!("Booked: {seat} seat."))]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: resume FILE")?;
    let graph = Graph::<Booking>::builder()
        .node("ask", ask)
        .node("book", book)
        .edge("ask", "book")
        .edge("book", END)
        .entry("ask")
        .compile()?;
    let chat = Chat::new(graph, SqliteStore::open(&file).await?)?;

    // A turn that another process left running goes on; a wait that it left open can be answered here.
    let Some(wait) = chat.pending(1).await?.pop() else {
        let outcome = chat.session("conv-1").send("Book a flight.").await;
        println!("{}: run me again, today or in a year", outcome.as_str());
        return Ok(());
    };
    println!(
        "{}",
        wait.descriptor.metadata.clone().unwrap_or_default()["question"].as_str().unwrap_or_default()
    );
    let outcome = wait.respond(wait.answer([("seat", "window")])).await?;
    let ChatTurnOutcome::Completed(done) = outcome else { panic!("{outcome:?}") };
    done.replies.iter().for_each(|reply| println!("{}", reply.text()));
    Ok(())
}
