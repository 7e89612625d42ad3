//! Lines that are printed to be pasted: each one works, in the database that was looked in.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Output;

use crate::desk::Desk;
use crate::home::BINARY;

/// Runs a line in a shell that finds the binary.
fn paste(desk: &Desk, line: &str) -> Output {
    let folders = Path::new(BINARY).parent().map(Path::to_owned).into_iter();
    let path: OsString =
        env::join_paths(folders.chain(env::split_paths(&env::var_os("PATH").unwrap_or_default()))).unwrap();
    let mut command = desk.home.command("sh");
    command.current_dir(desk.home.path()).env("PATH", path).args(["-c", line]).output().unwrap()
}

/// Returns the lines of the output that answer a wait.
fn lines(out: &str) -> Vec<&str> {
    out.lines().map(str::trim).filter(|it| it.starts_with("singletree answer ")).collect()
}

// INV-7
#[test]
fn each_line_that_is_printed_gives_its_own_answer_in_its_own_database() {
    let desk = Desk::new();
    let db = ["--db", "its own.db"];
    let check = |session: &str, at: usize, said: &str| {
        let sent = desk.run(&[&["send", "send hello to Bob", "--session", session], db.as_slice()].concat());
        assert_eq!(sent.code, 3, "{sent:?}");
        let pending = desk.run(&[["pending"].as_slice(), &db].concat());
        let printed = lines(&sent.out);
        assert_eq!(printed, lines(&pending.out));
        assert_eq!(printed.len(), 2, "{}", sent.out);
        let ran = paste(&desk, printed[at]);
        let out = String::from_utf8(ran.stdout).unwrap();
        assert_eq!((ran.status.code(), out.ends_with(said)), (Some(0), true), "{}: {out}", printed[at]);
    };
    check("yes", 0, "Done. Sent to Bob.\n");
    check("no", 1, "Nothing was sent to Bob.\n");
    assert!(!desk.home.db().exists(), "nobody named the usual one");
}

#[test]
fn who_answers_in_the_wrong_database_is_told_where_was_looked() {
    let desk = Desk::new();
    let sent = desk.run(&["send", "send hello to Bob", "--session", "s", "--db", "x.db"]);
    let signal = lines(&sent.out)[0].split(' ').nth(2).unwrap().to_owned();
    let ran = desk.run(&["answer", &signal, "approve", "--session", "s"]);
    let looked = format!("; looked in {}\n", desk.home.db().display());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.starts_with("error: harness_signal_correlation_failed: "), "{}", ran.err);
    assert!(ran.err.ends_with(&looked), "{} {looked}", ran.err);
    let (code, document) = desk.json(&["answer", &signal, "approve", "--session", "s"]);
    assert_eq!((code, &document["error"]["category"]), (1, &"harness_signal_correlation_failed".into()));
}

#[test]
fn a_usage_error_shows_no_option_as_if_it_had_to_be_there() {
    let desk = Desk::new();
    let ran = desk.run(&["turn", "show", "--db", "x.db", "--jsn"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("\nUsage: singletree turn show [OPTIONS] [TURN]\n"), "{}", ran.err);
    let ran = desk.run(&["answer", "--db", "x.db"]);
    assert!(ran.err.contains("\nUsage: singletree answer [OPTIONS] [SIGNAL] <ANSWER>\n"), "{}", ran.err);
}

#[test]
fn json_is_the_short_name_of_the_format_where_there_are_several() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["send", "thanks", "--session", "s"]).code, 0);
    for command in [["turn", "show"].as_slice(), &["graph", "show", "demo"]] {
        let long = desk.run(&[command, &["--format", "json"]].concat());
        let short = desk.run(&[command, &["--json"]].concat());
        assert_eq!((short.code, &short.out), (0, &long.out), "{command:?}");
        assert_eq!(desk.run(&[command, &["--json", "--format", "svg"]].concat()).code, 2);
    }
    let (code, document) = desk.json(&["turn", "show", "x"]);
    assert_eq!((code, &document["error"]["category"]), (1, &"chat_turn_unknown".into()));
}
