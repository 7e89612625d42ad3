//! Rules for dangerous commands on Windows.

use super::RuleMatcher::{Each, Line};
use super::paths::windows_vital;
use super::rule;
use crate::grade::GradingRule;
use crate::grade::Platform::Windows;
use crate::grade::Severity::{Critical, Warning};
use crate::grade::command::ParsedCommand;

pub(super) const RULES: &[GradingRule] = &[
    rule(
        ("win-delete", "files", "Deletes folders", Warning, Windows),
        "A recursive delete takes all that is below.",
        Each(windows_delete),
    ),
    rule(
        ("win-delete-vital", "files", "Deletes a whole drive or system folder", Critical, Windows),
        "A recursive delete of a drive, the system or all users.",
        Each(|it| windows_delete(it) && it.arguments().iter().any(|argument| windows_vital(&argument.text))),
    ),
    rule(
        ("win-format", "disks", "Formats or partitions a disk", Critical, Windows),
        "What was on the disk is gone.",
        Each(|it| {
            it.is(&["format"]) && it.any(|it| it.ends_with(':'))
                || it.is(&["diskpart", "format-volume", "clear-disk", "remove-partition", "initialize-disk"])
                || it.is(&["cipher"]) && it.any(|it| it.starts_with("/w"))
        }),
    ),
    rule(
        ("win-recovery", "system", "Takes away what a system recovers by", Critical, Windows),
        "Shadow copies and the boot menu are what extortion removes first.",
        Each(|it| {
            it.is(&["vssadmin", "wbadmin"]) && it.has("delete")
                || it.is(&["wmic"]) && it.has("shadowcopy")
                || it.is(&["bcdedit", "bootrec"])
        }),
    ),
    rule(
        ("win-encoded", "remote code", "Runs encoded code", Critical, Windows),
        "What is written so that it cannot be read is not meant to be.",
        Each(|it| {
            it.is(&["powershell", "pwsh"])
                && it.any(|it| {
                    it.len() >= 2 && "-encodedcommand".starts_with(it) || it == "-ec" || it == "/enc"
                })
        }),
    ),
    rule(
        ("win-download", "remote code", "Runs what was just downloaded", Critical, Windows),
        "Nobody has seen what it does.",
        Line(|it| {
            let has = |names: &[&str]| it.commands.iter().any(|command| command.is(names));
            let fetches = has(&["iwr", "invoke-webrequest", "irm", "invoke-restmethod", "curl", "wget"])
                || it.commands.iter().any(|command| {
                    command.words.iter().any(|word| word.text.to_ascii_lowercase().contains("downloadstring"))
                });
            has(&["iex", "invoke-expression"]) && fetches
                || has(&["mshta", "regsvr32", "certutil", "bitsadmin"])
        }),
    ),
    rule(
        ("win-registry", "system", "Changes the registry", Warning, Windows),
        "What the system does is written there.",
        Each(|it| it.is(&["reg", "regedit", "set-itemproperty", "remove-itemproperty"]) && !it.has("query")),
    ),
    rule(
        ("win-accounts", "privileges", "Changes accounts or rights", Warning, Windows),
        "Who may do what is not a tool's to say.",
        Each(|it| {
            it.is(&[
                "runas",
                "takeown",
                "icacls",
                "cacls",
                "net",
                "set-executionpolicy",
                "new-localuser",
                "add-localgroupmember",
            ])
        }),
    ),
    rule(
        ("win-system", "system", "Stops the machine, its tasks or its guards", Warning, Windows),
        "What runs on it ends, or runs unseen.",
        Each(|it| {
            it.is(&[
                "shutdown",
                "stop-computer",
                "restart-computer",
                "taskkill",
                "stop-process",
                "schtasks",
                "sc",
                "netsh",
                "set-mppreference",
                "stop-service",
            ])
        }),
    ),
];

fn windows_delete(command: &ParsedCommand) -> bool {
    let recursive = command.any(|it| it.starts_with("/s") || it.len() >= 2 && "-recurse".starts_with(it));
    command.is(&["del", "erase", "rd", "rmdir", "remove-item", "ri", "rm"]) && recursive
}
