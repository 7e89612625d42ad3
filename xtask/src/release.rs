//! The release files: an archive, a Debian package, and their checksums.

mod debian;
mod notices;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file that is read, and one that is run.
const READ: u32 = 0o644;
const RUN: u32 = 0o755;

/// Builds the binary for distribution and packs it: an archive and a Debian package with manual pages, completions
/// and the systemd unit, and `SHA256SUMS` over both. Returns the folder, target/package. The same source and
/// toolchain give the same bytes: all times are that of the commit.
///
/// # Errors When a program that this needs is not there or fails: cargo, git, strip and objdump, tar, gzip, dpkg-deb,
/// md5sum, sha256sum.
pub fn build_release(root: &Path, version: &str) -> io::Result<PathBuf> {
    let built = ["build", "--profile", "dist", "--locked", "-p", "singletree-cli"];
    run_command(cargo_command(root).args(built))?;
    let out = root.join("target/package");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let time =
        read_command_output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?;
    let machine = read_command_output(Command::new("uname").arg("-m"))?;
    let name = format!("singletree-{version}-linux-{machine}");
    let archive = out.join(&name);
    stage_archive_files(root, &archive)?;
    let archive_file = format!("{name}.tar.gz");
    // Names in order and times of one moment: equal contents are equal bytes.
    run_command(Command::new("tar").current_dir(&out).arg(format!("--mtime=@{time}")).args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--use-compress-program=gzip -9n",
        "-cf",
        &archive_file,
        &name,
    ]))?;
    let package_file =
        debian::build_package(root, &archive, &debian::DebianRelease { version, time: &time })?;
    let sums = read_command_output(
        Command::new("sha256sum").current_dir(&out).args([&archive_file, &package_file]),
    )?;
    write_text_file(&out.join("SHA256SUMS"), &format!("{sums}\n"))?;
    Ok(out)
}

/// Puts the content of the archive together.
fn stage_archive_files(root: &Path, to: &Path) -> io::Result<()> {
    let binary = to.join("singletree");
    copy_file_with_mode(&root.join("target/dist/singletree"), &binary, RUN)?;
    run_command(Command::new("strip").arg(&binary))?;
    for name in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "SECURITY.md", "CHANGELOG.md"] {
        copy_file_with_mode(&root.join(name), &to.join(name), READ)?;
    }
    for name in ["singletree.service", "Containerfile"] {
        copy_file_with_mode(&root.join("packaging").join(name), &to.join(name), READ)?;
    }
    write_text_file(&to.join("THIRD-PARTY.txt"), &notices::collect_notices(root)?)?;
    let man = to.join("man");
    fs::create_dir_all(&man)?;
    run_command(Command::new(&binary).arg("man").arg(&man))?;
    for (shell, name) in [("bash", "singletree.bash"), ("zsh", "_singletree"), ("fish", "singletree.fish")] {
        let script = read_command_output(Command::new(&binary).args(["completions", shell]))?;
        write_text_file(&to.join("completions").join(name), &format!("{script}\n"))?;
    }
    Ok(())
}

/// The cargo that runs this, for the project. It is not told whose program calls it: build scripts that look at such
/// names (ring's does) would make half of the binary again, as if something had changed.
fn cargo_command(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Copies a file and gives it its mode, whatever the mask of who runs this.
fn copy_file_with_mode(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    let content = fs::read(from)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", from.display())))?;
    write_file_with_mode(to, &content, mode)
}

fn write_text_file(to: &Path, text: &str) -> io::Result<()> {
    write_file_with_mode(to, text.as_bytes(), READ)
}

fn write_file_with_mode(to: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, content)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
}

fn run_command(command: &mut Command) -> io::Result<()> {
    let status =
        command.stdin(Stdio::null()).status().map_err(|error| add_program_to_error(command, &error))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
}

fn read_command_output(command: &mut Command) -> io::Result<String> {
    let ran = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = ran.map_err(|error| add_program_to_error(command, &error))?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?}: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Says which program is not there.
fn add_program_to_error(command: &Command, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", command.get_program().display()))
}
