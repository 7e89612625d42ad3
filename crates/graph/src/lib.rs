//! The values of a graph's state, and positions of a run, as plain data.
//!
//! A state is a [`Snapshot`]: a [`StateSchema`], and one [`FieldContent`] for each of its fields. A node returns a
//! [`StateUpdate`]; the fields' [`Reducer`]s merge it into the next snapshot. A [`GraphCursor`] names where a run stands.
//!
//! The engine runs graphs over these values, and the session core stores them. This crate has no tasks, no clock and no
//! I/O (checked by: tidy).
//!
//! # Invariants
//! INV-4, INV-5, INV-11 (see ARCHITECTURE.md).

mod cursor;
mod field;
mod finite;
mod guard;
mod item;
mod lineage;
mod list;
mod progress;
mod reducer;
mod schema;
mod shape;
mod slot;
mod snapshot;
mod state;
mod update;
mod wait;

pub use cursor::{CursorFrame, FramePosition, GraphCursor};
pub use field::{FieldFault, JsonField, SharedList, StateField, StateListField, declare_field, read_field};
pub use guard::catch_panic;
pub use item::Item;
pub use lineage::{LineageBoundary, NodeLineage};
pub use list::PersistentList;
pub use progress::{
    ContainerProgress, Fields, Identity, MemberProgress, PausedRun, RunCheckpoint, RunProgress, SessionState,
    StoredRun,
};
pub use reducer::{CustomReducer, KeyExtractor, Reducer, ReducerFault};
pub use schema::{FieldSpec, StateSchema, UNVERSIONED, ValueCheck};
pub use shape::FieldShape;
pub use slot::FieldContent;
pub use snapshot::{MergeFault, Snapshot};
pub use state::{DeclaredState, OfState, State};
pub use update::StateUpdate;
pub use wait::{Deadline, Descriptor, WaitTerms};
