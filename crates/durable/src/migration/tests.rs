//! Resolution by table: a registry of version pairs, two versions, and the expected result.

use super::{MigrationError, MigrationErrorKind, State, StateMigrations};

/// Makes a registry of pairs; each migration notes its name in field `path`, but those that fail.
fn registry(pairs: &[&str]) -> StateMigrations {
    pairs.iter().fold(StateMigrations::new(), |all, pair| {
        let (from, to) = pair.split_once('>').expect("a pair");
        let name = (*pair).to_owned();
        all.with(from, to, move |mut state: State| {
            match name.as_str() {
                "bad>end" => return Err("no such thing".into()),
                "worse>end" => panic!("a bug"),
                _ => {}
            }
            let path = state.get("path").and_then(|it| it.as_str()).unwrap_or_default();
            let path = format!("{path} {name}");
            state.insert("path".to_owned(), path.trim().into());
            Ok(state)
        })
    })
}

fn path(pairs: &[&str], from: &str, to: &str) -> Result<String, MigrationError> {
    let state = registry(pairs).migrate(from, to, State::new())?;
    Ok(state.get("path").and_then(|it| it.as_str()).unwrap_or_default().to_owned())
}

// spec: pipeline-utilities §10.12.2, sessions §7
#[test]
fn the_shortest_chain_is_applied_in_order() {
    for (pairs, from, to, expected) in [
        (&["1>2", "2>3"][..], "1", "3", "1>2 2>3"),
        (&["2>3", "1>2"], "1", "3", "1>2 2>3"),
        (&["1>2", "2>3", "1>3"], "1", "3", "1>3"),
        (&["1>2", "2>1", "2>3", "3>3"], "1", "3", "1>2 2>3"),
        // Ambiguous between other versions only: a longer detour, and a diamond beside the way.
        (&["1>2", "2>4", "1>3", "3>5", "5>4"], "1", "4", "1>2 2>4"),
        (&["1>2", "1>3", "2>4", "3>4", "1>9"], "1", "9", "1>9"),
    ] {
        assert_eq!(path(pairs, from, to).unwrap(), expected, "{pairs:?}");
    }
}

// spec: pipeline-utilities §10.12.3
#[test]
fn equal_versions_never_consult_the_registry() {
    assert_eq!(path(&["1>2", "1>2"], "1", "1").unwrap(), "");
    assert_eq!(path(&["1>1"], "1", "1").unwrap(), "");
}

// spec: pipeline-utilities §10.10
#[test]
fn a_missing_chain_tells_what_is_registered() {
    for (pairs, count, description) in
        [(&[][..], 0, "none"), (&["3>4", "2>1", "1>2"], 3, "1 -> 2, 2 -> 1, 3 -> 4")]
    {
        let error = path(pairs, "1", "4").unwrap_err();
        assert_eq!(error.kind(), MigrationErrorKind::Missing);
        let MigrationError::Missing {
            from_version,
            to_version,
            registered_migrations_count,
            registry_description,
        } = error
        else {
            unreachable!("the kind says so")
        };
        let found = (from_version.as_str(), to_version.as_str(), registered_migrations_count);
        assert_eq!((found, registry_description.as_str()), (("1", "4", count), description));
    }
}

// spec: pipeline-utilities §10.12.1, §10.12.2
#[test]
fn ambiguity_is_found_when_checked_and_when_resolved() {
    for (pairs, from, to, pair) in [
        (&["1>2", "1>2"][..], "1", "2", ("1", "2")),
        // A pair registered twice is not sound, wherever it is.
        (&["1>2", "8>9", "8>9"], "1", "2", ("8", "9")),
        (&["1>2", "1>3", "2>4", "3>4"], "1", "4", ("1", "4")),
        // A version that is reached through an ambiguous one is ambiguous itself.
        (&["1>2", "1>3", "2>4", "3>4", "4>5"], "1", "5", ("1", "5")),
    ] {
        let registry = registry(pairs);
        assert_eq!(registry.check().unwrap_err().kind(), MigrationErrorKind::Ambiguous);
        let error = registry.migrate(from, to, State::new()).unwrap_err();
        assert_eq!(error.kind(), MigrationErrorKind::Ambiguous);
        let MigrationError::Ambiguous { from_version, to_version } = error else {
            unreachable!("the kind says so")
        };
        assert_eq!((from_version.as_deref(), to_version.as_deref()), (Some(pair.0), Some(pair.1)));
    }
    assert!(registry(&["1>2", "2>3", "1>3", "3>1"]).check().is_ok());
}

// spec: sessions §10
#[test]
fn a_migration_that_fails_or_panics_ends_the_chain() {
    for (pairs, failing, said) in [
        (&["1>bad", "bad>end", "end>2"][..], "bad", "no such thing"),
        (&["1>worse", "worse>end", "end>2"], "worse", "the migration panicked: a bug"),
    ] {
        let error = path(pairs, "1", "2").unwrap_err();
        assert_eq!(error.kind(), MigrationErrorKind::Failed);
        let MigrationError::Failed { from_version, to_version, source } = error else {
            unreachable!("the kind says so")
        };
        assert_eq!((from_version.as_str(), to_version.as_str()), (failing, "end"));
        assert_eq!(source.to_string(), said);
    }
}
