//! The races between two threads of the operating system that a barrier releases.

use std::hint::spin_loop;
use std::sync::Barrier;

use crate::meet::{PATIENCE, Rounds, open_file, rounds};
use crate::race::{Contender, Ground, RACES, Race, Said};
use crate::rig::{Dice, WHO};

const SEED: u64 = 0x5EED_0001;

/// Draws how long each side is held back after the barrier, so that both sides have a chance: it follows who won, and
/// never touches the outcome itself.
struct Pacer {
    dice: Dice,
    /// By how many turns of a loop the second is held back; the first, when negative.
    centre: i64,
    step: i64,
    last: Option<bool>,
}

impl Pacer {
    fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), centre: 0, step: 4_000, last: None }
    }

    fn draw(&mut self) -> [u64; 2] {
        let width = usize::try_from(self.step).unwrap() * 4;
        let offset = self.centre + i64::try_from(self.dice.below(width)).unwrap() - self.step * 2;
        let held = offset.unsigned_abs();
        if offset < 0 { [held, 0] } else { [0, held] }
    }

    /// Moves towards the even chance: further while the same side wins on, less far when it changes.
    fn saw(&mut self, first_won: bool) {
        let same = self.last == Some(first_won);
        self.step = (if same { self.step * 3 / 2 } else { self.step / 2 }).clamp(500, 100_000);
        self.centre += if first_won { -self.step } else { self.step };
        self.centre = self.centre.clamp(-2_000_000, 2_000_000);
        self.last = Some(first_won);
    }
}

fn run(race: &Race) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let (folder, store) = runtime.block_on(open_file());
    let mut rounds_run = Rounds::new(race, "two threads", SEED);
    let mut pacer = Pacer::new(SEED);
    for round in 0..rounds() {
        let ground = Ground::new(format!("round-{round}"), store.clone(), store.clone());
        let pair = runtime.block_on((race.prepare)(ground.clone()));
        let held = pacer.draw();
        let barrier = Barrier::new(2);
        let start = |who: usize, contender: Contender| -> Said {
            barrier.wait();
            (0..held[who]).for_each(|_| spin_loop());
            let contest = async { tokio::time::timeout(PATIENCE, WHO.scope(who, contender)).await };
            runtime
                .block_on(contest)
                .unwrap_or_else(|_| panic!("{}: round {round} is stuck, seed {SEED:#x}", race.name))
        };
        let [first, second] = pair.contenders;
        let said = std::thread::scope(|scope| {
            let [first, second] =
                [(0, first), (1, second)].map(|(who, it)| scope.spawn(move || start(who, it)));
            [first.join().unwrap(), second.join().unwrap()]
        });
        let first_won = runtime.block_on(rounds_run.judge(&ground, &pair.chat, said));
        pacer.saw(first_won);
    }
    rounds_run.close("");
    runtime.block_on(store.close());
    drop(folder);
}

fn by_name(name: &str) -> &'static Race {
    RACES.iter().find(|it| it.name == name).unwrap()
}

// spec: harness-chat §5.3; INV-1, INV-2
#[test]
fn two_sends_on_threads() {
    run(by_name("two sends"));
}

// INV-7
#[test]
fn two_equal_approvals_on_threads() {
    run(by_name("two equal approvals"));
}

// D3
#[test]
fn one_key_twice_on_threads() {
    run(by_name("one key twice"));
}

// D1
#[test]
fn resume_against_send_on_threads() {
    for policy in ["reject", "queue", "supersede"] {
        run(by_name(&format!("resume against send ({policy})")));
    }
}

// D10
#[test]
fn cancel_against_completion_on_threads() {
    run(by_name("cancel against completion"));
}

// D2
#[test]
fn deadline_against_answer_on_threads() {
    run(by_name("deadline against answer"));
    run(by_name("deadline with values against answer"));
}

// D2
#[test]
fn early_signals_against_their_suspension_on_threads() {
    run(by_name("early signal against suspension"));
    run(by_name("early signal again against suspension"));
    run(by_name("two early signals that conflict"));
    run(by_name("age of an early signal against suspension"));
    run(by_name("cancel against suspension with an early signal"));
}
