//! Rules for commands that delete, move and write files and disks.

use super::RuleMatcher::Each;
use super::paths::{disk, vital};
use super::rule;
use crate::grade::GradingRule;
use crate::grade::Platform::Unix;
use crate::grade::Severity::{Critical, Warning};
use crate::grade::command::ParsedCommand;

pub(super) const RULES: &[GradingRule] = &[
    rule(
        ("rm-root", "files", "Deletes a whole system or home", Critical, Unix),
        "A recursive delete of the root, a home, the current folder's all, or a folder of the system.",
        Each(|it| removes_folders(it) && it.operands().any(vital)),
    ),
    rule(
        ("rm-no-preserve-root", "files", "Takes the guard off the root", Critical, Unix),
        "The option exists to delete the root and for nothing else.",
        Each(|it| it.is(&["rm", "chmod", "chown", "chgrp"]) && it.any(|it| it.starts_with("--no-preserve"))),
    ),
    rule(
        ("rm-recursive", "files", "Deletes folders", Warning, Unix),
        "A recursive delete takes all that is below.",
        Each(removes_folders),
    ),
    rule(
        ("find-delete-root", "files", "Deletes what it finds in a whole system or home", Critical, Unix),
        "A search that begins at a vital folder and deletes.",
        Each(|it| {
            it.is(&["find"])
                && (it.has("-delete") || runs_rm(it))
                && it.operands().take(1).any(|operand| operand.starts_with(['/', '~', '$']) && vital(operand))
        }),
    ),
    rule(
        ("find-delete", "files", "Deletes what it finds", Warning, Unix),
        "What a search finds is known when it is deleted.",
        Each(|it| it.is(&["find", "fd"]) && (it.has("-delete") || runs_rm(it))),
    ),
    rule(
        ("shred", "files", "Makes files unreadable", Warning, Unix),
        "Overwritten files cannot be brought back.",
        Each(|it| it.is(&["shred", "srm", "wipe", "unlink", "truncate"])),
    ),
    rule(
        ("move-vital", "files", "Moves a vital folder", Critical, Unix),
        "Moved away, it is as good as deleted.",
        Each(|it| it.is(&["mv"]) && it.operands().any(vital) && !it.operands().last().is_some_and(vital)),
    ),
    rule(
        ("chmod-vital", "files", "Changes the rights of a whole system or home", Critical, Unix),
        "Rights of a system's files cannot be guessed back.",
        Each(|it| {
            it.is(&["chmod", "chown", "chgrp", "setfacl"])
                && it.flag('R', "recursive")
                && it.operands().skip(1).any(vital)
        }),
    ),
    rule(
        ("chmod-open", "files", "Opens files to everybody", Warning, Unix),
        "Everybody on the machine may write them.",
        Each(|it| {
            it.is(&["chmod"])
                && it.operands().any(|operand| operand.ends_with("777") || operand.contains("a+rwx"))
        }),
    ),
    rule(
        ("write-device", "disks", "Writes over a disk", Critical, Unix),
        "What is written to a device is not in a file of it any more.",
        Each(|it| {
            it.written.iter().any(|item| disk(&item.text))
                || it.is(&["dd"]) && it.any(|it| it.strip_prefix("of=").is_some_and(disk))
                || it.is(&["tee", "cp", "cat", "shred", "wipefs", "blkdiscard", "badblocks"])
                    && it.operands().last().is_some_and(disk)
        }),
    ),
    rule(
        ("make-file-system", "disks", "Formats a disk", Critical, Unix),
        "What was on the disk is gone.",
        Each(|it| {
            it.program().starts_with("mkfs")
                || it.is(&["mke2fs", "mkswap", "wipefs", "blkdiscard", "sgdisk", "sfdisk", "cfdisk"])
        }),
    ),
    rule(
        ("partition", "disks", "Changes partitions or volumes", Warning, Unix),
        "A wrong number takes a whole disk.",
        Each(|it| {
            it.is(&[
                "fdisk",
                "parted",
                "gdisk",
                "lvremove",
                "vgremove",
                "pvremove",
                "cryptsetup",
                "zpool",
                "mdadm",
            ])
        }),
    ),
    rule(
        ("dd", "disks", "Copies block by block", Warning, Unix),
        "Where it writes it asks nobody.",
        Each(|it| it.is(&["dd"]) && it.any(|it| it.starts_with("of="))),
    ),
];

fn removes_folders(command: &ParsedCommand) -> bool {
    command.is(&["rm"]) && (command.flag('r', "recursive") || command.flag('R', "recursive"))
}

fn runs_rm(command: &ParsedCommand) -> bool {
    let at =
        command.words.iter().position(|word| word.text.starts_with("-exec") || word.text.starts_with("-ok"));
    at.and_then(|at| command.words.get(at + 1))
        .is_some_and(|value| value.text.ends_with("rm") || value.text == "shred")
}
