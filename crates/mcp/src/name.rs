//! Names of tools that every provider accepts.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

/// How long the name of a tool may be, for every provider.
const NAME_BYTES: usize = 64;
/// How long the name of a server may be: room is left for the tools'.
const SERVER_BYTES: usize = 32;
/// Between the name of the server and that of the tool.
const BETWEEN: &str = "__";
/// Hexadecimal digits that tell two names apart which would be one.
const MARK_BYTES: usize = 8;

/// Checks the name of a server.
pub(crate) fn check_server_name(name: &str) -> Result<(), String> {
    let fits = !name.is_empty() && name.len() <= SERVER_BYTES && name.bytes().all(is_safe_name_byte);
    if fits && !name.contains(BETWEEN) {
        return Ok(());
    }
    Err(format!("its name is not 1 to {SERVER_BYTES} of a-z, A-Z, 0-9, - and _, without two _ in a row"))
}

/// Makes the name under which a model calls the tool of a server, different from those that are taken. If the name is
/// too long, taken or empty, it ends with a digest of the tool's name.
pub(crate) fn build_offered_name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let safe: String = tool
        .chars()
        .map(|letter| if letter.is_ascii() && is_safe_name_byte(letter as u8) { letter } else { '_' })
        .collect();
    let whole = format!("{server}{BETWEEN}{safe}");
    if whole.len() <= NAME_BYTES && !safe.is_empty() && !taken.contains(&whole) {
        return whole;
    }
    let mut hasher = Sha256::new();
    hasher.update(tool);
    let mark: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let room = NAME_BYTES - MARK_BYTES - 1;
    // All of it is ASCII, so that it can be cut anywhere.
    format!("{}_{}", &whole[..whole.len().min(room)], &mark[..MARK_BYTES])
}

fn is_safe_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_every_provider_accepts_and_stays_itself_where_it_can() {
        let long = "x".repeat(80);
        let taken = BTreeSet::from(["files__read_file".to_owned()]);
        let table = [
            ("echo", "files__echo".to_owned()),
            ("get-sum", "files__get-sum".to_owned()),
            ("a.b/c d", "files__a_b_c_d".to_owned()),
            ("übersicht", "files___bersicht".to_owned()),
            // Taken, so it is marked: sha256("read.file") begins with 4d8d….
            ("read.file", format!("files__read_file_{}", mark("read.file"))),
            (&long, format!("files__{}_{}", "x".repeat(48), mark(&long))),
            ("", format!("files___{}", mark(""))),
        ];
        for (tool, expected) in table {
            let name = build_offered_name("files", tool, &taken);
            assert_eq!(name, expected, "{tool}");
            assert!(name.len() <= 64 && name.bytes().all(is_safe_name_byte), "{name}");
        }
    }

    fn mark(tool: &str) -> String {
        let digest = Sha256::digest(tool);
        digest.iter().take(4).map(|it| format!("{it:02x}")).collect()
    }

    #[test]
    fn a_server_has_a_name_that_can_stand_before_its_tools() {
        for (name, fits) in [
            ("files", true),
            ("my-files_2", true),
            ("", false),
            ("a__b", false),
            ("ä", false),
            ("a b", false),
        ] {
            assert_eq!(check_server_name(name).is_ok(), fits, "{name:?}");
        }
        assert!(check_server_name(&"a".repeat(33)).is_err());
    }
}
