//! Judging the judge: an expectation that is changed to another legal value must make its case fail.

mod restated;
mod site;
mod words;

use singletree::engine::{IdGenerator, RandomIds};

use crate::execute::execute_case;
use crate::failure::CaseFailureKind;
use crate::suite::ConformanceCase;

pub use restated::{RestatementReport, prove_restatements};
pub use site::OmittedMutations;

/// Changes that are tried for each case and seed.
const CHANGES: usize = 5;

/// The outcome of changed expectations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MutationSummary {
    /// Changes that an assertion caught.
    pub by_assertion: usize,
    /// Changes that the reader refused: the case, and the changed place.
    pub by_reader: Vec<String>,
    /// Changes that nothing caught: the case, and the changed place.
    pub survivors: Vec<String>,
    /// The expectations that are not changed at all.
    pub left_out: OmittedMutations,
}

impl MutationSummary {
    /// Returns how many changes were tried.
    #[must_use]
    pub fn mutation_count(&self) -> usize {
        self.by_assertion + self.by_reader.len() + self.survivors.len()
    }

    /// Tells whether at least 99 of 100 changes were caught by an assertion.
    #[must_use]
    pub fn are_caught(&self) -> bool {
        self.mutation_count() > 0 && self.by_assertion * 100 >= self.mutation_count() * 99
    }
}

/// Draws seeds.
#[must_use]
pub fn draw_seeds(count: usize) -> Vec<u64> {
    let draw = |_| {
        RandomIds
            .generate_uuid()
            .bytes()
            .fold(0, |seed: u64, it| seed.wrapping_mul(31).wrapping_add(it.into()))
    };
    (0..count).map(draw).collect()
}

/// Changes single expectations of cases that pass, and tells which changes nobody saw.
#[must_use]
pub fn mutate_randomly(cases: &[ConformanceCase], seed: u64) -> MutationSummary {
    change_sites(cases, seed, CHANGES)
}

/// Changes every expectation of cases that pass, each once, and tells which changes nobody saw.
#[must_use]
pub fn mutate_everything(cases: &[ConformanceCase], seed: u64) -> MutationSummary {
    change_sites(cases, seed, usize::MAX)
}

fn change_sites(cases: &[ConformanceCase], seed: u64, changes: usize) -> MutationSummary {
    let mut random = MutationRandom(seed);
    let mut found = MutationSummary::default();
    for case in cases {
        let Ok(raw) = &case.content else { continue };
        if !case.run().is_empty() {
            continue;
        }
        let mut sites = site::find_sites(&raw.to_whole_document(), &mut found.left_out);
        for _ in 0..changes.min(sites.len()) {
            let site = sites.swap_remove(random.next_below(sites.len()));
            let changed = site.apply_to_case(&raw.to_whole_document(), &mut |count| random.next_below(count));
            let failures = execute_case(raw.with_document(&changed));
            if failures.is_empty() {
                found.survivors.push(format!("{} at {site}", case.qualified_id()));
            } else if failures.iter().any(|failure| failure.kind == CaseFailureKind::Assertion) {
                found.by_assertion += 1;
            } else {
                found.by_reader.push(format!("{} at {site}", case.qualified_id()));
            }
        }
    }
    found
}

/// A small generator (SplitMix64): the same seed gives the same changes.
struct MutationRandom(u64);

impl MutationRandom {
    fn next_below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^= it >> 31;
        usize::try_from(it % u64::try_from(count.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}
