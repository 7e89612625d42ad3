//! The Debian package: the files of the archive at Debian's paths, and the package's own description.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{READ, RUN, copy_file_with_mode, read_command_output, run_command, write_text_file};

/// The released version.
pub(super) struct DebianRelease<'a> {
    pub(super) version: &'a str,
    /// Seconds since 1970; nothing in the package is newer.
    pub(super) time: &'a str,
}

/// Packs the content of an archive as a Debian package beside it, and returns the name of the file.
pub(super) fn build_package(root: &Path, archive: &Path, release: &DebianRelease<'_>) -> io::Result<String> {
    let out = archive.parent().unwrap_or(root);
    let tree = out.join("debian");
    stage_package_files(root, archive, &tree)?;
    let architecture = read_command_output(Command::new("dpkg").arg("--print-architecture"))?;
    let files = list_tree_files(&tree, &tree)?;
    let sums = read_command_output(Command::new("md5sum").current_dir(&tree).args(&files))?;
    let mut size = 0;
    for file in &files {
        size += fs::metadata(tree.join(file))?.len().div_ceil(1024);
    }
    let binary = tree.join("usr/bin/singletree");
    let needs = required_packages(&read_command_output(
        Command::new("objdump").env("LC_ALL", "C").arg("-p").arg(&binary),
    )?)?;
    let control = format!(
        "Package: singletree\nVersion: {}\nArchitecture: {architecture}\nMaintainer: the singletree project\n\
         Installed-Size: {size}\nDepends: {needs}\nRecommends: ca-certificates\nSection: net\nPriority: optional\n\
         Description: durable chat harness\n Conversations with agents that never lose a turn: not to a crash, not to a race,\n \
         not to a human who answers three days later. One binary, one file of data.\n",
        release.version
    );
    write_text_file(&tree.join("DEBIAN/control"), &control)?;
    write_text_file(&tree.join("DEBIAN/md5sums"), &format!("{sums}\n"))?;
    for script in ["postinst", "prerm", "postrm"] {
        copy_file_with_mode(
            &root.join("packaging/debian").join(script),
            &tree.join("DEBIAN").join(script),
            RUN,
        )?;
    }
    let package = format!("singletree_{}_{architecture}.deb", release.version);
    run_command(Command::new("dpkg-deb").current_dir(out).env("SOURCE_DATE_EPOCH", release.time).args([
        "--root-owner-group",
        "-Zxz",
        "--build",
        "debian",
        &package,
    ]))?;
    Ok(package)
}

/// Puts the files where Debian has them.
fn stage_package_files(root: &Path, archive: &Path, to: &Path) -> io::Result<()> {
    let places = [
        ("singletree", "usr/bin/singletree", RUN),
        ("singletree.service", "usr/lib/systemd/system/singletree.service", READ),
        ("README.md", "usr/share/doc/singletree/README.md", READ),
        ("SECURITY.md", "usr/share/doc/singletree/SECURITY.md", READ),
        ("CHANGELOG.md", "usr/share/doc/singletree/changelog", READ),
        ("THIRD-PARTY.txt", "usr/share/doc/singletree/THIRD-PARTY.txt", READ),
        ("completions/singletree.bash", "usr/share/bash-completion/completions/singletree", READ),
        ("completions/_singletree", "usr/share/zsh/vendor-completions/_singletree", READ),
        ("completions/singletree.fish", "usr/share/fish/vendor_completions.d/singletree.fish", READ),
    ];
    for (from, at, mode) in places {
        copy_file_with_mode(&archive.join(from), &to.join(at), mode)?;
    }
    // The unit runs in it; the settings are written there by who has some.
    fs::create_dir_all(to.join("etc/singletree"))?;
    let about = to.join("usr/share/doc/singletree");
    let licences =
        [fs::read_to_string(root.join("LICENSE-APACHE"))?, fs::read_to_string(root.join("LICENSE-MIT"))?];
    write_text_file(&about.join("copyright"), &licences.join("\n\n"))?;
    let mut pressed = vec![about.join("changelog"), about.join("THIRD-PARTY.txt")];
    for page in fs::read_dir(archive.join("man"))? {
        let page = page?;
        let at = to.join("usr/share/man/man1").join(page.file_name());
        copy_file_with_mode(&page.path(), &at, READ)?;
        pressed.push(at);
    }
    run_command(Command::new("gzip").arg("-9n").args(pressed))
}

/// Lists the files of a tree by their names in it, in order.
fn list_tree_files(tree: &Path, at: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(at)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(list_tree_files(tree, &path)?);
        } else {
            found.extend(path.strip_prefix(tree).map(Path::to_owned));
        }
    }
    Ok(found)
}

/// Returns the packages that a binary needs, from its dynamic section as `objdump -p` shows it: the packages of its
/// libraries, libc in the newest version of a symbol that the binary asks for.
///
/// # Errors
/// When it needs a library without a known package.
fn required_packages(dynamic: &str) -> io::Result<String> {
    let mut packages = BTreeSet::new();
    for library in dynamic.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")) {
        let library = library.trim();
        packages.insert(match library {
            "libc.so.6" | "libm.so.6" => "libc6",
            it if it.starts_with("ld-linux") => "libc6",
            "libgcc_s.so.1" => "libgcc-s1",
            _ => return Err(io::Error::other(format!("the binary needs {library}: of which package?"))),
        });
    }
    let glibc = dynamic.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let newest =
        glibc.max_by_key(|it| it.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>());
    let named = packages.into_iter().map(|package| match (package, newest) {
        ("libc6", Some(newest)) => format!("libc6 (>= {newest})"),
        (other, _) => other.to_owned(),
    });
    Ok(named.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::required_packages;

    const DYNAMIC: &str = "
Dynamic Section:
  NEEDED               libgcc_s.so.1
  NEEDED               libc.so.6
  NEEDED               ld-linux-x86-64.so.2

Version References:
  required from libgcc_s.so.1:
    0x0b792650 0x00 05 GCC_3.0
  required from libc.so.6:
    0x0d696914 0x00 04 GLIBC_2.4
    0x069691b4 0x00 03 GLIBC_2.34
    0x09691a75 0x00 02 GLIBC_2.2.5
";

    #[test]
    fn a_package_asks_for_the_newest_libc_whose_symbols_its_binary_uses() {
        assert_eq!(required_packages(DYNAMIC).unwrap(), "libc6 (>= 2.34), libgcc-s1");
    }

    #[test]
    fn a_library_of_no_known_package_is_an_error() {
        let odd = DYNAMIC.replace("libgcc_s.so.1", "libssl.so.3");
        assert!(required_packages(&odd).unwrap_err().to_string().contains("libssl.so.3"));
    }
}
