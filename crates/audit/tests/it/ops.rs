//! Random operations on a chat.

use proptest::prelude::*;
use proptest::sample::select;
use singletree_harness::{Durability, WhileSuspended};

use crate::model::{Kind, Names};

/// The sessions that are talked in.
pub(crate) const SESSIONS: [&str; 3] = ["s0", "s1", "s2"];

/// One operation of a caller, or of the world.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Send { session: usize, kind: Kind, key: Option<(u8, bool)> },
    Steer { session: usize, kind: Kind },
    Answer { session: usize, approved: bool, names: Names },
    Cancel { session: usize, back: usize },
    DeadlinesPass,
    Delete { session: usize },
    Restart { policy: WhileSuspended, level: Durability },
    Copy { from: usize, to: usize },
    Fork { from: usize, to: usize, at: Option<usize> },
    Edit { from: usize, to: usize, at: usize, kind: Kind },
    Regenerate { from: usize, to: usize, reply: Option<usize> },
}

pub(crate) fn policy() -> impl Strategy<Value = WhileSuspended> {
    select(vec![WhileSuspended::Reject, WhileSuspended::Queue, WhileSuspended::Supersede])
}

pub(crate) fn level() -> impl Strategy<Value = Durability> {
    select(vec![Durability::Turn, Durability::Step])
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS.len();
    let key = proptest::option::weighted(0.4, (0_u8..2, any::<bool>()));
    let send = (session.clone(), select(&Kind::ALL[..]), key).prop_map(|(session, kind, key)| Op::Send {
        session,
        kind,
        key,
    });
    let names = select(vec![Names::Nothing, Names::TheWait, Names::TheWait, Names::Another]);
    let answer = (session.clone(), any::<bool>(), names).prop_map(|(session, approved, names)| Op::Answer {
        session,
        approved,
        names,
    });
    prop_oneof![
        8 => send,
        3 => (session.clone(), select(&Kind::ALL[..])).prop_map(|(session, kind)| Op::Steer { session, kind }),
        4 => answer,
        2 => (session.clone(), 0_usize..4).prop_map(|(session, back)| Op::Cancel { session, back }),
        2 => Just(Op::DeadlinesPass),
        1 => session.clone().prop_map(|session| Op::Delete { session }),
        2 => (policy(), level()).prop_map(|(policy, level)| Op::Restart { policy, level }),
        3 => (session.clone(), session.clone()).prop_map(|(from, to)| Op::Copy { from, to }),
        6 => branch(),
    ]
}

fn branch() -> impl Strategy<Value = Op> {
    let two = (0..SESSIONS.len(), 0..SESSIONS.len());
    // Of a session's history, one place beyond its end, too.
    let at = || 0_usize..60;
    let maybe = || proptest::option::of(at());
    prop_oneof![
        2 => (two.clone(), maybe()).prop_map(|((from, to), at)| Op::Fork { from, to, at }),
        1 => (two.clone(), at(), select(&Kind::ALL[..]))
            .prop_map(|((from, to), at, kind)| Op::Edit { from, to, at, kind }),
        1 => (two, maybe()).prop_map(|((from, to), reply)| Op::Regenerate { from, to, reply }),
    ]
}
