//! Paths that matter.

/// Says whether a path is one without which a system or a home is not there: the root, a folder below it, a home, or
/// all that is in one of them.
pub(super) fn vital(path: &str) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." | "*" | ".*" | "{*,.*}" | ".[!.]*" => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    let absolute = path.starts_with('/');
    match parts[..] {
        [] => absolute || matches!(path, "." | "./" | "*" | "./*" | ".." | "../" | "../*" | ".*"),
        [top] if absolute => {
            const TOP: [&str; 18] = [
                "bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "sbin", "srv",
                "sys", "usr", "var", "users", "system", "library",
            ];
            TOP.contains(&top.to_ascii_lowercase().as_str())
        }
        ["home" | "Users", _] => absolute,
        [top] => top.starts_with('~') || matches!(top, "$HOME" | "$PWD" | "$OLDPWD" | "$USERPROFILE"),
        _ => false,
    }
}

pub(super) fn disk(path: &str) -> bool {
    const DISKS: [&str; 10] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "md"];
    path.strip_prefix("/dev/").is_some_and(|path| DISKS.iter().any(|disk| path.starts_with(disk)))
}

pub(super) fn system_file(path: &str) -> bool {
    const PLACES: [&str; 10] = [
        "/etc/",
        "/boot/",
        "/usr/bin/",
        "/usr/sbin/",
        "/usr/lib/",
        "/bin/",
        "/sbin/",
        "/lib/",
        "/proc/sys",
        "/sys/",
    ];
    PLACES.iter().any(|it| path.starts_with(it)) || path.contains(".ssh/authorized_keys")
}

/// Says whether a path among others is one that is likely to be written: the least that is vital.
pub(super) fn written_system_file(path: &str) -> bool {
    const FILES: [&str; 8] = [
        "/etc/passwd",
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/crontab",
        "/etc/hosts",
        "/etc/fstab",
        "/etc/ld.so.preload",
        "/etc/ssh/",
    ];
    FILES.iter().any(|it| path.starts_with(it)) || path.contains(".ssh/authorized_keys")
}

pub(super) fn start_file(path: &str) -> bool {
    const FILES: [&str; 9] = [
        ".bashrc",
        ".zshrc",
        ".profile",
        ".bash_profile",
        ".zprofile",
        ".zshenv",
        "config.fish",
        ".bash_login",
        ".gitconfig",
    ];
    FILES.iter().any(|it| path.ends_with(it))
        || path.contains("/autostart/")
        || path.contains("LaunchAgents/")
}

pub(super) fn secret_file(path: &str) -> bool {
    const PLACES: [&str; 12] = [
        "/etc/shadow",
        ".ssh/id_",
        ".aws/credentials",
        ".netrc",
        ".pgpass",
        ".kube/config",
        ".docker/config.json",
        ".git-credentials",
        ".npmrc",
        ".gnupg/",
        "/proc/self/environ",
        ".config/gcloud",
    ];
    PLACES.iter().any(|it| path.contains(it)) || path.ends_with("/.env") || path == ".env"
}

pub(super) fn sets_user(mode: &str) -> bool {
    let digits = mode.len() == 4 && mode.chars().all(|letter| ('0'..='7').contains(&letter));
    digits && matches!(mode.as_bytes()[0], b'2' | b'4' | b'6' | b'7')
        || mode.split_once('+').is_some_and(|(_, rights)| rights.contains('s'))
}

pub(super) fn windows_vital(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace('/', "\\");
    let path = path.trim_end_matches(['\\', '*', '.']);
    let drive = path.len() == 2 && path.ends_with(':');
    const PLACES: [&str; 9] = [
        "%systemroot%",
        "%windir%",
        "%userprofile%",
        "%systemdrive%",
        "%programfiles%",
        "$env:systemroot",
        "$env:userprofile",
        "$home",
        "~",
    ];
    let below = path.get(2..).unwrap_or_default();
    drive
        || path.is_empty()
        || PLACES.contains(&path)
        || path.get(1..2) == Some(":")
            && matches!(below, "\\windows" | "\\users" | "\\program files" | "\\windows\\system32")
}
