//! One transition a file: from the stored state and an event to a batch of writes. Pure: they fill a
//! [`BatchBuilder`](crate::session::batch::BatchBuilder).

pub(crate) mod accept;
pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod close;
pub(crate) mod fail;
pub(crate) mod finish;
pub(crate) mod fork;
pub(crate) mod save;
pub(crate) mod step;
pub(crate) mod suspend;
pub(crate) mod take_over;
