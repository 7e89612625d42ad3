//! Dependencies are a budget: the lock file may not outgrow its ceiling.

use super::TidyFinding;
use crate::Repository;

/// Packages in `Cargo.lock`: 177 when the workspace was first complete (165 for the frame, twelve of our own crate
/// and of the packages that read fixtures and name their cases); 315 since it speaks HTTP (reqwest with rustls and
/// ring, most of them; a quarter is for other systems than this one), MCP (rmcp), templates and TOML; 344 since it
/// serves HTTP (axum and packages that compress, sign, count and tell files apart; three crates of our own); 371 since
/// campaigns have schedules (croner and jiff with its time zones: half of these are macros that croner is built with);
/// 395 since sessions can be stored in PostgreSQL (tokio-postgres and deadpool-postgres with what they read passwords
/// and connections by; docs/decisions/0020-postgresql.md); 411 since spans are sent by OTLP (its messages and what writes
/// them; OpenTelemetry's global tracer, which conformance cases watch; docs/decisions/0021-telemetry.md); 418 since code
/// runs in spans of tracing (tests read with tracing-subscriber which lines belong to them; no program is built with it);
/// and two to grow. Raise it only in a commit that says here why the new ones are needed.
const CEILING: usize = 420;

pub(super) fn find_exceeded_ceiling(repo: &Repository) -> Vec<TidyFinding> {
    let count = repo.lock.count;
    let over = count > CEILING;
    let what = format!("{count} packages, {CEILING} is the ceiling");
    over.then(|| TidyFinding::new("lock", "Cargo.lock", what)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::CargoLockfile;
    use crate::tidy::assert_finds;

    #[test]
    fn one_package_too_many_is_found() {
        let repo = |packages| Repository {
            lock: CargoLockfile::parse(&"[[package]]\n".repeat(packages)),
            ..Repository::default()
        };
        assert_finds(find_exceeded_ceiling, &repo(420), &[]);
        assert_finds(find_exceeded_ceiling, &repo(421), &["Cargo.lock: 421 packages, 420 is the ceiling"]);
    }
}
