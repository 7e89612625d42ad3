-- Format version 4. Each section states the reason for its columns and tables. A section only adds to what versions 1 to
-- 3 made; it runs once, in the transaction that takes over a file.

-- Commits that failed. Each is followed by one that replaces its frames in the log and changes nothing but this number
-- (D38).

ALTER TABLE meta ADD COLUMN failed_commits INTEGER NOT NULL DEFAULT 0;

-- Checksums (durable/checksum.rs): a changed value can be told from a written one.

ALTER TABLE item ADD COLUMN checksum INTEGER;
ALTER TABLE turn ADD COLUMN checksum INTEGER;

-- Retries of turns.

-- Quotas.

-- Subjects, erasure, hashed names of deleted sessions.
