//! Rules for commands that change a system, its permissions, and its traces.

use super::RuleMatcher::{Each, Line};
use super::paths::{secret_file, sets_user, start_file, system_file, written_system_file};
use super::rule;
use crate::grade::GradingRule;
use crate::grade::Platform::{All, Unix};
use crate::grade::Severity::{Critical, Warning};

pub(super) const RULES: &[GradingRule] = &[
    rule(
        ("write-system-file", "system", "Writes a file of the system", Critical, Unix),
        "Who may log in, as whom, and what runs at the start stands in these files.",
        Each(|it| {
            it.written.iter().any(|item| system_file(&item.text))
                || it.is(&["tee", "cp", "mv", "ln", "install", "sed", "dd"])
                    && it.operands().any(written_system_file)
        }),
    ),
    rule(
        ("write-own-start", "system", "Writes what runs at log-in", Warning, Unix),
        "What stands there runs again and again, unasked.",
        Each(|it| {
            it.written.iter().any(|item| start_file(&item.text))
                || it.is(&["tee"]) && it.operands().any(start_file)
        }),
    ),
    rule(
        ("fork-bomb", "system", "Starts itself without end", Critical, Unix),
        "A function that pipes itself into itself stops the machine.",
        Line(|it| {
            let again =
                |name: &str| it.commands.iter().filter(|command| command.program() == name).count() >= 3;
            it.commands
                .iter()
                .any(|command| command.upstream.contains(&command.program()) && again(&command.program()))
        }),
    ),
    rule(
        ("power", "system", "Stops the machine", Critical, Unix),
        "Everything that runs on it ends.",
        Each(|it| {
            it.is(&["shutdown", "reboot", "halt", "poweroff"])
                || it.is(&["init", "telinit"]) && matches!(it.verb(), "0" | "6")
                || it.is(&["systemctl"]) && matches!(it.verb(), "poweroff" | "reboot" | "halt" | "kexec")
        }),
    ),
    rule(
        ("kill-all", "system", "Ends every process", Critical, Unix),
        "Everything that runs as this user ends.",
        Each(|it| it.is(&["kill"]) && it.has("-1") && it.operands().next().is_none() || it.is(&["killall5"])),
    ),
    rule(
        ("kill", "system", "Ends processes", Warning, Unix),
        "What they were doing is lost.",
        Each(|it| it.is(&["pkill", "killall", "kill", "xkill"])),
    ),
    rule(
        ("services", "system", "Changes services, modules or the kernel", Warning, Unix),
        "What the machine does for others changes.",
        Each(|it| {
            let verbs = ["stop", "disable", "mask", "restart", "isolate"];
            it.is(&["systemctl", "service", "launchctl"])
                && it.operands().any(|operand| verbs.contains(&operand))
                || it.is(&["insmod", "modprobe", "rmmod", "sysctl", "mount", "umount"])
        }),
    ),
    rule(
        ("firewall", "system", "Changes the firewall", Warning, Unix),
        "What may come in changes.",
        Each(|it| it.is(&["iptables", "ip6tables", "nft", "ufw", "firewall-cmd", "pfctl", "setenforce"])),
    ),
    rule(
        ("scheduled", "system", "Plans what runs later", Warning, Unix),
        "It runs again when nobody looks.",
        Each(|it| it.is(&["crontab", "at", "batch", "systemd-run"])),
    ),
    rule(
        ("packages", "system", "Installs or removes programs", Warning, All),
        "What is installed runs code of others, often as it is installed.",
        Each(|it| {
            let verbs = [
                "install",
                "remove",
                "purge",
                "uninstall",
                "-s",
                "-r",
                "-rns",
                "publish",
                "erase",
                "autoremove",
            ];
            let managers = [
                "apt", "apt-get", "dnf", "yum", "pacman", "zypper", "apk", "brew", "snap", "pip", "pip3",
                "npm", "pnpm", "yarn", "gem", "cargo", "choco", "winget", "scoop", "dpkg", "rpm",
            ];
            it.is(&managers) && it.any(|it| verbs.contains(&it)) || it.is(&["npx", "uvx", "bunx"])
        }),
    ),
    rule(
        ("setuid", "privileges", "Makes a program run as its owner", Critical, Unix),
        "Whoever runs it then is its owner.",
        Each(|it| it.is(&["chmod"]) && it.operands().any(sets_user)),
    ),
    rule(
        ("elevated", "privileges", "Runs as another user", Warning, Unix),
        "What the user may not do, this may.",
        Each(|it| it.is(&["sudo", "doas", "su", "pkexec", "gosu", "runuser"])),
    ),
    rule(
        ("accounts", "privileges", "Changes accounts", Warning, Unix),
        "Who may log in is not a tool's to say.",
        Each(|it| {
            it.is(&[
                "useradd", "userdel", "usermod", "passwd", "chpasswd", "visudo", "groupadd", "adduser",
                "deluser",
            ])
        }),
    ),
    rule(
        ("container-escape", "privileges", "Gives a container the machine", Critical, Unix),
        "Inside it is as good as root outside.",
        Each(|it| {
            it.is(&["docker", "podman", "nerdctl"])
                && it.any(|it| it == "--privileged" || it.starts_with("/:/") || it.contains("docker.sock"))
                || it.is(&["nsenter"])
        }),
    ),
    rule(
        ("history", "traces", "Covers traces", Warning, Unix),
        "What happened cannot be looked up.",
        Each(|it| {
            it.is(&["history"]) && it.flag('c', "clear")
                || it
                    .written
                    .iter()
                    .any(|item| item.text.ends_with("_history") || item.text.starts_with("/var/log/"))
                || it.is(&["unset"]) && it.has("HISTFILE")
        }),
    ),
    rule(
        ("secrets-read", "secrets", "Reads keys or passwords", Warning, Unix),
        "What is read here can be sent away.",
        Each(|it| it.arguments().iter().any(|argument| secret_file(&argument.text))),
    ),
    rule(
        ("secrets-sent", "secrets", "Sends a file away", Warning, All),
        "What leaves the machine does not come back.",
        Each(|it| {
            it.is(&["scp", "rsync", "sftp", "ftp"])
                || it.is(&["curl", "wget"])
                    && (it
                        .any(|it| it.starts_with('@') || it.contains("=@") || it.starts_with("--post-file"))
                        || it.flag('T', "upload-file"))
        }),
    ),
];
