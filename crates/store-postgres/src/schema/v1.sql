-- Schema version 1. Everything is in the schema `singletree`. Times are milliseconds since 1970-01-01 UTC, by the clock of
-- the process that wrote them; only the times of leases are the database's.
--
-- Texts that order or identify rows compare by their bytes ("C"), so that all stores order them alike. JSON is kept as text:
-- it is stored letter by letter, and is not looked into.

-- Numbers of owners and fences: both rise with every one that is given out.
CREATE SEQUENCE singletree.fence AS bigint;

-- The log epoch is the first half of every event id. The name key hides the names of deleted sessions, and of those who
-- deleted them, from readers of the tables; who knows a name finds its row.
CREATE TABLE singletree.meta (
  only_row boolean PRIMARY KEY CHECK (only_row),
  version integer NOT NULL,
  log_epoch text NOT NULL,
  name_key text NOT NULL
);

-- One row for each process that is an owner of sessions. It is alive until the time that its heartbeat sets.
CREATE TABLE singletree.node (
  incarnation bigint PRIMARY KEY,
  name text NOT NULL,
  address text,
  schema_version integer NOT NULL,
  beat bigint NOT NULL DEFAULT 0,
  alive_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Who holds a session. The row is there before the session is, and is locked by every commit and every acquisition.
CREATE TABLE singletree.lease (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  owner bigint,
  fence bigint NOT NULL,
  commit_id text,
  PRIMARY KEY (tenant, session)
) WITH (fillfactor = 70);
CREATE INDEX lease_owner ON singletree.lease (owner) WHERE owner IS NOT NULL;

CREATE TABLE singletree.session (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  agent text NOT NULL,
  graph text NOT NULL,
  schema_version text NOT NULL,
  version bigint NOT NULL,
  prompt_policy text NOT NULL,
  parent text,
  parent_offset bigint CHECK ((parent IS NULL) = (parent_offset IS NULL)),
  subject text,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  next_turn bigint NOT NULL DEFAULT 0,
  next_item bigint NOT NULL DEFAULT 0,
  next_event bigint NOT NULL DEFAULT 0,
  next_wait bigint NOT NULL DEFAULT 0,
  UNIQUE (tenant, session)
) WITH (fillfactor = 70);
CREATE INDEX session_recent ON singletree.session (tenant, updated_at DESC, session DESC);

-- The next free numbers of sessions that were deleted, under a hash of their name: the name itself is gone.
CREATE TABLE singletree.former (
  tenant text COLLATE "C" NOT NULL,
  session_hash text COLLATE "C" NOT NULL,
  next_turn bigint NOT NULL,
  next_item bigint NOT NULL,
  next_event bigint NOT NULL,
  next_wait bigint NOT NULL,
  PRIMARY KEY (tenant, session_hash)
);

-- A field is a value, or a list: then its items are rows of `item`.
CREATE TABLE singletree.field (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  name text COLLATE "C" NOT NULL,
  value text,
  generation bigint CHECK ((value IS NULL) = (generation IS NOT NULL)),
  len bigint CHECK ((generation IS NULL) = (len IS NULL)),
  bytes bigint CHECK ((generation IS NULL) = (bytes IS NULL)),
  PRIMARY KEY (session, name)
) WITH (fillfactor = 70);

-- The list that an item stands in is NULL as long as it stands in none.
CREATE TABLE singletree.item (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  no bigint NOT NULL,
  turn bigint NOT NULL,
  list text COLLATE "C",
  generation bigint CHECK ((list IS NULL) = (generation IS NULL)),
  seq bigint CHECK ((list IS NULL) = (seq IS NULL)),
  side text,
  body text NOT NULL,
  PRIMARY KEY (session, no)
);
CREATE UNIQUE INDEX item_place ON singletree.item (session, list, generation, seq) WHERE seq IS NOT NULL;
CREATE INDEX item_loose ON singletree.item (session, turn) WHERE seq IS NULL;

CREATE TABLE singletree.turn (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  no bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  invocation text COLLATE "C" NOT NULL,
  ordinal bigint NOT NULL,
  kind text NOT NULL CHECK (kind IN ('message', 'resume', 'close')),
  status text NOT NULL CHECK (status IN ('accepted', 'suspended', 'completed', 'errored')),
  fence bigint NOT NULL,
  deaths bigint NOT NULL,
  agent text NOT NULL,
  graph text NOT NULL,
  message bigint,
  wait bigint,
  key text COLLATE "C",
  digest text,
  accepted_at bigint NOT NULL,
  ended_at bigint,
  outcome text,
  retries bigint,
  PRIMARY KEY (session, no)
) WITH (fillfactor = 70);
CREATE INDEX turn_invocation ON singletree.turn (tenant, invocation);
CREATE UNIQUE INDEX turn_key ON singletree.turn (session, key) WHERE key IS NOT NULL;
CREATE INDEX turn_open ON singletree.turn (session, no) WHERE status = 'accepted';

CREATE TABLE singletree.wait (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  no bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  signal text COLLATE "C" NOT NULL,
  invocation text COLLATE "C" NOT NULL,
  turn bigint NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'consumed', 'cancelled', 'expired')),
  metadata text,
  action text,
  deadline bigint,
  payload_schema text,
  on_deadline text,
  created_at bigint NOT NULL,
  ended_by bigint,
  answer text,
  answered_by text,
  ended_at bigint,
  PRIMARY KEY (session, no)
);
CREATE INDEX wait_signal ON singletree.wait (tenant, signal, session, no);
CREATE INDEX wait_invocation ON singletree.wait (tenant, invocation);
CREATE INDEX wait_pending ON singletree.wait (tenant, session, no) WHERE status = 'pending';
CREATE INDEX wait_due ON singletree.wait (deadline) WHERE status = 'pending' AND deadline IS NOT NULL;

