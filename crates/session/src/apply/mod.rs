//! One transition a file: from the stored state and an event to a batch of writes. Pure: they fill a
//! [`BatchBuilder`](crate::batch::BatchBuilder).

pub mod accept;
pub mod cancel;
pub mod claim;
pub mod close;
pub mod create;
pub mod delete;
pub mod fail;
pub mod finish;
pub mod forget;
pub mod fork;
pub mod import;
pub mod keep_signal;
pub mod repair;
pub mod save;
pub mod steer;
pub mod step;
pub mod suspend;
pub mod take_over;
