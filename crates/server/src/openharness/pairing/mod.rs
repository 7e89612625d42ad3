//! Pairing: a new device gets a key of its own (spec: OpenHarness guide device-pairing-session).
//!
//! A device asks for a code and shows it. A caller with the right to make keys enters the code. This makes a key of
//! the caller's tenant, or of the one that an operator names; its secret is shown to that caller only. The device
//! fetches its key by the id that it got with the code. This gives the key another secret, and the one that the
//! caller was shown becomes invalid. So either of them can bring the key to the device, and no secret is stored
//! anywhere.
//!
//! A code is valid for five minutes and for one use; only digests of the code and the id are stored. Codes are short
//! enough to be guessed, so wrong codes are counted, for each tenant and in all.

mod attempts;
mod devices;
mod routes;
mod told;

use std::time::Duration;

pub(super) use routes::pairing_routes;

/// The lifetime of a code.
const CODE_TTL: Duration = Duration::from_mins(5);
