-- Format version 3. What a server keeps beside the conversations: documents, the bytes that messages name, and what was
-- used of models. A turn that reports no use of a model touches none of these tables.

-- Keys, tokens, answers that were given: whatever has a tenant, a kind and an id. One that belongs to a session goes with it;
-- the session need not be there.
CREATE TABLE document (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  session TEXT,
  version INTEGER NOT NULL,
  expires_at INTEGER,
  body TEXT NOT NULL CHECK (json_valid(body)),
  UNIQUE (tenant, kind, id)
) STRICT;
CREATE INDEX document_session ON document (tenant, session) WHERE session IS NOT NULL;
CREATE INDEX document_end ON document (expires_at) WHERE expires_at IS NOT NULL;

-- Bytes by their digest, once for each tenant. They go with the last session that uses them.
CREATE TABLE blob (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  digest TEXT NOT NULL,
  media_type TEXT NOT NULL,
  bytes BLOB NOT NULL,
  UNIQUE (tenant, digest)
) STRICT;

CREATE TABLE blob_use (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  blob INTEGER NOT NULL REFERENCES blob ON DELETE CASCADE,
  PRIMARY KEY (tenant, session, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_user ON blob_use (blob);

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
