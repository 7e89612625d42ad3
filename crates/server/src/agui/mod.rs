//! AG-UI: runs, interrupts and resumption as its events.
