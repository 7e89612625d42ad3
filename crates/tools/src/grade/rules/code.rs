//! Rules for commands that run code that nobody has seen, change published data, or hide.

use super::RuleMatcher::{Each, Line};
use super::rule;
use crate::grade::GradingRule;
use crate::grade::Platform::{All, Unix};
use crate::grade::Severity::{Critical, Warning};
use crate::grade::command::ParsedCommand;
use crate::grade::wrappers::SHELLS;

pub(super) const RULES: &[GradingRule] = &[
    rule(
        ("remote-script", "remote code", "Runs what was just downloaded", Critical, All),
        "Nobody has seen what it does.",
        Each(runs_download),
    ),
    rule(
        ("decoded-script", "remote code", "Runs what was just decoded", Critical, All),
        "What is written so that it cannot be read is not meant to be.",
        Each(|it| is_interpreter(it) && it.upstream.iter().any(|it| DECODERS.contains(&it.as_str()))),
    ),
    rule(
        ("piped-script", "remote code", "Runs what another program prints", Warning, All),
        "What runs is known when it runs.",
        Each(|it| is_interpreter(it) && !it.upstream.is_empty() && it.operands().next().is_none()),
    ),
    rule(
        ("made-script", "remote code", "Runs text that another program makes", Warning, All),
        "What runs is known when it runs.",
        Each(|it| {
            (is_interpreter(it) || it.is(&["eval", "source", "."]))
                && it.arguments().iter().any(|argument| argument.open)
        }),
    ),
    rule(
        ("inline-code", "remote code", "Runs code of another language", Warning, All),
        "Code of other languages is not read here.",
        Each(|it| {
            let name = it.program();
            let known =
                ["python", "perl", "ruby", "node", "php", "lua", "deno", "bun", "osascript", "awk", "gawk"];
            known.iter().any(|item| name.starts_with(item))
                && it.any(|it| {
                    matches!(it, "-c" | "-e" | "-r" | "--eval" | "-pe" | "-ne") || it.contains("system(")
                })
        }),
    ),
    rule(
        ("reverse-shell", "remote code", "Gives a shell to another machine", Critical, Unix),
        "Whoever is there then is here.",
        Each(|it| {
            it.is(&["nc", "ncat", "netcat"]) && (it.flag('e', "exec") || it.flag('c', "sh-exec"))
                || it.is(&["socat"]) && it.any(|it| it.starts_with("exec:") || it.starts_with("system:"))
                || it
                    .written
                    .iter()
                    .chain(&it.words)
                    .any(|item| item.text.contains("/dev/tcp/") || item.text.contains("/dev/udp/"))
        }),
    ),
    rule(
        ("git-discard", "git", "Throws work away", Warning, All),
        "Changes that were not committed cannot be brought back.",
        Each(|it| {
            it.is(&["git"])
                && (it.has("reset") && it.has("--hard")
                    || it.has("clean") && it.flag('f', "force")
                    || it.has("checkout") && it.has(".")
                    || it.has("restore") && it.has(".")
                    || it.has("stash") && (it.has("drop") || it.has("clear"))
                    || it.has("branch") && it.arguments().iter().any(|argument| argument.text == "-D"))
        }),
    ),
    rule(
        ("git-force-push", "git", "Rewrites what others have", Critical, All),
        "What was pushed before is gone for everybody.",
        Each(|it| {
            it.is(&["git"])
                && it.has("push")
                && (it.flag('f', "force")
                    || it.has("--mirror")
                    || it.operands().any(|operand| operand.starts_with('+')))
        }),
    ),
    rule(
        ("git-rewrite", "git", "Rewrites history", Warning, All),
        "Commits of before are reached by nobody.",
        Each(|it| {
            it.is(&["git-filter-repo", "bfg"])
                || it.is(&["git"])
                    && (it.has("filter-branch")
                        || it.has("filter-repo")
                        || it.has("reflog") && it.has("expire"))
        }),
    ),
    rule(
        ("data-drop", "data", "Deletes a database", Critical, All),
        "Rows are not in a bin.",
        Each(|it| {
            it.is(&["dropdb"])
                || it.is(&["redis-cli"]) && (it.has("flushall") || it.has("flushdb"))
                || it.any(|it| {
                    let words: Vec<&str> = it.split_whitespace().collect();
                    words.windows(2).any(|window| {
                        matches!(
                            window,
                            ["drop", "database" | "table" | "schema"]
                                | ["truncate", "table"]
                                | ["delete", "from"]
                        )
                    }) && !words.contains(&"where")
                })
        }),
    ),
    rule(
        ("cloud-delete", "data", "Deletes what runs elsewhere", Warning, All),
        "Machines and volumes that are deleted take their data along.",
        Each(|it| {
            it.is(&["terraform", "tofu", "pulumi"]) && it.verb() == "destroy"
                || it.is(&["kubectl", "helm", "gcloud", "az", "aws", "doctl"])
                    && it.any(|it| {
                        ["delete", "uninstall", "rb", "rm"].contains(&it)
                            || it.starts_with("delete-")
                            || it.starts_with("terminate-")
                    })
                || it.is(&["docker", "podman"]) && it.any(|it| matches!(it, "prune" | "rm" | "rmi"))
        }),
    ),
    rule(
        ("network-probe", "network", "Looks around in the network", Warning, All),
        "Owners of networks take it for an attack.",
        Each(|it| {
            it.is(&[
                "nmap", "masscan", "tcpdump", "tshark", "zmap", "hping3", "arp-scan", "nikto", "hydra",
                "sqlmap",
            ])
        }),
    ),
    rule(
        ("remote-shell", "network", "Runs on another machine", Warning, All),
        "What runs there is not graded by what is here.",
        Each(|it| {
            it.is(&["ssh", "telnet", "rsh", "mosh", "psexec", "winrs", "enter-pssession", "invoke-command"])
        }),
    ),
    rule(
        ("hidden-program", "disguise", "Names its program only when it runs", Warning, All),
        "What runs cannot be told from what is written.",
        Each(|it| it.words.first().is_some_and(|words| words.open)),
    ),
    rule(
        ("disguised", "disguise", "Holds characters that are not seen", Warning, All),
        "What a person reads is not what a shell reads.",
        Line(|it| it.disguised),
    ),
    rule(
        ("unreadable", "disguise", "Cannot be read to its end", Warning, All),
        "A quote that does not close, nesting without end, or too long.",
        Line(|it| it.unreadable),
    ),
];

const DOWNLOADERS: &[&str] = &[
    "curl",
    "wget",
    "fetch",
    "aria2c",
    "lynx",
    "http",
    "https",
    "xh",
    "nc",
    "ncat",
    "ftp",
    "lwp-request",
    "iwr",
    "irm",
    "invoke-webrequest",
    "invoke-restmethod",
];

const DECODERS: &[&str] =
    &["base64", "base32", "xxd", "openssl", "uudecode", "gunzip", "zcat", "rev", "tr", "gpg"];

const INTERPRETERS: &[&str] =
    &["perl", "ruby", "node", "php", "lua", "powershell", "pwsh", "iex", "invoke-expression"];

fn is_interpreter(command: &ParsedCommand) -> bool {
    let name = command.program();
    SHELLS.contains(&name.as_str()) || INTERPRETERS.contains(&name.as_str()) || name.starts_with("python")
}

fn runs_download(command: &ParsedCommand) -> bool {
    let fetches = |it: &String| DOWNLOADERS.contains(&it.as_str());
    let made = || command.arguments().iter().any(|argument| argument.runs.iter().any(fetches));
    is_interpreter(command) && (command.upstream.iter().any(fetches) || made())
        || command.is(&["eval", "source", "."]) && made()
}
