-- Format version 1. A person can read this file with the sqlite3 shell; begin with the views at the end.
-- Times are milliseconds since 1970-01-01 UTC. Rows of a session hang on its integer id: they go when it goes.
--
-- Size is part of the format. What is inside a statement is kept in the file letter by letter, so that comments stand
-- outside; every table and index takes a page of 8 KiB even when it is empty, so that there are only those that a query
-- needs. Tables that only grow are rowid tables with a unique index; those whose rows are replaced or removed are
-- WITHOUT ROWID.

-- The fence is raised at every open for writing; who writes under another one is refused. The log epoch is the first
-- half of every event id; it is drawn once, when the file is made.
CREATE TABLE meta (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  fence INTEGER NOT NULL,
  log_epoch TEXT NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, lower(hex(randomblob(8))));

-- Texts of which there are few and which stand in many rows: agents, digests of their graphs, names of list
-- fields, kinds of events.
CREATE TABLE name (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE session (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  agent INTEGER NOT NULL REFERENCES name,
  graph INTEGER NOT NULL REFERENCES name,
  schema_version TEXT NOT NULL,
  version INTEGER NOT NULL,
  prompt_policy TEXT NOT NULL,
  parent TEXT,
  parent_offset INTEGER CHECK ((parent IS NULL) = (parent_offset IS NULL)),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  next_turn INTEGER NOT NULL DEFAULT 0,
  next_item INTEGER NOT NULL DEFAULT 0,
  next_event INTEGER NOT NULL DEFAULT 0,
  next_wait INTEGER NOT NULL DEFAULT 0,
  UNIQUE (tenant, session)
) STRICT;

-- A field is a value, or a list: then its items are rows of `item`.
CREATE TABLE field (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT CHECK (json_valid(value)),
  generation INTEGER CHECK ((value IS NULL) = (generation IS NOT NULL)),
  len INTEGER CHECK ((generation IS NULL) = (len IS NULL)),
  bytes INTEGER CHECK ((generation IS NULL) = (bytes IS NULL)),
  PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

-- The list that an item stands in is NULL as long as it stands in none.
CREATE TABLE item (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  no INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  list INTEGER REFERENCES name,
  generation INTEGER CHECK ((list IS NULL) = (generation IS NULL)),
  seq INTEGER CHECK ((list IS NULL) = (seq IS NULL)),
  side TEXT CHECK (json_valid(side)),
  body TEXT NOT NULL CHECK (json_valid(body)),
  UNIQUE (session, no)
) STRICT;
CREATE UNIQUE INDEX item_place ON item (session, list, generation, seq) WHERE seq IS NOT NULL;
CREATE INDEX item_turn ON item (session, turn);

CREATE TABLE turn (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  no INTEGER NOT NULL,
  invocation TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('message', 'resume', 'close')),
  status TEXT NOT NULL CHECK (status IN ('accepted', 'suspended', 'completed', 'errored')),
  fence INTEGER NOT NULL,
  deaths INTEGER NOT NULL,
  agent INTEGER NOT NULL REFERENCES name,
  graph INTEGER NOT NULL REFERENCES name,
  message INTEGER,
  wait INTEGER,
  key TEXT,
  digest TEXT,
  accepted_at INTEGER NOT NULL,
  ended_at INTEGER,
  outcome TEXT CHECK (json_valid(outcome)),
  UNIQUE (session, no)
) STRICT;
-- The end of an id is its most random part, whether it is drawn, counted or begins with a time.
CREATE INDEX turn_invocation ON turn (substr(invocation, -12), session);
CREATE UNIQUE INDEX turn_key ON turn (session, key) WHERE key IS NOT NULL;
CREATE INDEX turn_open ON turn (session, no) WHERE status = 'accepted';

CREATE TABLE wait (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  no INTEGER NOT NULL,
  signal TEXT NOT NULL,
  invocation TEXT NOT NULL,
  turn INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'consumed', 'cancelled', 'expired')),
  metadata TEXT CHECK (json_valid(metadata)),
  action TEXT,
  deadline INTEGER,
  payload_schema TEXT CHECK (json_valid(payload_schema)),
  on_deadline TEXT CHECK (json_valid(on_deadline)),
  created_at INTEGER NOT NULL,
  ended_by INTEGER,
  answer TEXT CHECK (json_valid(answer)),
  answered_by TEXT,
  ended_at INTEGER,
  UNIQUE (session, no)
) STRICT;
CREATE INDEX wait_state ON wait (session, status, signal);
CREATE INDEX wait_invocation ON wait (substr(invocation, -12), session);
-- Also the list of all pending waits, those without deadline first.
CREATE INDEX wait_due ON wait (deadline, signal, session) WHERE status = 'pending';

