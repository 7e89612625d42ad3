//! Plans: tasks with their proofs, by version and digest. A plan has definitions only; progress is recorded beside it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use singletree_llm::canonical_json;

use crate::error::{Error, Result};
use crate::proof::{Proof, ProofPolicy};

/// How many tasks a plan may have.
pub const PLAN_TASKS_MAX: usize = 2_000;
/// How many bytes the description of a task may have.
pub const DESCRIPTION_BYTES_MAX: usize = 2 << 10;
/// How many proofs a task may have.
pub const PROOFS_MAX: usize = 16;
/// How many bytes a name may have: of a task, a kind, a key.
const NAME_BYTES: usize = 64;

/// A task as a plan defines it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// Its name: 1 to 64 of the characters `A-Z a-z 0-9 - _ .`.
    pub id: String,
    /// What is to be done, 1 byte to 2 KiB.
    pub description: String,
    /// The tasks that have to be done before it.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What shows that it is done: all of them. A task has at least one.
    pub proof: Vec<Proof>,
}

/// One version of a plan. It never changes; an edit makes another version, which nobody has approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Which version, from 1.
    pub version: u64,
    /// The tasks, in the order in which they are offered.
    pub tasks: Vec<PlanTask>,
    /// The SHA-256 of campaign, version and tasks, proofs included, in lower-case hexadecimal: an approval names it.
    pub digest: String,
}

/// That a person has approved a version of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanApproval {
    /// Which version.
    pub version: u64,
    /// Its digest.
    pub digest: String,
    /// Who has approved it.
    pub by: String,
}

impl Plan {
    /// Makes a version of a plan.
    ///
    /// # Errors
    /// `campaign_plan_invalid` for a plan without tasks or with more than 2,000, a name or a description that cannot be
    /// one, a name that is taken, a need that is unknown or circular, or a task without proof;
    /// `campaign_proof_invalid` for a proof that `policy` does not permit.
    pub fn new(campaign: &str, version: u64, tasks: Vec<PlanTask>, policy: &ProofPolicy) -> Result<Self> {
        let refuse = |why: String| Err(Error::Plan { why });
        if tasks.is_empty() || tasks.len() > PLAN_TASKS_MAX {
            return refuse(format!("it has {} tasks, and 1 to {PLAN_TASKS_MAX} are allowed", tasks.len()));
        }
        let mut names = BTreeSet::new();
        for task in &tasks {
            check_name(&task.id)?;
            if !names.insert(task.id.as_str()) {
                return refuse(format!("two tasks are called '{}'", task.id));
            }
            if task.description.trim().is_empty() || task.description.len() > DESCRIPTION_BYTES_MAX {
                let id = &task.id;
                return refuse(format!("the description of '{id}' has 1 to {DESCRIPTION_BYTES_MAX} bytes"));
            }
            if task.proof.is_empty() || task.proof.len() > PROOFS_MAX {
                return refuse(format!("task '{}' has 1 to {PROOFS_MAX} proofs", task.id));
            }
            for proof in &task.proof {
                policy.check_proof(&task.id, proof)?;
            }
        }
        check_needs(&tasks)?;
        let digest = digest_plan(campaign, version, &tasks);
        Ok(Self { version, tasks, digest })
    }

    /// Finds a task and its position.
    #[must_use]
    pub fn find_task(&self, id: &str) -> Option<(usize, &PlanTask)> {
        self.tasks.iter().enumerate().find(|(_, task)| task.id == id)
    }
}

/// Checks a name: of a task, a kind, a key.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(fits) {
        let why = format!("a name has 1 to {NAME_BYTES} of the characters A-Z a-z 0-9 - _ .");
        return Err(Error::Plan { why });
    }
    Ok(())
}

/// Checks that every need is a task of the plan, and that none needs itself, over whatever others.
fn check_needs(tasks: &[PlanTask]) -> Result<()> {
    let places: BTreeMap<&str, usize> =
        tasks.iter().enumerate().map(|(at, task)| (task.id.as_str(), at)).collect();
    let mut waiting = vec![0_usize; tasks.len()];
    let mut needed_by = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.iter().enumerate() {
        for need in &task.needs {
            let Some(needed) = places.get(need.as_str()) else {
                let why = format!("task '{}' needs '{need}', which is not in the plan", task.id);
                return Err(Error::Plan { why });
            };
            waiting[at] += 1;
            needed_by[*needed].push(at);
        }
    }
    let mut free: Vec<usize> = (0..tasks.len()).filter(|at| waiting[*at] == 0).collect();
    let mut seen = 0;
    while let Some(at) = free.pop() {
        seen += 1;
        for next in &needed_by[at] {
            waiting[*next] -= 1;
            if waiting[*next] == 0 {
                free.push(*next);
            }
        }
    }
    if seen == tasks.len() {
        return Ok(());
    }
    let circular = tasks.iter().zip(&waiting).find(|(_, waiting)| **waiting > 0);
    let id = circular.map_or("", |(task, _)| task.id.as_str());
    Err(Error::Plan { why: format!("task '{id}' is in a circle of needs, or needs one that is") })
}

fn digest_plan(campaign: &str, version: u64, tasks: &[PlanTask]) -> String {
    digest_json(&json!({ "campaign": campaign, "version": version, "tasks": tasks }))
}

/// Digests a value: the SHA-256 of its canonical JSON.
pub(crate) fn digest_json(value: &serde_json::Value) -> String {
    Sha256::digest(canonical_json(value)).iter().map(|byte| format!("{byte:02x}")).collect()
}
