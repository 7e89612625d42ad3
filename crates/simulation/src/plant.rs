//! Faults that are planted by rule into the commits of a program: a requirement left out, an effect dropped, two
//! effects swapped. A simulation that does not find them proves little.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::{Batch, BatchPrecondition, MemoryStore, Result, RowMutation, StoredWaitStatus};

use crate::run::{RunPlan, run_seed};

/// What is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlantRule {
    /// Requirements of this kind are left out.
    LeaveOut(&'static str),
    /// Effects of this kind are dropped.
    Drop(&'static str),
    /// The first effect of the one kind and the first of the other change places.
    Swap(&'static str, &'static str),
}

/// A fault in all commits of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlantedFault {
    /// The purpose of the commits.
    pub purpose: &'static str,
    /// What is planted.
    pub rule: PlantRule,
}

impl fmt::Display for PlantedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = self.purpose;
        match self.rule {
            PlantRule::LeaveOut(requirement) => write!(f, "{purpose}: without the requirement {requirement}"),
            PlantRule::Drop(effect) => write!(f, "{purpose}: without {effect}"),
            PlantRule::Swap(first, second) => write!(f, "{purpose}: {second} before {first}"),
        }
    }
}

/// Where batches pass: changes those that a fault is planted in, and collects the faults that could be planted.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlantingPoint {
    planted: Option<PlantedFault>,
    possible: Arc<Mutex<BTreeSet<PlantedFault>>>,
    /// The effect of the planted fault so far.
    effect: Arc<Mutex<PlantEffect>>,
}

/// The effect of a planted fault on the batches of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlantEffect {
    /// The batches that it was planted in, up to the first that made a difference.
    pub batches: u64,
    /// Whether one of them was answered otherwise than without the fault, or left other rows.
    pub makes_difference: bool,
}

/// A batch on its way, and the same batch without the planted fault, if they differ.
#[derive(Debug)]
pub(crate) struct PassedBatch {
    pub(crate) batch: Batch,
    pub(crate) intended: Option<Batch>,
}

impl PlantingPoint {
    pub(crate) fn new(planted: Option<PlantedFault>) -> Self {
        Self { planted, ..Self::default() }
    }

    /// Returns the effect of the planted fault so far.
    pub(crate) fn effect(&self) -> PlantEffect {
        *self.effect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the data to apply the intended batch to, as long as it is not known that the fault makes a
    /// difference.
    pub(crate) fn copy_for_comparison(&self, data: &MemoryStore) -> Option<MemoryStore> {
        (!self.effect().makes_difference).then(|| data.copy_data())
    }

    /// Compares the data after a batch with the copy, to which the intended batch was applied.
    pub(crate) fn compare_with_intended(
        &self,
        (data, answer): (&MemoryStore, &Result<()>),
        intended: (&MemoryStore, &Result<()>),
    ) {
        let describe = |answer: &Result<()>| answer.as_ref().err().map(ToString::to_string);
        let mut effect = self.effect.lock().unwrap_or_else(PoisonError::into_inner);
        effect.batches += 1;
        effect.makes_difference |=
            describe(answer) != describe(intended.1) || !data.has_same_data(intended.0);
    }

    /// Returns the faults that could have been planted in the batches so far.
    pub(crate) fn possible_faults(&self) -> BTreeSet<PlantedFault> {
        self.possible.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets a batch pass.
    pub(crate) fn pass_batch(&self, mut batch: Batch) -> PassedBatch {
        let purpose = purpose_of_batch(&batch);
        let Some(planted) = self.planted else {
            self.collect_faults(purpose, &batch);
            return PassedBatch { batch, intended: None };
        };
        let mut intended = None;
        if planted.purpose == purpose {
            intended = Some(batch.clone());
            plant_in_batch(planted.rule, &mut batch);
        }
        let intended = intended.filter(|intended| *intended != batch);
        PassedBatch { batch, intended }
    }

    fn collect_faults(&self, purpose: &'static str, batch: &Batch) {
        let mut possible = self.possible.lock().unwrap_or_else(PoisonError::into_inner);
        let mut add = |rule| {
            possible.insert(PlantedFault { purpose, rule });
        };
        batch.requires.iter().for_each(|require| add(PlantRule::LeaveOut(requirement_name(require))));
        let names: Vec<&'static str> = batch.puts.iter().map(effect_name).collect();
        names.iter().for_each(|name| add(PlantRule::Drop(name)));
        for pair in names.windows(2).filter(|pair| pair[0] != pair[1]) {
            add(PlantRule::Swap(pair[0], pair[1]));
        }
    }
}

/// The requirements of a batch on its way.
#[derive(Debug)]
pub(crate) struct BatchRequirements {
    purpose: &'static str,
    requires: Vec<BatchPrecondition>,
}

impl BatchRequirements {
    pub(crate) fn of_batch(batch: &Batch) -> Self {
        Self { purpose: purpose_of_batch(batch), requires: batch.requires.clone() }
    }

    pub(crate) fn purpose(&self) -> &'static str {
        self.purpose
    }

    pub(crate) fn requires(&self) -> &[BatchPrecondition] {
        &self.requires
    }
}

fn plant_in_batch(rule: PlantRule, batch: &mut Batch) {
    match rule {
        PlantRule::LeaveOut(name) => batch.requires.retain(|require| requirement_name(require) != name),
        PlantRule::Drop(name) => batch.puts.retain(|put| effect_name(put) != name),
        PlantRule::Swap(first, second) => {
            let place = |name| batch.puts.iter().position(|put| effect_name(put) == name);
            if let (Some(first), Some(second)) = (place(first), place(second)) {
                batch.puts.swap(first, second);
            }
        }
    }
}

/// Returns the purpose of a batch, by its effects.
fn purpose_of_batch(batch: &Batch) -> &'static str {
    let has = |wanted: fn(&RowMutation) -> bool| batch.puts.iter().any(wanted);
    let ends = has(|put| matches!(put, RowMutation::Turn(row) if row.status.is_ended()));
    let accepts = has(|put| matches!(put, RowMutation::Turn(row) if !row.status.is_ended()));
    if has(|put| matches!(put, RowMutation::Delete)) {
        "delete"
    } else if has(|put| matches!(put, RowMutation::Inherit { .. })) {
        "fork"
    } else if has(|put| matches!(put, RowMutation::Wait(row) if row.status == StoredWaitStatus::Pending)) {
        "suspend"
    } else if has(|put| matches!(put, RowMutation::Wait(_))) && accepts {
        "answer"
    } else if has(|put| matches!(put, RowMutation::Wait(_))) {
        "close"
    } else if ends {
        "end"
    } else if accepts && has(|put| matches!(put, RowMutation::Item(_))) {
        "accept"
    } else if accepts {
        "take over"
    } else if has(|put| matches!(put, RowMutation::Position(_))) {
        "step"
    } else if has(|put| matches!(put, RowMutation::Record(_))) {
        "record"
    } else if has(|put| matches!(put, RowMutation::Mail(_))) {
        "early signal"
    } else {
        "other"
    }
}

