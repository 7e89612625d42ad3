//! Which effects a run may have again when it is gone on with from a record, and which it must have.

use std::collections::{BTreeMap, BTreeSet};

use singletree_durable::{CheckpointRecord, FanOutProgress, InstanceState};

use super::keeper::Saved;
use super::run::Run;
use super::told::{Told, Unit};
use super::world::{Ended, Key, Note};

/// The effects of a whole run beside the model's description of them.
pub(crate) struct Ledger<'a> {
    told: &'a Told,
    notes: BTreeMap<&'a Key, Vec<&'a Note>>,
    /// When the last act of each execution ended.
    ends: Vec<u64>,
    /// When the first act after it ended, on the same strand.
    after: Vec<Option<u64>>,
    /// The units that contain each key.
    units: BTreeMap<&'a Key, &'a [Unit]>,
}

/// How far fan-outs are by a record: their places, and the instances that are completed.
struct Progress {
    listed: BTreeSet<String>,
    done: BTreeSet<(String, u64)>,
}

fn place(progress: &FanOutProgress) -> String {
    let names = progress.namespace.iter().chain([&progress.fan_out_node_name]).enumerate();
    let names = names.map(|(at, name)| {
        let instance = progress.enclosing_fan_out_lineage.iter().find(|it| it.namespace.len() == at);
        match instance.filter(|_| at < progress.namespace.len()) {
            Some(it) => format!("{name}[{}]", it.fan_out_index),
            None => name.clone(),
        }
    });
    names.collect::<Vec<_>>().join("/")
}

impl Progress {
    fn of(record: &CheckpointRecord) -> Self {
        let all = &record.fan_out_progress;
        let done = all.iter().flat_map(|it| {
            let place = place(it);
            let done = (0_u64..).zip(&it.instances).filter(|(_, it)| it.state == InstanceState::Completed);
            done.map(move |(index, _)| (place.clone(), index)).collect::<Vec<_>>()
        });
        Self { listed: all.iter().map(place).collect(), done: done.collect() }
    }
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(told: &'a Told, whole: &'a Run) -> Self {
        let mut notes: BTreeMap<&Key, Vec<&Note>> = BTreeMap::new();
        for note in whole.notes() {
            notes.entry(&note.key).or_default().push(note);
        }
        let times = |act: usize| notes.get(&told.acts[act].key).into_iter().flatten().map(|it| it.at);
        let ends: Vec<u64> = told
            .executions
            .iter()
            .map(|it| it.acts.clone().flat_map(times).max().unwrap_or_default())
            .collect();
        let after = told.executions.iter().zip(&ends).map(|(execution, end)| {
            let next = (execution.acts.end..told.acts.len()).find(|act| {
                let members = told.acts[*act].units.iter().filter(|it| !matches!(it, Unit::Anew(_)));
                members.copied().collect::<Vec<_>>().starts_with(&execution.around)
            });
            next.and_then(|act| times(act).filter(|at| at > end).min())
        });
        let after = after.collect();
        let units = told.acts.iter().map(|it| (&it.key, it.units.as_slice())).collect();
        Self { told, ends, after, units, notes }
    }

    /// Tells whether an effect is settled by a record: a run that goes on from it must not have it again.
    fn is_settled(&self, key: &Key, (saved, progress): (&Saved, &Progress)) -> bool {
        let before = |at: u64| at > 0 && at < saved.at;
        if !self.done(key).any(before) {
            return false;
        }
        // Functions inside an unfinished instance run again, except those inside of finished instances in it.
        let mut unfinished = false;
        for unit in self.units.get(key).copied().unwrap_or_default() {
            match *unit {
                Unit::Anew(at) => return !unfinished && self.after[at].is_some_and(before),
                Unit::Branches(at) => return !unfinished && before(self.ends[at]),
                Unit::Instance(at, index) => {
                    let place = &self.told.executions[at].path;
                    let left = before(self.ends[at])
                        && (!progress.listed.contains(place) || self.after[at].is_some_and(before));
                    if left {
                        return !unfinished;
                    }
                    if progress.done.contains(&(place.clone(), index)) {
                        return true;
                    }
                    unfinished = true;
                }
            }
        }
        !unfinished
    }

    /// When an effect happened in the whole run.
    fn done(&self, key: &Key) -> impl Iterator<Item = u64> {
        let notes = self.notes.get(key).into_iter().flatten();
        notes.filter(|it| it.ended == Some(Ended::Done)).map(|it| it.at)
    }

    /// Checks the effects of a run that went on from a record.
    ///
    /// # Errors
    /// A description of the difference.
    pub(crate) fn check(&self, saved: &Saved, resumed: &Run) -> Result<(), String> {
        let progress = Progress::of(&saved.record);
        let mut counts: BTreeMap<&Key, usize> = BTreeMap::new();
        for note in resumed.notes() {
            if !self.units.contains_key(&note.key) {
                return Err(format!("{:?} never happens in the whole run", note.key));
            }
            if note.ended == Some(Ended::Done) {
                *counts.entry(&note.key).or_default() += 1;
                if self.is_settled(&note.key, (saved, &progress)) {
                    return Err(format!("{:?} was completed and recorded, and ran again", note.key));
                }
            }
        }
        for act in self.told.acts.iter().filter(|it| it.certain && it.ended == Ended::Done) {
            let count = counts.get(&act.key).copied().unwrap_or_default();
            let missing = self.done(&act.key).filter(|at| *at > saved.at).count();
            let happened = self.done(&act.key).count();
            let fits = if act.units.is_empty() { count == missing } else { count > 0 || missing < happened };
            if !fits {
                return Err(format!(
                    "{:?} ran {count} times, and {missing} of {happened} were missing",
                    act.key
                ));
            }
        }
        Ok(())
    }
}
