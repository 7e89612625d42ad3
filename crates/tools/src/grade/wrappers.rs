//! Programs that run other programs.

use super::command::{CommandWord, ParsedCommand, ParsedCommandLine};
use super::shell::{DEPTH_MAX, within};

/// Shells: the text that they get by `-c` or read is a script.
pub(super) const SHELLS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "csh", "tcsh"];

/// Words of the shell's own grammar that stand before a command.
pub(super) const KEYWORDS: &[&str] =
    &["if", "then", "else", "elif", "do", "while", "until", "{", "}", "!", "time", "coproc", "function"];

/// Programs that run the program that their arguments name, and their options that take a value.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("sudo", &["-u", "-g", "-p", "-C", "-h", "-r", "-t", "-U", "-D", "-R", "-T"]),
    ("doas", &["-u", "-C"]),
    ("pkexec", &["--user"]),
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("nohup", &[]),
    ("nice", &["-n", "--adjustment"]),
    ("ionice", &["-c", "-n"]),
    ("timeout", &["-s", "--signal", "-k", "--kill-after"]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("setsid", &[]),
    ("command", &[]),
    ("builtin", &[]),
    ("exec", &["-a"]),
    ("busybox", &[]),
    ("toybox", &[]),
    ("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter"]),
    ("parallel", &["-j", "--jobs"]),
    ("watch", &["-n", "--interval"]),
    ("strace", &["-e", "-o", "-p"]),
    ("chroot", &[]),
    ("unshare", &[]),
    ("flock", &[]),
    ("script", &[]),
    ("start", &[]),
];

/// Wrappers whose first operand is no program: a duration, a folder, a lock.
const OPERAND_FIRST: &[&str] = &["timeout", "chroot", "flock"];

/// Options of `ssh` that take a value.
const SSH_VALUED: &[&str] = &[
    "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q", "-R",
    "-S", "-W", "-w",
];

/// Adds a command, and every command that it runs in turn.
pub(super) fn unwrap(
    command: ParsedCommand,
    upstream: &[ParsedCommand],
    depth: usize,
    script: &mut ParsedCommandLine,
) {
    if depth > DEPTH_MAX {
        script.unreadable = true;
        script.commands.push(command);
        return;
    }
    let inner = inner(&command);
    for text in scripts(&command, upstream) {
        within(&text, depth + 1, script);
    }
    let carried = command.upstream.clone();
    script.commands.push(command);
    if let Some(words) = inner {
        let inner = ParsedCommand { words, written: Vec::new(), upstream: carried };
        unwrap(inner, upstream, depth + 1, script);
    }
}

/// Returns the command that a wrapper runs.
fn inner(command: &ParsedCommand) -> Option<Vec<CommandWord>> {
    let program = command.program();
    if program == "find" || program == "fd" {
        let at = command.words.iter().position(|word| {
            matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "--exec")
        })?;
        return Some(command.words[at + 1..].to_vec());
    }
    let (_, valued) = WRAPPERS.iter().find(|(name, _)| *name == program)?;
    let mut rest = command.arguments();
    let mut skipped = !OPERAND_FIRST.contains(&program.as_str());
    while let [first, after @ ..] = rest {
        let text = first.text.as_str();
        let assigns = text.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains('/'));
        if valued.contains(&text) {
            rest = after.get(1..).unwrap_or_default();
        } else if text.starts_with('-') || assigns {
            rest = after;
        } else if !skipped {
            skipped = true;
            rest = after;
        } else {
            break;
        }
    }
    (!rest.is_empty()).then(|| rest.to_vec())
}

/// Returns the scripts that a command runs: text that is passed to a shell, and the joined arguments of `eval`.
fn scripts(command: &ParsedCommand, upstream: &[ParsedCommand]) -> Vec<String> {
    let joined =
        |words: &[CommandWord]| words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let program = command.program();
    let mut scripts = Vec::new();
    if SHELLS.contains(&program.as_str()) || program == "su" {
        let given = |it: &CommandWord| {
            it.text.strip_prefix('-').is_some_and(|text| !text.starts_with('-') && text.ends_with('c'))
                || it.text == "--command"
        };
        if let Some(at) = command.words.iter().position(given) {
            scripts.extend(command.words.get(at + 1).map(|word| word.text.clone()));
        }
        // Text that is printed into a shell is a script too.
        let printed = upstream.iter().filter(|it| it.is(&["echo", "printf"]));
        scripts.extend(printed.map(|printed| joined(printed.arguments())));
    }
    if program == "eval" || program == "trap" {
        scripts.push(joined(command.arguments()));
    }
    if program == "env"
        && let Some(at) =
            command.words.iter().position(|word| word.text == "-S" || word.text == "--split-string")
    {
        scripts.push(joined(&command.words[at + 1..]));
    }
    if program == "ssh" {
        // Options, some with a value, then the destination, then the command to run there.
        let mut at = 1;
        while let Some(option) = command.words.get(at).filter(|word| word.text.starts_with('-')) {
            at += if SSH_VALUED.contains(&option.text.as_str()) { 2 } else { 1 };
        }
        scripts.push(joined(command.words.get(at + 1..).unwrap_or_default()));
    }
    scripts
}
