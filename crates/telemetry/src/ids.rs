//! The ids of traces and spans: hashes of what they are of, never drawn.

use std::fmt;

use sha2::{Digest, Sha256};
use singletree_engine::{EventSource, Identity, LineageBoundary, UnitEvent};

/// The id of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span within its trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(pub [u8; 8]);

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

impl SpanId {
    /// Derives the id of an invocation's span from the seed of the run's ids ([`SpanSettings::id_seed`]).
    ///
    /// [`SpanSettings::id_seed`]: crate::SpanSettings::id_seed
    #[must_use]
    pub fn of_invocation(seed: &[u8]) -> Self {
        IdParts::of_root().span_id(seed, "invocation")
    }
}

impl TraceId {
    /// Derives the id of an invocation's trace: the digits of its id where that is a UUID, else the beginning of the
    /// SHA-256 of it (spec: observability §8.4.1).
    #[must_use]
    pub fn of_invocation(identity: &Identity) -> Self {
        let id = identity.invocation_id.as_str();
        Self(parse_uuid(id).unwrap_or_else(|| first_bytes(&Sha256::digest(id.as_bytes()))))
    }

    /// Tells whether an invocation's id is a UUID.
    pub(crate) fn is_uuid(invocation_id: &str) -> bool {
        parse_uuid(invocation_id).is_some()
    }

    /// Tells whether the trace is in a share of all traces, from 0, none, to 1, all: the last 56 bits of its id decide
    /// (W3C Trace Context, level 2). The ids of invocations are random there, and a trace of a larger share is in it
    /// whenever it is in a smaller one.
    #[must_use]
    pub fn is_in_share(self, share: f64) -> bool {
        let mut low = [0; 8];
        low[1..].copy_from_slice(&self.0[9..]);
        let place = u64::from_be_bytes(low) as f64 / (1_u64 << 56) as f64;
        share >= 1.0 || place < share
    }

    /// Derives the id of the trace of a detached unit (§4.4).
    pub(crate) fn of_detached_unit(self, place: &IdParts<'_>) -> Self {
        Self(first_bytes(&place.hash(&self.0, "detached trace")))
    }
}

/// Reads a UUID in its canonical form of 36 characters.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let dashes = [8, 13, 18, 23];
    if bytes.len() != 36 || !dashes.iter().all(|at| bytes[*at] == b'-') {
        return None;
    }
    let digits: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit)).then_some(id)
}

fn first_bytes<const N: usize>(hash: &[u8]) -> [u8; N] {
    let mut id = [0; N];
    id.copy_from_slice(&hash[..N]);
    // Zero means that there is no id.
    if id.iter().all(|byte| *byte == 0) {
        id[N - 1] = 1;
    }
    id
}

/// What a span is of: the input of its id.
pub(crate) struct IdParts<'a> {
    pub(crate) namespace: &'a [std::sync::Arc<str>],
    pub(crate) lineage: &'a [LineageBoundary],
    pub(crate) step: Option<u64>,
    pub(crate) attempt: u32,
    /// Tells calls of one node apart.
    pub(crate) call: Option<(&'a str, u32)>,
}

impl IdParts<'static> {
    /// Returns the place of the invocation itself.
    pub(crate) fn of_root() -> Self {
        Self { namespace: &[], lineage: &[], step: None, attempt: 0, call: None }
    }
}

impl<'a> IdParts<'a> {
    /// Returns the place of an inner run.
    pub(crate) fn of_unit(event: &'a UnitEvent) -> Self {
        Self {
            namespace: &event.namespace,
            lineage: event.lineage.boundaries(),
            step: Some(event.step),
            attempt: event.attempt_index,
            call: None,
        }
    }

    /// Returns the place of an attempt of a node.
    pub(crate) fn of_node(source: &'a EventSource) -> Self {
        Self {
            namespace: &source.namespace,
            lineage: source.lineage.boundaries(),
            step: source.step,
            attempt: source.attempt_index,
            call: None,
        }
    }

    /// Returns the place of a call: with its id, and the number of the attempt.
    pub(crate) fn of_call(source: &'a EventSource, call: (&'a str, u32)) -> Self {
        Self { call: Some(call), ..Self::of_node(source) }
    }

    /// Derives the id of a span of this kind.
    pub(crate) fn span_id(&self, seed: &[u8], kind: &str) -> SpanId {
        SpanId(first_bytes(&self.hash(seed, kind)))
    }

    fn hash(&self, seed: &[u8], kind: &str) -> Vec<u8> {
        let mut hash = Sha256::new();
        // Each part with its length, so that no two sequences of parts are written alike.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(seed);
        add(kind.as_bytes());
        add(&(self.namespace.len() as u64).to_be_bytes());
        self.namespace.iter().for_each(|name| add(name.as_bytes()));
        for boundary in self.lineage {
            match boundary {
                LineageBoundary::Subgraph => add(b"subgraph"),
                LineageBoundary::Instance(index) => add(format!("instance {index}").as_bytes()),
                LineageBoundary::Branch(name) => add(format!("branch {name}").as_bytes()),
            }
        }
        add(&self.step.map_or(0, |step| step.saturating_add(1)).to_be_bytes());
        add(&self.attempt.to_be_bytes());
        if let Some((call_id, attempt)) = self.call {
            add(call_id.as_bytes());
            add(&attempt.to_be_bytes());
        }
        hash.finalize().to_vec()
    }
}
