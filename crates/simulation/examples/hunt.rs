//! Runs seeds until one fails, or so many have passed as its input says: `COUNT`, `FROM COUNT` or `FROM COUNT PROCESSES
//! [FAULT]`, with a fault of the leases of several processes by its name. For `.ci/plant`, which builds nothing else.

use std::io::{Write as _, stdin, stdout};
use std::process::ExitCode;

use singletree_simulation::{LeaseFault, RunPlan, run_seed};

fn main() -> ExitCode {
    let mut asked = String::new();
    let read = stdin().read_line(&mut asked);
    let numbers: Vec<u64> = asked.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let (from, count, nodes) = match (read, numbers.as_slice()) {
        (Ok(_), [count]) => (0, *count, 1),
        (Ok(_), [from, count]) => (*from, *count, 1),
        (Ok(_), [from, count, nodes]) => (*from, *count, usize::try_from(*nodes).unwrap_or(1)),
        _ => return ExitCode::from(2),
    };
    let named =
        |(name, fault): &(&str, LeaseFault)| asked.split_whitespace().any(|it| it == *name).then_some(*fault);
    let lease_fault = LeaseFault::ALL.iter().find_map(named);
    for seed in from..from.saturating_add(count) {
        let report = run_seed(&RunPlan { seed, nodes, lease_fault, ..RunPlan::default() });
        if let Some(violation) = report.violations.first() {
            // Whoever reads it may be gone.
            writeln!(stdout(), "found by seed {seed}: {violation}").unwrap_or_default();
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