-- Signals that came before anything waited for them.
CREATE TABLE singletree.mail (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  signal text COLLATE "C" NOT NULL,
  payload text NOT NULL,
  sent_by text,
  at bigint NOT NULL,
  PRIMARY KEY (session, signal)
);

-- Where unfinished invocations stand.
CREATE TABLE singletree.position (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  invocation text COLLATE "C" NOT NULL,
  turn bigint NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (session, invocation)
) WITH (fillfactor = 70);

-- What nodes that have not committed yet did already.
CREATE TABLE singletree.record (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  turn bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (session, turn, name)
);

CREATE TABLE singletree.event (
  session bigint NOT NULL REFERENCES singletree.session ON DELETE CASCADE,
  seq bigint NOT NULL,
  turn bigint NOT NULL,
  kind text NOT NULL,
  item bigint,
  at bigint NOT NULL,
  body text,
  PRIMARY KEY (session, seq)
);

-- Tokens by model: of each session, and, under the empty session, of the tenant since its first turn.
CREATE TABLE singletree.usage (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  model text COLLATE "C" NOT NULL,
  calls bigint NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  cache_creation_tokens bigint NOT NULL,
  PRIMARY KEY (tenant, session, model)
) WITH (fillfactor = 50);

-- What stays when a session is deleted: that it was, never what it said. Session and actor are hashes of their names.
CREATE TABLE singletree.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  action text NOT NULL,
  tenant text NOT NULL,
  session text NOT NULL,
  done_by text
);

-- Keys, tokens, answers that were given: whatever has a tenant, a kind and an id. One that belongs to a session goes with it.
CREATE TABLE singletree.document (
  tenant text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  session text COLLATE "C",
  version bigint NOT NULL,
  expires_at bigint,
  body text NOT NULL,
  PRIMARY KEY (tenant, kind, id)
);
CREATE INDEX document_session ON singletree.document (tenant, session) WHERE session IS NOT NULL;
CREATE INDEX document_end ON singletree.document (expires_at) WHERE expires_at IS NOT NULL;

-- Bytes by their digest, once for each tenant. They go with the last session that uses them.
CREATE TABLE singletree.blob (
  tenant text COLLATE "C" NOT NULL,
  digest text COLLATE "C" NOT NULL,
  media_type text NOT NULL,
  holder text,
  size bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (tenant, digest)
);

CREATE TABLE singletree.blob_use (
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  digest text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, session, digest)
);
CREATE INDEX blob_use_digest ON singletree.blob_use (tenant, digest);

-- Suspended invocations of applications that use the suspension specification's own store.
CREATE TABLE singletree.paused (
  tenant text COLLATE "C" NOT NULL,
  invocation text COLLATE "C" NOT NULL,
  status text NOT NULL CHECK (status IN ('suspended', 'resuming', 'completed', 'errored')),
  body text NOT NULL,
  PRIMARY KEY (tenant, invocation)
);

-- Where invocations of applications that use the pipeline-utilities specification's own checkpointer stand.
CREATE TABLE singletree.checkpoint (
  tenant text COLLATE "C" NOT NULL,
  invocation text COLLATE "C" NOT NULL,
  correlation text NOT NULL,
  saved_at bigint NOT NULL,
  positions bigint NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (tenant, invocation)
);

INSERT INTO singletree.meta
VALUES (true, 1, substr(replace(gen_random_uuid()::text, '-', ''), 1, 16), gen_random_uuid()::text || gen_random_uuid()::text);
