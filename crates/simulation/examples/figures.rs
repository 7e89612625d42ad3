//! Measures one part of the figures of docs/simulation.md and prints it as JSON. Its input names the part:
//! `seeds FROM COUNT [PROCESSES]` runs seeds; `planted COLLECT MOST` plants each fault by rule that the first `COLLECT` seeds show, and
//! runs at most `MOST` seeds against each. `.ci/simulation` runs the parts.

use std::fs;
use std::io::{Write as _, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_simulation::{
    PlantRule, RunPlan, SimulationSummary, collect_plantable_faults, hunt_planted_fault, run_seed,
};

fn main() -> ExitCode {
    let mut asked = String::new();
    if stdin().read_line(&mut asked).is_err() {
        return ExitCode::from(2);
    }
    let words: Vec<&str> = asked.split_whitespace().collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let part = match (words.first(), numbers.as_slice()) {
        (Some(&"seeds"), [from, count]) => run_seeds((*from, *count), 1),
        (Some(&"seeds"), [from, count, nodes]) => {
            run_seeds((*from, *count), usize::try_from(*nodes).unwrap_or(1))
        }
        (Some(&"planted"), [collect, most]) => plant_faults(*collect, *most),
        _ => return ExitCode::from(2),
    };
    match writeln!(stdout(), "{part}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run_seeds((from, count): (u64, u64), nodes: usize) -> Value {
    let begun = thread_time();
    let mut summary = SimulationSummary::of_processes(nodes);
    for seed in from..from + count {
        summary.add_run(&run_seed(&RunPlan { seed, nodes, ..RunPlan::default() }));
    }
    let cpu_seconds = thread_time().saturating_sub(begun).as_secs_f64();
    json!({
        "from": from,
        "seeds": count,
        "processes": nodes,
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "cpu_seconds": cpu_seconds,
        "summary": summary,
    })
}

/// Plants every fault that some seeds show; says of each whether it was found, and whether it made a difference.
fn plant_faults(collect: u64, most: u64) -> Value {
    let faults = collect_plantable_faults(0..collect);
    let mut verdicts = Vec::new();
    for fault in faults {
        let begun = thread_time();
        let verdict = hunt_planted_fault(fault, 0..most);
        let cpu_seconds = thread_time().saturating_sub(begun).as_secs_f64();
        let rule = match fault.rule {
            PlantRule::LeaveOut(_) => "requirement left out",
            PlantRule::Drop(_) => "effect dropped",
            PlantRule::Swap(..) => "effects swapped",
        };
        verdicts.push(json!({
            "fault": fault.to_string(),
            "rule": rule,
            "batches": verdict.effect.batches,
            "makes_difference": verdict.effect.makes_difference,
            "seed": verdict.found.as_ref().map(|(seed, _)| seed),
            "violation": verdict.found.as_ref().map(|(_, violation)| violation),
            "cpu_seconds": cpu_seconds,
        }));
    }
    json!({ "collected": collect, "most": most, "faults": verdicts })
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
