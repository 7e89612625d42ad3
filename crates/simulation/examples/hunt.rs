//! Runs seeds until one fails, or so many have passed as its input says, behind the first seed if it names one, too. For
//! `.ci/plant`, which builds nothing else.

use std::io::{Write as _, stdin, stdout};
use std::process::ExitCode;

use singletree_simulation::{RunPlan, run_seed};

fn main() -> ExitCode {
    let mut asked = String::new();
    let read = stdin().read_line(&mut asked);
    let numbers: Vec<u64> = asked.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let (from, count) = match (read, numbers.as_slice()) {
        (Ok(_), [count]) => (0, *count),
        (Ok(_), [from, count]) => (*from, *count),
        _ => return ExitCode::from(2),
    };
    for seed in from..from.saturating_add(count) {
        let report = run_seed(&RunPlan { seed, ..RunPlan::default() });
        if let Some(violation) = report.violations.first() {
            // Whoever reads it may be gone.
            writeln!(stdout(), "found by seed {seed}: {violation}").unwrap_or_default();
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
