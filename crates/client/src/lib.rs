//! A typed client of the server, and a strict OpenHarness shell.
//!
//! # Vocabulary
//! A *connection* is a server and a key. [`Client`] speaks the native API over one, [`EngineClient`] OpenHarness. A
//! *shell* turns the response of an engine into a *plan* of steps. A *person* reads and decides; *hands* carry actions
//! out.
//!
//! # Inside
//! `connection` sends and reads; `client`, `campaigns` and their events are the native API, `engine` is OpenHarness over HTTP with
//! `retry`. In `shell`, `plan` is pure: response in, steps out. It has no effects, so a test can compute the plan of
//! any response; `conversation` carries plans out, through a person and hands that its caller provides.
//!
//! # Example
//! ```no_run
//! use std::sync::Arc;
//! use singletree_client::{Client, Connection};
//! use singletree_http::{HttpClient, HttpLimits, Secret};
//!
//! # async fn talk() -> singletree_client::Result<()> {
//! let transport = Arc::new(HttpClient::new(HttpLimits::standard())?);
//! let connection = Connection::new(transport, "http://127.0.0.1:8787", Some(Secret::new("st_...")))?;
//! let outcome = Client::new(connection).send_text("ann", "Which day is it?", None).await?;
//! println!("{outcome:?}");
//! # Ok(())
//! # }
//! ```

mod error;

mod connection;

mod campaign_events;
mod campaigns;
mod client;
mod engine;
mod events;
mod retry;

mod shell;

pub use campaign_events::CampaignEventStream;
pub use campaigns::CampaignClient;
pub use client::{AnswerOutcome, Client};
pub use connection::Connection;
pub use engine::{DeviceKeyStatus, EngineClient};
pub use error::{Error, Result, ServerRefusal};
pub use events::EventStream;
pub use retry::EngineRetry;
pub use shell::{
    ActionExecutor, Confirmation, ConversationRound, DirectiveNote, EngineQuestion, NoActionExecutor,
    Performance, PersonInterface, ResponsePlan, ResponseStep, ShellConversation, ShellConversationParts,
    ShellProfile, ShellSession, to_plain_text,
};
