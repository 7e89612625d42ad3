//! Judging the table of restated invariants: whatever one of the named assertions demands is changed, and the case
//! must fail in an assertion of that name, and in nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::MutationRandom;
use super::site::{self, MutationSite, OmittedMutations};
use crate::assertion_id::{AssertionId, is_within_assertion};
use crate::execute::{CaseExamination, examine_case, execute_case};
use crate::failure::{CaseFailure, CaseFailureKind};
use crate::invariants::{self, RestatedInvariant};
use crate::suite::ConformanceCase;
use crate::yaml::{YamlNode, YamlValue};

/// The result of checking the invariants that only restate assertions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestatementReport {
    /// The invariants that some case counts as restated.
    pub invariants: BTreeSet<&'static str>,
    /// How often a case does so.
    pub uses: usize,
    /// Changes that were tried.
    pub changes: usize,
    /// Each fault: the case, the invariant, and the change.
    pub faults: Vec<String>,
    /// Invariants of the table that no case counts as restated, not even one that does not pass.
    pub unused: Vec<&'static str>,
}

/// Changes the values that the restated invariants' assertions demand, in each case that passes: all of these values,
/// one value at a time.
#[must_use]
pub fn prove_restatements(cases: &[ConformanceCase], seed: u64) -> RestatementReport {
    prove_invariants(cases, invariants::restated_invariants(), &mut MutationRandom(seed))
}

fn prove_invariants(
    cases: &[ConformanceCase],
    rows: &[RestatedInvariant],
    random: &mut MutationRandom,
) -> RestatementReport {
    let mut found = RestatementReport::default();
    let mut waiting = BTreeSet::new();
    for case in cases {
        let Ok(raw) = &case.content else { continue };
        let examined = examine_case(raw.clone());
        if !examined.failures.is_empty() {
            collect_keys(&raw.to_whole_document(), &mut waiting);
            continue;
        }
        let mut trials =
            MutationTrials { case, sites: find_place_sites(case), known: BTreeMap::new(), random };
        for name in &examined.restated {
            found.uses += 1;
            let told = |what: String| format!("{}: {name}: {what}", case.qualified_id());
            let Some(row) = rows.iter().find(|row| row.invariant == name) else {
                found.faults.push(told("is not in the table".into()));
                continue;
            };
            found.invariants.insert(row.invariant);
            for id in row.assertion_ids() {
                let faults = trials.find_uncaught_changes(id, &examined, &mut found.changes);
                found.faults.extend(faults.into_iter().map(told));
            }
        }
    }
    let unused = rows.iter().map(|row| row.invariant).filter(|it| !found.invariants.contains(it));
    found.unused = unused.filter(|unused| !waiting.contains(*unused)).collect();
    found
}

/// Collects the keys of all maps.
fn collect_keys(node: &YamlNode, found: &mut BTreeSet<String>) {
    match &node.value {
        YamlValue::Map(entries) => entries.iter().for_each(|(key, it)| {
            found.insert(key.clone());
            collect_keys(it, found);
        }),
        YamlValue::List(items) => items.iter().for_each(|item| collect_keys(item, found)),
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Int(_)
        | YamlValue::Float(_)
        | YamlValue::Str(_) => {}
    }
}

/// The changes of a case, with their places as assertions name them. The part that the cases of a file share holds no
/// assertions but invariants.
fn find_place_sites(case: &ConformanceCase) -> Vec<(String, MutationSite)> {
    let Ok(raw) = &case.content else { return Vec::new() };
    let sites = site::find_sites(&raw.to_whole_document(), &mut OmittedMutations::default()).into_iter();
    sites.filter_map(|site| Some((site.assertion_path()?, site))).collect()
}

/// Changes of one case, each run once.
struct MutationTrials<'a> {
    case: &'a ConformanceCase,
    sites: Vec<(String, MutationSite)>,
    known: BTreeMap<usize, Vec<CaseFailure>>,
    random: &'a mut MutationRandom,
}

impl MutationTrials<'_> {
    /// Changes everything that assertions of this id read, and returns the changes that they did not catch.
    fn find_uncaught_changes(
        &mut self,
        id: AssertionId,
        examined: &CaseExamination,
        changes: &mut usize,
    ) -> Vec<String> {
        let named: Vec<&String> = examined.asserted.iter().filter(|it| id.matches_path(it)).collect();
        if named.is_empty() {
            return vec![format!("the case asserts no '{}'", id.0)];
        }
        let reads = |place: &str| named.iter().any(|item| is_within_assertion(place, item));
        let places: Vec<usize> = (0..self.sites.len()).filter(|at| reads(&self.sites[*at].0)).collect();
        if places.is_empty() {
            return vec![format!("nothing of what '{}' demands can be changed", id.0)];
        }
        *changes += places.len();
        let faults = places.into_iter().filter_map(|at| {
            let what = describe_fault(id, self.run_changed_case(at))?;
            Some(format!("{} changed: {what}", self.sites[at].1))
        });
        faults.collect()
    }

    fn run_changed_case(&mut self, at: usize) -> &[CaseFailure] {
        let (case, site, random) = (&self.case, &self.sites[at].1, &mut *self.random);
        self.known.entry(at).or_insert_with(|| match &case.content {
            Ok(raw) => execute_case(raw.with_document(
                &site.apply_to_case(&raw.to_whole_document(), &mut |count| random.next_below(count)),
            )),
            Err(failure) => vec![failure.clone()],
        })
    }
}

/// Describes how a changed case failed wrongly, if it did: it must fail, by assertions of this id alone.
fn describe_fault(id: AssertionId, failures: &[CaseFailure]) -> Option<String> {
    if failures.is_empty() {
        return Some("the case passes".into());
    }
    let other = failures
        .iter()
        .find(|failure| failure.kind != CaseFailureKind::Assertion || !id.matches_path(&failure.path));
    other.map(|other| format!("the case fails otherwise: {other}"))
}

#[cfg(test)]
mod tests;
