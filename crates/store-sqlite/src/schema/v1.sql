-- Format version 1. A person can read this file with the sqlite3 shell; begin with the views at the end.
-- Times are milliseconds since 1970-01-01 UTC.
--
-- Rows of a session are found by a packed key, its integer id and the row's number in it: id = session << 32 | no.
-- The key is the rowid, so that a row has no second tree beside its table, the rows of a session lie together and in
-- order, and "from this number on" is a range of the table. `session` and `no` take no room: they are computed from the
-- key when somebody reads them. A session has room for 2^32 rows of each kind, a file for 2^31 sessions; the writer
-- refuses what is beyond.
--
-- Packed keys and ids of names are not declared as foreign keys, which would look up a parent for every row that is
-- written. Nothing is lost: the one writer takes both ids from `session` and `name` in the same transaction, no
-- statement changes or removes a name, and a session is removed together with its rows, table by table. What a foreign
-- key would find, `SqliteStore::check` looks for. Tables with a key of their own do refer to `session`.
--
-- Size is part of the format. What is inside a statement is kept in the file letter by letter, so that comments stand
-- outside; every table and index takes a page even when it is empty, and every one that a commit touches takes a page
-- of its log. So there are only those that a query needs, and most indexes are partial.

-- The fence is raised at every open for writing; who writes under another one is refused. The log epoch is the first
-- half of every event id; it is drawn when the file is made, and when a copy (is_copy = 1) is first opened for writing.
CREATE TABLE meta (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  fence INTEGER NOT NULL,
  log_epoch TEXT NOT NULL,
  is_copy INTEGER NOT NULL CHECK (is_copy IN (0, 1))
) STRICT;
INSERT INTO meta VALUES (1, 0, lower(hex(randomblob(8))), 0);

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
  agent INTEGER NOT NULL,
  graph INTEGER NOT NULL,
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

-- The next free numbers of sessions that were deleted. One that is made anew under the name takes them over, so that
-- no name of a turn, an event or a wait that was given out comes to mean another.
CREATE TABLE former (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  next_turn INTEGER NOT NULL,
  next_item INTEGER NOT NULL,
  next_event INTEGER NOT NULL,
  next_wait INTEGER NOT NULL,
  PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;

-- A field is a value, or a list: then its items are rows of `item`.
CREATE TABLE field (
  session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT CHECK (value IS NULL OR json_valid(value)),
  generation INTEGER CHECK ((value IS NULL) = (generation IS NOT NULL)),
  len INTEGER CHECK ((generation IS NULL) = (len IS NULL)),
  bytes INTEGER CHECK ((generation IS NULL) = (bytes IS NULL)),
  PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

-- The list that an item stands in is NULL as long as it stands in none.
CREATE TABLE item (
  id INTEGER PRIMARY KEY,
  session INTEGER AS (id >> 32) VIRTUAL,
  no INTEGER AS (id & 4294967295) VIRTUAL,
  turn INTEGER NOT NULL,
  list INTEGER,
  generation INTEGER CHECK ((list IS NULL) = (generation IS NULL)),
  seq INTEGER CHECK ((list IS NULL) = (seq IS NULL)),
  side TEXT CHECK (side IS NULL OR json_valid(side)),
  body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
CREATE UNIQUE INDEX item_place ON item (session, list, generation, seq) WHERE seq IS NOT NULL;
-- Those that go with the record of their turn.
CREATE INDEX item_loose ON item (session, turn) WHERE seq IS NULL;

CREATE TABLE turn (
  id INTEGER PRIMARY KEY,
  session INTEGER AS (id >> 32) VIRTUAL,
  no INTEGER AS (id & 4294967295) VIRTUAL,
  invocation TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('message', 'resume', 'close')),
  status TEXT NOT NULL CHECK (status IN ('accepted', 'suspended', 'completed', 'errored')),
  fence INTEGER NOT NULL,
  deaths INTEGER NOT NULL,
  agent INTEGER NOT NULL,
  graph INTEGER NOT NULL,
  message INTEGER,
  wait INTEGER,
  key TEXT,
  digest TEXT,
  accepted_at INTEGER NOT NULL,
  ended_at INTEGER,
  outcome TEXT CHECK (outcome IS NULL OR json_valid(outcome))
) STRICT;
-- The end of an id is its most random part, whether it is drawn, counted or begins with a time.
CREATE INDEX turn_invocation ON turn (substr(invocation, -12));
CREATE UNIQUE INDEX turn_key ON turn (session, key) WHERE key IS NOT NULL;
CREATE INDEX turn_open ON turn (session) WHERE status = 'accepted';

CREATE TABLE wait (
  id INTEGER PRIMARY KEY,
  session INTEGER AS (id >> 32) VIRTUAL,
  no INTEGER AS (id & 4294967295) VIRTUAL,
  signal TEXT NOT NULL,
  invocation TEXT NOT NULL,
  turn INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'consumed', 'cancelled', 'expired')),
  metadata TEXT CHECK (metadata IS NULL OR json_valid(metadata)),
  action TEXT,
  deadline INTEGER,
  payload_schema TEXT CHECK (payload_schema IS NULL OR json_valid(payload_schema)),
  on_deadline TEXT CHECK (on_deadline IS NULL OR json_valid(on_deadline)),
  created_at INTEGER NOT NULL,
  ended_by INTEGER,
  answer TEXT CHECK (answer IS NULL OR json_valid(answer)),
  answered_by TEXT,
  ended_at INTEGER
) STRICT;
CREATE INDEX wait_state ON wait (session, status, signal);
CREATE INDEX wait_invocation ON wait (substr(invocation, -12));
-- Also the list of all pending waits, those without deadline first.
CREATE INDEX wait_due ON wait (deadline, signal) WHERE status = 'pending';

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

-- The number of an event is its place in the session's log.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  session INTEGER AS (id >> 32) VIRTUAL,
  seq INTEGER AS (id & 4294967295) VIRTUAL,
  turn INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  item INTEGER,
  at INTEGER NOT NULL,
  body TEXT CHECK (body IS NULL OR json_valid(body))
) STRICT;

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

-- Where invocations of applications that use the pipeline-utilities specification's own checkpointer stand. The body is the
-- whole record but for the completed positions. These only grow: each is a row, found by a packed key (as above, with the
-- checkpoint in the session's place), so that a save adds the new ones and leaves the others alone. The digest is that of
-- the positions that are stored; where a record has others, they are replaced.
CREATE TABLE checkpoint (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  invocation TEXT NOT NULL,
  correlation TEXT NOT NULL,
  saved_at INTEGER NOT NULL,
  positions INTEGER NOT NULL,
  digest INTEGER NOT NULL,
  body TEXT NOT NULL CHECK (json_valid(body)),
  UNIQUE (tenant, invocation)
) STRICT;

CREATE TABLE checkpoint_position (
  id INTEGER PRIMARY KEY,
  checkpoint INTEGER AS (id >> 32) VIRTUAL,
  no INTEGER AS (id & 4294967295) VIRTUAL,
  body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

-- For people.

CREATE VIEW transcript AS
SELECT s.tenant, s.session, n.text AS list, i.seq, i.body ->> 'role' AS role, i.body ->> 'content' AS content,
strftime('%Y-%m-%dT%H:%M:%fZ', t.accepted_at / 1e3, 'unixepoch') AS time, i.turn
FROM item i JOIN session s ON s.id = i.session JOIN name n ON n.id = i.list
JOIN field f ON f.session = i.session AND f.name = n.text AND f.generation = i.generation AND i.seq < f.len
LEFT JOIN turn t ON t.id = i.session << 32 | i.turn
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
