//! Reads `Cargo.lock`: which packages there are, and which each one needs.

use std::collections::BTreeMap;

/// The packages of a lock file.
#[derive(Debug, Default)]
pub(crate) struct CargoLockfile {
    /// How many packages the file lists, versions of one name counted each.
    pub(crate) count: usize,
    /// Names of the packages that a name needs, all its versions taken together.
    needs: BTreeMap<String, Vec<String>>,
}

impl CargoLockfile {
    /// Reads the text of a lock file.
    ///
    /// The file is written by cargo, one entry a line, so reading line by line suffices.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lock = Self::default();
        let mut name = String::new();
        for line in text.lines() {
            if line == "[[package]]" {
                lock.count += 1;
            } else if let Some(rest) = line.strip_prefix("name = ") {
                name = rest.trim_matches('"').to_owned();
            } else if let Some(rest) = line.strip_prefix(" \"") {
                // `"name"`, or `"name version"` where the name alone is ambiguous.
                let needed = rest.split([' ', '"']).next().unwrap_or_default();
                lock.needs.entry(name.clone()).or_default().push(needed.to_owned());
            }
        }
        lock
    }

    /// Returns the names that the package of this name needs directly.
    pub(crate) fn direct_dependencies(&self, name: &str) -> &[String] {
        self.needs.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_counted_and_needs_read_with_or_without_a_version() {
        let lock = CargoLockfile::parse(
            "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\ndependencies = [\n \"b\",\n \
             \"c 2.0.0\",\n]\n\n[[package]]\nname = \"b\"\n\n[[package]]\nname = \"c\"\n",
        );
        assert_eq!(lock.count, 3);
        assert_eq!(lock.direct_dependencies("a"), ["b", "c"]);
        assert_eq!(lock.direct_dependencies("b"), [] as [&str; 0]);
    }
}