fn requirement_name(require: &BatchPrecondition) -> &'static str {
    match require {
        BatchPrecondition::SessionAbsent => "session absent",
        BatchPrecondition::SessionVersion(_) => "session version",
        BatchPrecondition::Counters(_) => "counters",
        BatchPrecondition::Turn { .. } => "turn",
        BatchPrecondition::NewestTurn(_) => "newest turn",
        BatchPrecondition::KeyFree(_) => "key free",
        BatchPrecondition::Wait { .. } => "wait",
        BatchPrecondition::MailAbsent(_) => "early signal absent",
        BatchPrecondition::Idle => "idle",
        BatchPrecondition::Source { .. } => "source",
    }
}

fn effect_name(put: &RowMutation) -> &'static str {
    match put {
        RowMutation::Head(_) => "head",
        RowMutation::Counters(_) => "counters",
        RowMutation::Field(_) => "field",
        RowMutation::DropField(_) => "drop of a field",
        RowMutation::Item(_) => "item",
        RowMutation::Place { .. } => "place",
        RowMutation::Side { .. } => "side record",
        RowMutation::Turn(_) => "turn",
        RowMutation::FreeKey { .. } => "freeing of a key",
        RowMutation::Wait(_) => "wait",
        RowMutation::Mail(_) => "early signal",
        RowMutation::DropMail(_) => "drop of an early signal",
        RowMutation::Position(_) => "position",
        RowMutation::DropPosition(_) => "drop of a position",
        RowMutation::Record(_) => "record",
        RowMutation::DropRecords { .. } => "drop of records",
        RowMutation::Event(_) => "event",
        RowMutation::Inherit { .. } => "inheritance",
        RowMutation::DropTurn { .. } => "drop of a turn",
        RowMutation::DropEvents { .. } => "drop of events",
        RowMutation::Usage(_) => "usage",
        RowMutation::Delete => "deletion",
        RowMutation::Document { .. } => "document",
        RowMutation::Audit(_) => "audit row",
    }
}

/// What became of a planted fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantVerdict {
    /// The fault.
    pub fault: PlantedFault,
    /// The first seed that found it, and what it found; none when no seed did.
    pub found: Option<(u64, String)>,
    /// Its effect in all these seeds.
    pub effect: PlantEffect,
}

/// Collects the faults that can be planted in the commits of some seeds.
#[must_use]
pub fn collect_plantable_faults(seeds: std::ops::Range<u64>) -> BTreeSet<PlantedFault> {
    seeds.flat_map(|seed| run_seed(&RunPlan { seed, ..RunPlan::default() }).plantable).collect()
}

/// Runs seeds with a planted fault until one of them finds it.
#[must_use]
pub fn hunt_planted_fault(fault: PlantedFault, seeds: std::ops::Range<u64>) -> PlantVerdict {
    let mut effect = PlantEffect::default();
    let found = seeds.into_iter().find_map(|seed| {
        let report = run_seed(&RunPlan { seed, planted: Some(fault), ..RunPlan::default() });
        effect.batches += report.plant_effect.batches;
        effect.makes_difference |= report.plant_effect.makes_difference;
        report.violations.into_iter().next().map(|violation| (seed, violation))
    });
    PlantVerdict { fault, found, effect }
}
