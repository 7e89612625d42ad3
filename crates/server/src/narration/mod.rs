//! The reader of narration: a ring for each session, and nothing that decides (INV-9).
//!
//! A chat sends its narration to the sink of a [`NarrationLog`]. Only the sections of this server read it, with a
//! [`NarrationView`](view::NarrationView): the narration endpoints, and live streams that show it beside their own
//! events.

mod file;
mod follow;
mod limits;
mod log;
mod ring;
mod routes;
mod view;

pub use limits::NarrationLimits;
pub use log::NarrationLog;
pub(crate) use routes::build_section;
pub(crate) use view::NarrationView;
