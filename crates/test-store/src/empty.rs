//! Empties a database for the next test.

/// Removes all rows, and leaves the schema and the epoch of the log as they are. Numbers begin anew.
pub(crate) const EMPTY: &str = "SET session_replication_role = replica; DO $$
    DECLARE it text;
    BEGIN
        FOR it IN SELECT tablename FROM pg_tables WHERE schemaname = 'singletree' AND tablename <> 'meta' LOOP
            EXECUTE format('DELETE FROM singletree.%I', it);
        END LOOP;
        FOR it IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'singletree' LOOP
            EXECUTE format('ALTER SEQUENCE singletree.%I RESTART', it);
        END LOOP;
    END $$";
