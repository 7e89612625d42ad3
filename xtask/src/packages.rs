//! Reads the workspace's own packages and their dependencies, from `cargo metadata`.

use std::io;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct WorkspacePackage {
    /// The last part of its folder: `llm` for `crates/llm`.
    pub(crate) folder: String,
    /// The dependencies in its manifest.
    pub(crate) dependencies: Vec<PackageDependency>,
}

/// One line of a manifest's dependencies.
#[derive(Debug, Clone)]
pub(crate) struct PackageDependency {
    /// The folder of a package of this workspace, else the package's name.
    pub(crate) name: String,
    /// Whether it is a package of this workspace.
    pub(crate) internal: bool,
    /// Whether only tests see it. Build dependencies count as normal ones.
    pub(crate) dev: bool,
    /// Its features, as far as the rules need them.
    pub(crate) features: DependencyFeatures,
}

/// The features of a dependency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DependencyFeatures {
    /// Whether the package is built without the dependency unless a feature asks for it.
    pub(crate) optional: bool,
    /// Whether the manifest asks for features of the dependency.
    pub(crate) requested: bool,
}

impl WorkspacePackage {
    /// Returns the folders of the packages of this workspace that it depends on.
    pub(crate) fn internal_dependencies(&self, dev: bool) -> impl Iterator<Item = &str> {
        self.dependency_names(true, dev)
    }

    /// Returns the names of the foreign packages that its manifest names.
    pub(crate) fn external_dependencies(&self, dev: bool) -> impl Iterator<Item = &str> {
        self.dependency_names(false, dev)
    }

    fn dependency_names(&self, internal: bool, dev: bool) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(move |d| d.internal == internal && d.dev == dev)
            .map(|d| d.name.as_str())
    }
}

/// Asks cargo for the packages of the workspace at `root`, offline.
pub(crate) fn read_workspace_packages(root: &Path) -> io::Result<Vec<WorkspacePackage>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--no-deps"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    parse_cargo_metadata(&output.stdout)
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    manifest_path: String,
    dependencies: Vec<RawDependency>,
}

#[derive(Deserialize)]
struct RawDependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    features: Vec<String>,
}

fn parse_cargo_metadata(json: &[u8]) -> io::Result<Vec<WorkspacePackage>> {
    let metadata: CargoMetadata = serde_json::from_slice(json)?;
    let packages = metadata.packages.into_iter().map(|raw| WorkspacePackage {
        folder: last_path_part(raw.manifest_path.trim_end_matches("/Cargo.toml")),
        dependencies: raw.dependencies.into_iter().map(convert_dependency).collect(),
    });
    Ok(packages.collect())
}

fn convert_dependency(raw: RawDependency) -> PackageDependency {
    PackageDependency {
        internal: raw.path.is_some(),
        dev: raw.kind.as_deref() == Some("dev"),
        features: DependencyFeatures { optional: raw.optional, requested: !raw.features.is_empty() },
        name: raw.path.as_deref().map_or(raw.name, last_path_part),
    }
}

fn last_path_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_by_path_is_internal_and_named_by_its_folder() {
        let json = br#"{"packages": [{"name": "p-engine", "manifest_path": "/x/crates/engine/Cargo.toml",
            "dependencies": [
                {"name": "p-durable", "kind": null, "path": "/x/crates/durable", "features": ["x"]},
                {"name": "cc", "kind": "build", "optional": true},
                {"name": "proptest", "kind": "dev"}]}]}"#;
        let packages = parse_cargo_metadata(json).unwrap();
        let engine = &packages[0];
        assert_eq!(engine.folder, "engine");
        assert_eq!(engine.internal_dependencies(false).collect::<Vec<_>>(), ["durable"]);
        assert_eq!(engine.external_dependencies(false).collect::<Vec<_>>(), ["cc"]);
        assert_eq!(engine.external_dependencies(true).collect::<Vec<_>>(), ["proptest"]);
        let features = engine.dependencies.iter().map(|dependency| dependency.features);
        let marks = features.map(|features| (features.requested, features.optional));
        assert_eq!(marks.collect::<Vec<_>>(), [(true, false), (false, true), (false, false)]);
    }
}