-- Signals that came before anything waited for them.
CREATE TABLE mail (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  signal TEXT NOT NULL,
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  sent_by TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (session, signal)
) STRICT, WITHOUT ROWID;

-- Where unfinished invocations stand.
CREATE TABLE position (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  invocation TEXT NOT NULL,
  turn INTEGER NOT NULL,
  body TEXT NOT NULL CHECK (json_valid(body)),
  PRIMARY KEY (session, invocation)
) STRICT, WITHOUT ROWID;

-- What nodes that have not committed yet did already.
CREATE TABLE record (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  turn INTEGER NOT NULL,
  name TEXT NOT NULL,
  body TEXT NOT NULL CHECK (json_valid(body)),
  PRIMARY KEY (session, turn, name)
) STRICT, WITHOUT ROWID;

-- WITHOUT ROWID although it only grows: its rows are hardly larger than an index of them would be.
CREATE TABLE event (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  kind INTEGER NOT NULL REFERENCES name,
  item INTEGER,
  at INTEGER NOT NULL,
  body TEXT CHECK (json_valid(body)),
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- What stays when a session is deleted: that it was, never what it said.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  action TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  done_by TEXT
) STRICT;

-- Suspended invocations of applications that use the suspension specification's own store.
CREATE TABLE paused (
  tenant TEXT NOT NULL,
  invocation TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('suspended', 'resuming', 'completed', 'errored')),
  body TEXT NOT NULL CHECK (json_valid(body)),
  PRIMARY KEY (tenant, invocation)
) STRICT, WITHOUT ROWID;

-- For people.

CREATE VIEW transcript AS
SELECT s.tenant, s.session, n.text AS list, i.seq, i.body ->> 'role' AS role, i.body ->> 'content' AS content,
strftime('%Y-%m-%dT%H:%M:%fZ', t.accepted_at / 1e3, 'unixepoch') AS time, i.turn
FROM item i JOIN session s ON s.id = i.session JOIN name n ON n.id = i.list
JOIN field f ON f.session = i.session AND f.name = n.text AND f.generation = i.generation AND i.seq < f.len
LEFT JOIN turn t ON t.session = i.session AND t.no = i.turn
ORDER BY s.tenant, s.session, n.text, i.seq;

CREATE VIEW turns AS
SELECT s.tenant, s.session, t.no AS turn, t.kind, t.status, t.invocation, t.ordinal, a.text AS agent,
g.text AS graph, t.key, strftime('%Y-%m-%dT%H:%M:%fZ', t.accepted_at / 1e3, 'unixepoch') AS accepted,
strftime('%Y-%m-%dT%H:%M:%fZ', t.ended_at / 1e3, 'unixepoch') AS ended, t.outcome
FROM turn t JOIN session s ON s.id = t.session JOIN name a ON a.id = t.agent JOIN name g ON g.id = t.graph
ORDER BY s.tenant, s.session, t.no;

CREATE VIEW events AS
SELECT s.tenant, s.session, e.seq, n.text AS kind, e.turn, e.item,
strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1e3, 'unixepoch') AS time, e.body
FROM event e JOIN session s ON s.id = e.session JOIN name n ON n.id = e.kind
ORDER BY s.tenant, s.session, e.seq;

CREATE VIEW pending AS
SELECT s.tenant, s.session, w.no AS wait, w.signal, w.turn, w.invocation, w.metadata,
strftime('%Y-%m-%dT%H:%M:%fZ', w.created_at / 1e3, 'unixepoch') AS since,
strftime('%Y-%m-%dT%H:%M:%fZ', w.deadline / 1e3, 'unixepoch') AS deadline
FROM wait w JOIN session s ON s.id = w.session WHERE w.status = 'pending'
ORDER BY s.tenant, s.session, w.no;
