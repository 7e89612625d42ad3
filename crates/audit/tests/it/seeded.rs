//! The races again, in one thread, interleaved by a seed: each step of a contender and each answer of the store waits
//! until a seeded chooser lets it go.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::gated::Gated;
use crate::meet::{PATIENCE, Rounds, open_file, rounds};
use crate::race::{Ground, RACES, Race};
use crate::rig::WHO;
use crate::scheduler::{Scheduler, Stepwise};

const SEED: u64 = 0x5EED_0002;

/// Runs one round; returns the steps that were let through, in order.
async fn round(rounds: &mut Rounds<'_>, ground: Ground, race: &Race, scheduler: &Scheduler) -> Vec<String> {
    let pair = (race.prepare)(ground.clone()).await;
    let [first, second] = pair.contenders;
    scheduler.engage(race.sides);
    let contest = async {
        let start = |who: usize, name: &'static str, contender| {
            tokio::spawn(WHO.scope(who, Stepwise::new(scheduler, name, contender)))
        };
        let [first, second] = [start(0, race.sides[0], first), start(1, race.sides[1], second)];
        scheduler.drive(|| first.is_finished() && second.is_finished()).await;
        [first.await.unwrap(), second.await.unwrap()]
    };
    let said = tokio::time::timeout(PATIENCE, contest).await;
    let said = said.unwrap_or_else(|_| panic!("{} is stuck: {:?}", ground.session, scheduler.trace()));
    let trace = scheduler.disengage();
    rounds.judge(&ground, &pair.chat, said).await;
    trace
}

/// Runs rounds of these seeds; returns the steps that were let through in each.
fn run(race: &Race, count: u64, seeds: impl Fn(u64) -> u64) -> (Rounds<'_>, Vec<Vec<String>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (folder, store) = runtime.block_on(open_file());
    let mut going = Rounds::new(race, "seeded scheduler", SEED);
    let mut traces = Vec::new();
    for n in 0..count {
        let scheduler = Scheduler::new(seeds(n));
        let gated = Arc::new(Gated::new(store.clone(), scheduler.clone()));
        let ground = Ground::new(format!("round-{n}-of-{:#x}", seeds(n)), gated.clone(), gated);
        traces.push(runtime.block_on(round(&mut going, ground, race, &scheduler)));
    }
    runtime.block_on(store.close());
    drop(folder);
    (going, traces)
}

fn race(at: usize) {
    let (rounds, traces) = run(&RACES[at], rounds(), |n| SEED + n);
    let different = traces.iter().collect::<BTreeSet<_>>().len();
    rounds.close(&format!(", {different} different interleavings"));
    assert!(different >= 10, "{different} interleavings");
}

// spec: harness-chat §5.3; INV-1, INV-2
#[test]
fn two_sends_by_seed() {
    race(0);
}

// INV-7
#[test]
fn two_equal_approvals_by_seed() {
    race(1);
}

// D3
#[test]
fn one_key_twice_by_seed() {
    race(2);
}

// D1
#[test]
fn resume_against_send_by_seed() {
    race(3);
    race(4);
    race(5);
}

// D10
#[test]
fn cancel_against_completion_by_seed() {
    race(6);
}

// D2
#[test]
fn deadline_against_answer_by_seed() {
    race(7);
    race(8);
}

// D2
#[test]
fn early_signals_against_their_suspension_by_seed() {
    race(9);
    race(10);
    race(11);
    race(12);
    race(13);
}

// INV-11
#[test]
fn the_same_seed_is_the_same_interleaving() {
    for race in &RACES {
        let (_, traces) = run(race, 4, |n| SEED + n % 2);
        assert_eq!(traces[0], traces[2], "{}", race.name);
        assert_eq!(traces[1], traces[3], "{}", race.name);
        assert_ne!(traces[0], traces[1], "{}", race.name);
    }
}
