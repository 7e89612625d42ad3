//! Each workload, small.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn bench(db: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_singletree-bench"));
    command.args(arguments).arg("--db").arg(db);
    command
}

/// Runs a workload and returns the last line that it prints.
fn run(db: &Path, arguments: &str) -> Value {
    let arguments: Vec<_> = arguments.split(' ').collect();
    last(&bench(db, &arguments).output().unwrap())
}

fn last(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

fn check(arguments: &str, keys: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let line = run(&folder.path().join("x.db"), arguments);
    assert_keys(&line, keys);
    line
}

fn assert_keys(line: &Value, keys: &[&str]) {
    for key in keys {
        let value = line.get(key).and_then(Value::as_f64);
        assert!(value.is_some_and(f64::is_finite), "{key} in {line}");
    }
}

const W1: &[&str] = &["turns_per_s", "cpu_ms_per_turn", "p50_ms", "p99_ms", "peak_rss_mib"];
const W4: &[&str] =
    &["per_s", "ms_median", "ms_p99", "ms_first", "cpu_ms", "db_bytes", "bytes_per_session", "peak_rss_mib"];

#[test]
fn every_variant_of_w1_has_its_figures_and_marks() {
    for variant in ["full", "normal", "step", "memory"] {
        let line = check(&format!("w1 --turns 30 --marks 10,30 --variant {variant}"), W1);
        assert_eq!((&line["workload"], &line["variant"]), (&"w1".into(), &variant.into()));
        let mark = &line["marks"]["30"];
        assert_keys(mark, &["ms_per_turn", "cpu_ms_per_turn", "file_bytes", "elapsed_s"]);
        let stored = mark["db_bytes"].as_u64().unwrap();
        assert_eq!(stored > 0 && stored.is_multiple_of(2048), variant != "memory", "{line}");
    }
}

#[test]
fn the_other_workloads_have_their_figures() {
    let w2 = ["turns_per_s", "cpu_ms_per_turn", "p50_ms", "p99_ms", "db_bytes", "peak_rss_mib"];
    let line = check("w2 --sessions 9 --per-session 3 --concurrency 4", &w2);
    assert_eq!(line["turns"], 27);
    let w3 = ["us_per_node", "cpu_us_per_node", "us_per_node_min", "us_per_node_max", "iters", "db_bytes"];
    check("w3 --nodes 5 --iters 4 --variant none", &w3);
    check("w5", &[]);
}

#[test]
fn another_process_resumes_what_one_suspended() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("x.db");
    for workload in ["w4-suspend", "w4-resume"] {
        assert_keys(&run(&db, &format!("{workload} --sessions 5")), W4);
    }
    // A sixth one was never suspended.
    let missing = bench(&db, &["w4-resume", "--sessions", "6"]).output().unwrap();
    assert!(!missing.status.success() && missing.stdout.is_empty(), "{missing:?}");
}

#[test]
fn a_result_that_is_wrong_has_no_figures() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("x.db");
    run(&db, "w1 --turns 2");
    let again = bench(&db, &["w1", "--turns", "2"]).output().unwrap();
    assert!(!again.status.success() && again.stdout.is_empty(), "{again:?}");
    assert_eq!(String::from_utf8_lossy(&again.stderr), "error: 6 messages after turn 0\n");
}

#[test]
fn a_block_is_run_for_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench(&folder.path().join("x.db"), &["blocks", "--turns", "3"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\n\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(last(&output)["turns"], 6);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert_keys(&serde_json::from_str(lines.lines().next().unwrap()).unwrap(), &["turns", "wall_s", "cpu_s"]);
}

// INV-3: the acceptance of a message and the end of its turn are a commit each, and there is no third.
#[test]
fn a_turn_is_two_commits_at_either_level() {
    for variant in ["full", "normal", "step"] {
        let line = check(&format!("w1 --turns 25 --variant {variant}"), W1);
        assert_eq!(line["commits_per_turn"], 2.0, "{variant}");
    }
}

// INV-4, INV-5
#[test]
fn a_late_turn_allocates_what_an_early_one_does() {
    let line = check("w1 --variant memory --turns 2100 --marks 200,400,1900,2100", W1);
    let bytes = |mark: &str| line["marks"][mark]["alloc_bytes_per_turn"].as_f64().unwrap();
    let (early, late) = (bytes("400"), bytes("2100"));
    assert!(early > 0.0 && (late / early - 1.0).abs() <= 0.02, "{early} bytes a turn, then {late}");
}

#[test]
fn calls_of_a_model_are_timed_beside_bare_ones() {
    let keys = [
        "prompt_bytes",
        "turn_us",
        "bare_us",
        "overhead_us",
        "by_bare",
        "us_per_delta",
        "bare_us_per_delta",
        "peak_rss_mib",
    ];
    for variant in ["memory", "full"] {
        let line =
            check(&format!("calls --turns 3 --deltas 40 --prompt-bytes 5000 --variant {variant}"), &keys);
        assert!(line["prompt_bytes"].as_u64().unwrap() >= 5000, "{line}");
    }
}

#[test]
fn streams_run_at_the_same_time() {
    check(
        "streams --sessions 30 --variant memory",
        &["wall_s", "idle_rss_mib", "peak_rss_mib", "kib_per_stream"],
    );
}
