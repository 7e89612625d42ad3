//! The reader of narration: a ring for each session, and nothing that decides (INV-9).
//!
//! What a chat narrates goes into a [`NarrationLog`] by its sink. Sections of this server, and nobody else, look at it by a
//! [`NarrationView`](view::NarrationView): the endpoints of narration, and live streams that show it beside what they tell.

mod file;
mod follow;
mod limits;
mod log;
mod ring;
mod routes;
mod view;

pub use limits::NarrationLimits;
pub use log::NarrationLog;
pub(crate) use routes::section;
pub(crate) use view::NarrationView;
