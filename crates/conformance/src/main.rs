//! The command line of the conformance runner.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use singletree_conformance::{
    ConformanceCase, ConformanceReport, Manifest, OmittedMutations, RestatementReport, StatusCounts,
    draw_seeds, judge_case, load_cases, mutate_everything, mutate_randomly, prove_restatements,
};

/// Runs the fixtures of the OpenArmature specifications against singletree.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder of capabilities: DIR/<capability>/conformance/*.yaml.
    #[arg(long, value_name = "DIR")]
    spec: PathBuf,
    /// Only cases whose id (capability/fixture::case) contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Writes a JSON list with one row for each case into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the page of the documentation into this file.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Names the cases and runs none.
    #[arg(long)]
    list: bool,
    /// Judges the judge: changes single expectations of cases that pass, by these seeds; draws three without any.
    #[arg(long, value_name = "SEED", num_args = 0..)]
    mutate: Option<Vec<u64>>,
    /// With --mutate: changes every expectation once instead of five of each case.
    #[arg(long, requires = "mutate")]
    everything: bool,
    /// Declares nothing: what does not pass has failed.
    #[arg(long)]
    no_manifest: bool,
}

/// Usage, or a folder that cannot be read.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run_command_line(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody is left to tell when this fails, too.
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::from(UNUSABLE)
        }
    }
}

fn run_command_line(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let manifest = if arguments.no_manifest { Manifest::empty() } else { Manifest::load_embedded()? };
    let mut cases =
        load_cases(&arguments.spec).map_err(|error| format!("{}: {error}", arguments.spec.display()))?;
    if let Some(filter) = &arguments.filter {
        cases.retain(|case| case.qualified_id().contains(filter));
    }
    let mut out = std::io::stdout().lock();
    if arguments.list {
        for case in &cases {
            writeln!(out, "{}", case.qualified_id())?;
        }
        return Ok(true);
    }
    // A case that panics is told of in its row.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(seeds) = &arguments.mutate {
        return run_mutations(&cases, seeds, arguments.everything, &mut out);
    }
    let rows: Vec<_> = cases.iter().map(|case| judge_case(case, &manifest)).collect();
    if let Some(path) = &arguments.json {
        let lines: Vec<String> = rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n")))?;
    }
    if let Some(path) = &arguments.page {
        std::fs::write(path, ConformanceReport(&rows).render_page())?;
    }
    write!(out, "{}", ConformanceReport(&rows))?;
    Ok(StatusCounts::from_verdicts(&rows).failed == 0)
}

fn run_mutations(
    cases: &[ConformanceCase],
    seeds: &[u64],
    everything: bool,
    out: &mut impl std::io::Write,
) -> Result<bool, Box<dyn std::error::Error>> {
    let seeds = if seeds.is_empty() { draw_seeds(3) } else { seeds.to_vec() };
    let mut all_caught = true;
    let mut left_out = OmittedMutations::default();
    let first = seeds.first().copied().unwrap_or_default();
    for seed in seeds {
        let found = if everything { mutate_everything(cases, seed) } else { mutate_randomly(cases, seed) };
        left_out = found.left_out.clone();
        for (what, places) in [("SURVIVED", &found.survivors), ("refused", &found.by_reader)] {
            for place in places {
                writeln!(out, "{what} {place}")?;
            }
        }
        writeln!(
            out,
            "seed {seed}: {} changes, {} caught by an assertion, {} refused by the reader, {} survived",
            found.mutation_count(),
            found.by_assertion,
            found.by_reader.len(),
            found.survivors.len()
        )?;
        all_caught &= found.are_caught();
    }
    write_omitted_mutations(&left_out, out)?;
    let restated = prove_restatements(cases, first);
    write_restatements(&restated, out)?;
    Ok(all_caught && restated.faults.is_empty())
}

/// Says whether each invariant that only restates assertions fails with them.
fn write_restatements(found: &RestatementReport, out: &mut impl std::io::Write) -> std::io::Result<()> {
    for fault in &found.faults {
        writeln!(out, "NOT RESTATED {fault}")?;
    }
    if !found.unused.is_empty() {
        writeln!(out, "{} restated invariants are in no case here", found.unused.len())?;
    }
    let verdict = match found.faults.len() {
        0 => "each fails with its assertion changed, and in it alone".to_owned(),
        count => format!("{count} faults"),
    };
    writeln!(
        out,
        "{} restated invariants in {} places, {} changes: {verdict}",
        found.invariants.len(),
        found.uses,
        found.changes
    )
}

/// Writes which expectations were not changed, under which keys and how often, and why.
fn write_omitted_mutations(
    left_out: &OmittedMutations,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let parts = [
        (
            "values",
            "they say what must not be, or how much at least; another may hold as well",
            &left_out.values,
        ),
        ("items of lists", "each item is an assertion of its own; their values are changed", &left_out.items),
        (
            "removed keys of maps",
            "each key is an assertion of its own; without it less is demanded",
            &left_out.keys,
        ),
    ];
    for (what, why, places) in parts {
        let places: Vec<String> = places.iter().map(|(key, count)| format!("{key} ({count})")).collect();
        writeln!(out, "left out, {what}: {}: {why}", places.join(", "))?;
    }
    Ok(())
}
