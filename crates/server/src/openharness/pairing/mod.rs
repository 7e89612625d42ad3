//! Pairing: a device that has nothing gets a key of its own (spec: OpenHarness guide device-pairing-session).
//!
//! A device asks for a code and shows it. Whoever may make keys types it in: then there is a key of that tenant, which is told
//! to who confirmed and to nobody else. The device fetches its own by the id that it got with the code: that gives the key
//! another secret, and what who confirmed was told is good no more. So either of them can bring the key to the device, and no
//! secret is kept anywhere.
//!
//! A code is good for five minutes and for one use; of code and id digests are kept. Codes are few and short enough to be
//! guessed, so guesses are counted, for each tenant and in all.

mod attempts;
mod devices;
mod routes;
mod told;

use std::time::Duration;

pub(super) use routes::routes;

/// How long a code is good.
const CODE_TTL: Duration = Duration::from_mins(5);
