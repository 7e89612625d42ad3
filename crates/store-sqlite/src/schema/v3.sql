-- Format version 3. What a server keeps beside the conversations: documents, the bytes that messages name, and what was
-- used of models. A turn that reports no use of a model touches none of these tables. They are keyed by names, since a session
-- need not be there to own something; and they are few, since an empty one takes a page, too.
--
-- From this version on the schema version and the prompt policy that nearly every session has, 'unversioned' and
-- 'conversation', are written as ''; what is empty or only spaces has a space more. Rows that have the words stay as they are.
UPDATE session SET schema_version = schema_version || ' ' WHERE trim(schema_version, ' ') = '';
UPDATE session SET prompt_policy = prompt_policy || ' ' WHERE trim(prompt_policy, ' ') = '';

-- Keys, tokens, answers that were given: whatever has a tenant, a kind and an id. One that belongs to a session goes with it.
CREATE TABLE document (
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  session TEXT,
  version INTEGER NOT NULL,
  expires_at INTEGER,
  body TEXT NOT NULL CHECK (json_valid(body)),
  PRIMARY KEY (tenant, kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX document_session ON document (tenant, session) WHERE session IS NOT NULL;
CREATE INDEX document_end ON document (expires_at) WHERE expires_at IS NOT NULL;

-- Bytes by their digest, once for each tenant. They go with the last session that uses them.
CREATE TABLE blob (
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL,
  media_type TEXT NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (tenant, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE blob_use (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (tenant, session, digest)
) STRICT, WITHOUT ROWID;

-- Tokens by model: of each session, and, without a session, of the tenant since its first turn, whatever was deleted since.
CREATE TABLE usage (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  model TEXT NOT NULL,
  calls INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  cache_creation_tokens INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, model)
) STRICT, WITHOUT ROWID;
