-- Format version 4. Each section states the reason for its columns and tables. A section only adds to what versions 1 to
-- 3 made; it runs once, in the transaction that takes over a file.

-- Commits that failed. Each is followed by one that replaces its frames in the log and changes nothing but this number
-- (D38).

ALTER TABLE meta ADD COLUMN failed_commits INTEGER NOT NULL DEFAULT 0;

-- Checksums (durable/checksum.rs): a changed value can be told from a written one.

-- Rows that older versions wrote have none until they are written again. In a file that this version made (is_checked = 1)
-- no row may lack it.

ALTER TABLE item ADD COLUMN checksum INTEGER;
ALTER TABLE turn ADD COLUMN checksum INTEGER;
ALTER TABLE wait ADD COLUMN checksum INTEGER;
ALTER TABLE event ADD COLUMN checksum INTEGER;
ALTER TABLE session ADD COLUMN checksum INTEGER;
ALTER TABLE mail ADD COLUMN checksum INTEGER;
ALTER TABLE record ADD COLUMN checksum INTEGER;
ALTER TABLE position ADD COLUMN checksum INTEGER;
ALTER TABLE field ADD COLUMN checksum INTEGER;
ALTER TABLE usage ADD COLUMN checksum INTEGER;
ALTER TABLE document ADD COLUMN checksum INTEGER;
ALTER TABLE meta ADD COLUMN checksum INTEGER;
ALTER TABLE meta ADD COLUMN is_checked INTEGER NOT NULL DEFAULT 0;

-- Retries of turns: which failed turn of the session a turn retries (its number), so that it is made once and told.

ALTER TABLE turn ADD COLUMN retries INTEGER;

-- Quotas. Triggers count the bytes of the blobs of a tenant, and of each of its holders (keys, subjects of tokens),
-- when blobs are added and removed, so that no query has to add up rows. The total of a tenant has the empty holder.

ALTER TABLE blob ADD COLUMN holder TEXT NOT NULL DEFAULT '';
CREATE TABLE blob_account (
  tenant TEXT NOT NULL,
  holder TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (tenant, holder)
) STRICT, WITHOUT ROWID;
INSERT INTO blob_account SELECT tenant, '', sum(length(bytes)) FROM blob GROUP BY tenant;
CREATE TRIGGER blob_added AFTER INSERT ON blob BEGIN
  INSERT INTO blob_account VALUES (new.tenant, '', length(new.bytes))
  ON CONFLICT (tenant, holder) DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO blob_account SELECT new.tenant, new.holder, length(new.bytes) WHERE new.holder <> ''
  ON CONFLICT (tenant, holder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER blob_removed AFTER DELETE ON blob BEGIN
  UPDATE blob_account SET bytes = bytes - length(old.bytes) WHERE tenant = old.tenant AND holder IN ('', old.holder);
  DELETE FROM blob_account WHERE tenant = old.tenant AND holder IN ('', old.holder) AND bytes <= 0;
END;

-- Subjects, erasure, hashed names of deleted sessions.
-- The subject is the person or program on whose behalf a session was made. The names of deleted sessions are kept only as
-- keyed hashes (name_hash.rs): `session` in `former` is the hash, and so are `session` and
-- `done_by` in `audit`. The step that runs after
-- this file replaces the names that older versions kept.

ALTER TABLE session ADD COLUMN subject TEXT;
CREATE INDEX session_subject ON session (tenant, subject) WHERE subject IS NOT NULL;
ALTER TABLE meta ADD COLUMN name_key TEXT;
UPDATE meta SET name_key = lower(hex(randomblob(32)));

-- Notes of turns whose traces are to be exported. Each index is a page more in the commit that ends a turn, so that these
-- documents, which are removed soon, are in none: they are found by tenant and kind (apply/document.rs).

DROP INDEX document_session;
CREATE INDEX document_session ON document (tenant, session) WHERE session IS NOT NULL AND kind <> 'unsent';
DROP INDEX document_end;
CREATE INDEX document_end ON document (expires_at) WHERE expires_at IS NOT NULL AND kind <> 'unsent';
