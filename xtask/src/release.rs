//! What is given to people: an archive, a Debian package, and their checksums.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the binary for distribution and packs it: an archive and a Debian package with manual pages, completions and the
/// systemd unit, and `SHA256SUMS` over both. Returns the folder. The same source and toolchain give the same bytes.
///
/// # Errors
/// When a program that this needs is not there or fails: cargo, tar, dpkg-deb, sha256sum.
pub fn release(root: &Path, version: &str) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo).current_dir(root).args([
        "build",
        "--profile",
        "dist",
        "--locked",
        "-p",
        "singletree-cli",
    ]))?;
    let binary = root.join("target/dist/singletree");
    let out = root.join("target/package");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let machine = said(Command::new("uname").arg("-m"))?;
    let name = format!("singletree-{version}-linux-{machine}");
    let archive = stage_archive(root, &binary, &out.join(&name))?;
    let package = stage_package(root, &archive, &out.join("debian"))?;
    let archive_file = format!("{name}.tar.gz");
    // Names in order and times of one moment: equal contents are equal bytes.
    run(Command::new("tar").current_dir(&out).env("GZIP", "-n").args([
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "-czf",
        &archive_file,
        &name,
    ]))?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    let package_file = format!("singletree_{version}_{architecture}.deb");
    write(&package.join("DEBIAN/control"), &control(version, &architecture, &binary)?)?;
    run(Command::new("dpkg-deb").current_dir(&out).env("SOURCE_DATE_EPOCH", "0").args([
        "--root-owner-group",
        "--build",
        "debian",
        &package_file,
    ]))?;
    let sums = said(Command::new("sha256sum").current_dir(&out).args([&archive_file, &package_file]))?;
    write(&out.join("SHA256SUMS"), &format!("{sums}\n"))?;
    Ok(out)
}

/// Puts together what the archive holds.
fn stage_archive(root: &Path, binary: &Path, to: &Path) -> io::Result<PathBuf> {
    copy(binary, &to.join("singletree"))?;
    for name in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "SECURITY.md", "CHANGELOG.md"] {
        copy(&root.join(name), &to.join(name))?;
    }
    for name in ["singletree.service", "Containerfile", "singletree.toml"] {
        copy(&root.join("packaging").join(name), &to.join(name))?;
    }
    let man = to.join("man");
    fs::create_dir_all(&man)?;
    run(Command::new(binary).arg("man").arg(&man))?;
    for (shell, name) in [("bash", "singletree.bash"), ("zsh", "_singletree"), ("fish", "singletree.fish")] {
        let script = said(Command::new(binary).args(["completions", shell]))?;
        write(&to.join("completions").join(name), &format!("{script}\n"))?;
    }
    Ok(to.to_owned())
}

/// Puts the same files where Debian has them.
fn stage_package(root: &Path, archive: &Path, to: &Path) -> io::Result<PathBuf> {
    let places = [
        ("singletree", "usr/bin/singletree"),
        ("singletree.service", "lib/systemd/system/singletree.service"),
        ("singletree.toml", "etc/singletree/singletree.toml"),
        ("README.md", "usr/share/doc/singletree/README.md"),
        ("SECURITY.md", "usr/share/doc/singletree/SECURITY.md"),
        ("completions/singletree.bash", "usr/share/bash-completion/completions/singletree"),
        ("completions/_singletree", "usr/share/zsh/vendor-completions/_singletree"),
        ("completions/singletree.fish", "usr/share/fish/vendor_completions.d/singletree.fish"),
    ];
    for (from, place) in places {
        copy(&archive.join(from), &to.join(place))?;
    }
    let licences =
        [fs::read_to_string(root.join("LICENSE-APACHE"))?, fs::read_to_string(root.join("LICENSE-MIT"))?];
    write(&to.join("usr/share/doc/singletree/copyright"), &licences.join("\n\n"))?;
    for page in fs::read_dir(archive.join("man"))? {
        let page = page?;
        let at = to.join("usr/share/man/man1").join(page.file_name());
        copy(&page.path(), &at)?;
        run(Command::new("gzip").args(["-9n"]).arg(&at))?;
    }
    write(&to.join("DEBIAN/conffiles"), "/etc/singletree/singletree.toml\n")?;
    Ok(to.to_owned())
}

/// Writes what the package says of itself.
fn control(version: &str, architecture: &str, binary: &Path) -> io::Result<String> {
    let kilobytes = fs::metadata(binary)?.len().div_ceil(1024);
    Ok(format!(
        "Package: singletree\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: the singletree project\n\
         Installed-Size: {kilobytes}\nDepends: libc6 (>= 2.34)\nRecommends: ca-certificates\nSection: net\nPriority: optional\n\
         Description: durable chat harness\n Conversations with agents that never lose a turn: not to a crash, not to a race,\n \
         not to a human who answers three days later. One binary, one file of data.\n"
    ))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map(drop).map_err(|it| io::Error::new(it.kind(), format!("{}: {it}", from.display())))
}

fn write(to: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, text)
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

fn said(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?}: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
