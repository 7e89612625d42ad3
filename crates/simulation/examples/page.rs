//! Writes the page of the figures to its output, from the parts in target/simulation and the results of `.ci/plant`.
//! `.ci/simulation page` calls it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Write as _, stdout};
use std::process::ExitCode;

use serde_json::Value;

/// What the simulation has found so far.
const FOUND: &str = include_str!("../found.txt");

/// Why faults that are not found do no harm, or what would find them: a line each, `fault | why`.
const NOT_FOUND: &str = include_str!("../not-found.txt");

/// Where the parts are.
const PARTS: &str = "target/simulation";

/// The results of `.ci/plant`, when it has run.
const PLANTED: [(&str, &str); 2] = [
    ("Defects of the review, put back one after the other by `.ci/plant`", "target/plant/results.txt"),
    (
        "Mutants of `.ci/mutants.txt` in crates that are simulated, by `.ci/plant --mutants`",
        "target/plant/mutants.txt",
    ),
];

const NOT_SIMULATED: &str = include_str!("../not-simulated.txt");

/// Writes to a text, which takes everything.
macro_rules! line {
    ($page:expr, $($text:tt)*) => { writeln!($page, $($text)*).unwrap_or_default() };
}

fn main() -> ExitCode {
    let parts = SeedParts::read(1);
    let mut page = String::from("# Simulation: figures\n\n");
    line!(
        page,
        "This page is written by `.ci/simulation page` from the parts that `.ci/simulation` has measured."
    );
    line!(
        page,
        "[0018](decisions/0018-simulation.md) says how the simulation works; `singletree sim` runs it."
    );
    line!(
        page,
        "`singletree sim --config FILE` runs the agents of a file in it ([guide](guide/agent-in-a-file.md#simulate-crashes)).\n"
    );
    if let Ok(commit) = fs::read_to_string(format!("{PARTS}/commit.txt")) {
        line!(page, "The seeds were run at commit {}.\n", commit.trim());
    }
    parts.write_figures(&mut page);
    parts.write_counts(&mut page, "Faults", "faults");
    parts.write_counts(&mut page, "Cases", "cases");
    write_planted(&mut page);
    line!(page, "\n## Three processes with one store\n");
    let shared = SeedParts::read(3);
    shared.write_figures(&mut page);
    line!(page, "\n| fault or case | times |\n|---|---|");
    shared.write_rows(&mut page, "faults");
    shared.write_rows(&mut page, "cases");
    match fs::read_to_string(format!("{PARTS}/leases.txt")) {
        Ok(results) => {
            line!(page, "\nFaults in the protocol of leases:\n\n```text\n{}\n```", results.trim_end());
        }
        Err(_) => line!(page, "\nFaults in the protocol of leases: not run"),
    }
    line!(page, "\n## Found\n\n| where | what | then |\n|---|---|---|");
    for found in FOUND.lines().filter(|line| !line.starts_with('#')) {
        line!(page, "| {found} |");
    }
    line!(page, "\n## Not simulated\n\n{}", NOT_SIMULATED.trim_end());
    match stdout().write_all(page.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The parts of seeds by build and by first seed, each with all of its runs.
#[derive(Default)]
struct SeedParts(BTreeMap<(String, u64), Vec<Value>>);

impl SeedParts {
    /// Reads the parts in which so many processes shared the store.
    fn read(processes: u64) -> Self {
        let mut parts = Self::default();
        let entries = fs::read_dir(PARTS).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = entries.collect();
        files.sort();
        for file in files {
            let text = fs::read_to_string(file).unwrap_or_default();
            let Ok(part) = serde_json::from_str::<Value>(&text) else { continue };
            if part["processes"].as_u64().unwrap_or(1) != processes {
                continue;
            }
            if let (Some(build), Some(from)) = (part["build"].as_str(), part["from"].as_u64()) {
                parts.0.entry((build.to_owned(), from)).or_default().push(part);
            }
        }
        parts
    }

    /// Returns one run of each part in release.
    fn of_release(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|((build, _), _)| build == "release").filter_map(|(_, runs)| runs.first())
    }

    fn sum(&self, read: impl Fn(&Value) -> f64) -> f64 {
        self.of_release().map(read).sum()
    }

    fn write_figures(&self, page: &mut String) {
        let seconds = self.sum(|part| part["cpu_seconds"].as_f64().unwrap_or(0.0));
        if seconds <= 0.0 {
            return line!(page, "not run");
        }
        line!(page, "| figure | in all | per CPU-second |\n|---|---|---|");
        let count = |name: &str| self.sum(|part| part["summary"][name].as_f64().unwrap_or(0.0));
        let faults = |part: &Value| {
            let counts = part["summary"]["faults"].as_object();
            counts.into_iter().flat_map(|counts| counts.values()).filter_map(Value::as_f64).sum::<f64>()
        };
        let kills = |part: &Value| part["summary"]["faults"]["process_killed"].as_f64().unwrap_or(0.0);
        let figures = [
            ("seeds", count("seeds")),
            ("accepted turns", count("turns")),
            ("calls of clients", count("calls")),
            ("commits", count("commits")),
            ("writes in commits", count("writes")),
            ("faults", self.sum(faults)),
            ("kills of processes", self.sum(kills)),
            ("deaths of processes, orderly stops included", count("deaths")),
        ];
        for (name, figure) in figures {
            line!(page, "| {name} | {figure:.0} | {:.0} |", figure / seconds);
        }
        let hours = count("counted_seconds") / 3_600.0;
        line!(page, "| simulated hours in which work was open | {hours:.1} | {:.2} |", hours / seconds);
        line!(
            page,
            "\nThese seeds took {seconds:.1} CPU-seconds, so that a CPU-hour simulates {:.0} hours.",
            hours / seconds * 3_600.0
        );
        self.write_digests(page);
        let failed: Vec<String> = self
            .of_release()
            .flat_map(|part| part["summary"]["failed"].as_array().cloned().unwrap_or_default())
            .map(|seed| seed.to_string())
            .collect();
        match failed.is_empty() {
            true => line!(page, "Every promise was kept under every seed."),
            false => line!(page, "Promises were broken under the seeds {}.", failed.join(", ")),
        }
    }

    /// Compares the digests of all runs of the same seeds, in both builds.
    fn write_digests(&self, page: &mut String) {
        let digest = |run: &Value| run["summary"]["digest"].as_u64();
        for build in ["release", "debug"] {
            let of_build = || self.0.iter().filter(|((name, _), _)| name == build);
            let repeated = || of_build().filter(|(_, runs)| runs.len() > 1);
            let seeds = |runs: &Vec<Value>| runs.first().and_then(|run| run["seeds"].as_u64()).unwrap_or(0);
            let all: u64 = repeated().map(|(_, runs)| seeds(runs)).sum();
            let differ: Vec<u64> = repeated()
                .filter(|(_, runs)| runs.iter().any(|run| digest(run) != digest(&runs[0])))
                .map(|((_, from), _)| *from)
                .collect();
            if all == 0 {
                line!(page, "No seed was run twice in {build} on this state.");
                continue;
            }
            line!(
                page,
                "{all} seeds were run twice in {build}, in two processes, so with other hash seeds: {}.",
                describe_parts(&differ)
            );
        }
        let other = |from: u64| self.0.get(&("release".to_owned(), from)).and_then(|runs| runs.first());
        let debug = || self.0.iter().filter(|((name, _), _)| name == "debug");
        let compared = || debug().filter_map(|((_, from), runs)| Some((*from, runs.first()?, other(*from)?)));
        let compared = || compared().filter(|(_, one, other)| one["seeds"] == other["seeds"]);
        let all: u64 = compared().filter_map(|(_, run, _)| run["seeds"].as_u64()).sum();
        let differ = compared().filter(|(_, one, other)| digest(one) != digest(other));
        let differ: Vec<u64> = differ.map(|(from, _, _)| from).collect();
        if all > 0 {
            line!(page, "{all} seeds were run in both builds: {}.", describe_parts(&differ));
        }
    }

    fn write_counts(&self, page: &mut String, title: &str, name: &str) {
        line!(page, "\n## {title}\n\n| name | times |\n|---|---|");
        self.write_rows(page, name);
    }

    fn write_rows(&self, page: &mut String, name: &str) {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for part in self.of_release() {
            for (case, count) in part["summary"][name].as_object().into_iter().flatten() {
                *counts.entry(case.as_str()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        for (case, count) in counts {
            line!(page, "| {case} | {count} |");
        }
    }
}

fn describe_parts(differ: &[u64]) -> String {
    match differ {
        [] => "all digests were equal".to_owned(),
        differ => format!("digests DIFFER in the parts that begin with the seeds {differ:?}"),
    }
}

fn write_planted(page: &mut String) {
    line!(page, "\n## Planted faults\n");
    for (title, file) in PLANTED {
        line!(page, "{title}:\n");
        match fs::read_to_string(file) {
            Ok(results) => line!(page, "```text\n{}\n```\n", results.trim_end()),
            Err(_) => line!(page, "not run\n"),
        }
    }
    let text = fs::read_to_string(format!("{PARTS}/planted.json")).unwrap_or_default();
    let planted = serde_json::from_str::<Value>(&text).unwrap_or_default();
    let Some(faults) = planted["faults"].as_array() else {
        line!(
            page,
            "By rule (a requirement left out, an effect dropped, two effects swapped): not run on this state"
        );
        return;
    };
    let most = &planted["most"];
    let commit = fs::read_to_string(format!("{PARTS}/planted-commit.txt"));
    let at = commit.map_or_else(|_| String::new(), |commit| format!(" at commit {}", commit.trim()));
    line!(page, "By rule{at}, each under at most {most} seeds:\n");
    line!(page, "| rule | planted | found | made no difference | not found |\n|---|---|---|---|---|");
    for rule in ["requirement left out", "effect dropped", "effects swapped"] {
        let of_rule = || faults.iter().filter(|fault| fault["rule"] == rule);
        let found = of_rule().filter(|fault| !fault["seed"].is_null()).count();
        let idle = of_rule().filter(|fault| is_idle(fault)).count();
        let all = of_rule().count();
        line!(page, "| {rule} | {all} | {found} | {idle} | {} |", all - found - idle);
    }
    line!(
        page,
        "\nEach batch that a fault is planted in is also applied without it to a copy of the data. A fault made no \
         difference when both had the same answer and the same rows, in all batches of all these seeds.\n\nNot found:\n"
    );
    for fault in faults.iter().filter(|fault| fault["seed"].is_null() && !is_idle(fault)) {
        let name = fault["fault"].as_str().unwrap_or_default();
        let batches = &fault["batches"];
        line!(page, "- {name} (a difference within {batches} batches): {}", explain(name));
    }
}

/// Says why a fault is not found.
fn explain(fault: &str) -> &'static str {
    let reasons = NOT_FOUND.lines().filter_map(|line| line.split_once(" | "));
    reasons.into_iter().find(|(name, _)| *name == fault).map_or("not explained", |(_, why)| why)
}

/// Tells whether a fault changed neither an answer nor a row.
fn is_idle(fault: &Value) -> bool {
    fault["seed"].is_null() && fault["makes_difference"] == false
}
