-- Format version 1. A person can read this file's tables with the sqlite3 shell; begin with the views at the end.
-- Times are milliseconds since 1970-01-01 UTC. Rows of a session hang on its integer id: they go when it goes.

CREATE TABLE meta (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    fence     INTEGER NOT NULL,     -- raised at every open for writing; who writes under a lower one is refused
    log_epoch TEXT    NOT NULL      -- first half of every event id; drawn once, when the file was made
) STRICT;
INSERT INTO meta VALUES (1, 0, lower(hex(randomblob(8))));

-- Which agents, at which digest of their graph, the sessions and turns of this file name.
CREATE TABLE agent (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,
    graph TEXT NOT NULL,
    UNIQUE (name, graph)
) STRICT;

CREATE TABLE session (
    id             INTEGER PRIMARY KEY,
    tenant         TEXT    NOT NULL,
    session        TEXT    NOT NULL,
    agent          INTEGER NOT NULL REFERENCES agent (id),
    schema_version TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    prompt_policy  TEXT    NOT NULL,
    parent         TEXT,
    parent_offset  INTEGER CHECK ((parent IS NULL) = (parent_offset IS NULL)),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    next_turn      INTEGER NOT NULL DEFAULT 0,
    next_item      INTEGER NOT NULL DEFAULT 0,
    next_event     INTEGER NOT NULL DEFAULT 0,
    next_wait      INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, session)
) STRICT;

-- A field is a value, or a list: then its items are rows of `item`.
CREATE TABLE field (
    session    INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    value      TEXT    CHECK (json_valid(value)),
    generation INTEGER CHECK ((value IS NULL) = (generation IS NOT NULL)),
    len        INTEGER CHECK ((generation IS NULL) = (len IS NULL)),
    UNIQUE (session, name)
) STRICT;

CREATE TABLE item (
    session    INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    no         INTEGER NOT NULL,
    turn       INTEGER NOT NULL,
    field      TEXT,                -- the list that it stands in, none yet when NULL
    generation INTEGER CHECK ((field IS NULL) = (generation IS NULL)),
    seq        INTEGER CHECK ((field IS NULL) = (seq IS NULL)),
    side       TEXT    CHECK (json_valid(side)),
    body       TEXT    NOT NULL CHECK (json_valid(body)),
    UNIQUE (session, no)
) STRICT;
CREATE UNIQUE INDEX item_place ON item (session, field, generation, seq) WHERE seq IS NOT NULL;
CREATE INDEX item_turn ON item (session, turn);

CREATE TABLE turn (
    session     INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    no          INTEGER NOT NULL,
    invocation  TEXT    NOT NULL,
    ordinal     INTEGER NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('message', 'resume', 'close')),
    status      TEXT    NOT NULL CHECK (status IN ('accepted', 'suspended', 'completed', 'errored')),
    fence       INTEGER NOT NULL,
    deaths      INTEGER NOT NULL,
    agent       INTEGER NOT NULL REFERENCES agent (id),
    message     INTEGER,
    wait        INTEGER,
    key         TEXT,
    digest      TEXT,
    accepted_at INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT    CHECK (json_valid(outcome)),
    UNIQUE (session, no)
) STRICT;
CREATE INDEX turn_invocation ON turn (invocation, session);
CREATE UNIQUE INDEX turn_key ON turn (session, key) WHERE key IS NOT NULL;
CREATE INDEX turn_open ON turn (session, no) WHERE status = 'accepted';

CREATE TABLE wait (
    session        INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    no             INTEGER NOT NULL,
    signal         TEXT    NOT NULL,
    invocation     TEXT    NOT NULL,
    turn           INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'consumed', 'cancelled', 'expired')),
    metadata       TEXT    CHECK (json_valid(metadata)),
    action         TEXT,
    deadline       INTEGER,
    payload_schema TEXT    CHECK (json_valid(payload_schema)),
    on_deadline    TEXT    CHECK (json_valid(on_deadline)),
    created_at     INTEGER NOT NULL,
    ended_by       INTEGER,
    answer         TEXT    CHECK (json_valid(answer)),
    answered_by    TEXT,
    ended_at       INTEGER,
    UNIQUE (session, no)
) STRICT;
CREATE INDEX wait_pending ON wait (session, no) WHERE status = 'pending';
CREATE INDEX wait_signal ON wait (session, signal);
CREATE INDEX wait_signal_pending ON wait (signal) WHERE status = 'pending';
CREATE INDEX wait_invocation ON wait (invocation, session);
CREATE INDEX wait_deadline ON wait (deadline) WHERE status = 'pending' AND deadline IS NOT NULL;

-- Where unfinished invocations stand.
CREATE TABLE position (
    session    INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    invocation TEXT    NOT NULL,
    turn       INTEGER NOT NULL,
    body       TEXT    NOT NULL CHECK (json_valid(body)),
    UNIQUE (session, invocation)
) STRICT;

-- What nodes that have not committed yet did already.
CREATE TABLE record (
    session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    turn    INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    body    TEXT    NOT NULL CHECK (json_valid(body)),
    UNIQUE (session, turn, name)
) STRICT;

CREATE TABLE event (
    session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    item    INTEGER,
    at      INTEGER NOT NULL,
    body    TEXT    CHECK (json_valid(body)),
    UNIQUE (session, seq)
) STRICT;

-- What stays when a session is deleted: that it was, never what it said.
CREATE TABLE audit (
    id        INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    action    TEXT    NOT NULL,
    tenant    TEXT    NOT NULL,
    session   TEXT    NOT NULL,
    done_by   TEXT
) STRICT;

-- Suspended invocations of applications that use the suspension specification's own store.
CREATE TABLE paused (
    tenant     TEXT NOT NULL,
    invocation TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('suspended', 'resuming', 'completed', 'errored')),
    body       TEXT NOT NULL CHECK (json_valid(body)),
    UNIQUE (tenant, invocation)
) STRICT;

-- For people.

CREATE VIEW transcript AS
SELECT s.tenant AS tenant, s.session AS session, i.field AS list, i.seq AS seq,
       i.body ->> '$.role' AS role, i.body ->> '$.content' AS content,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.accepted_at / 1000.0, 'unixepoch') AS time, i.turn AS turn
FROM item i
JOIN session s ON s.id = i.session
JOIN field f ON f.session = i.session AND f.name = i.field AND f.generation = i.generation
LEFT JOIN turn t ON t.session = i.session AND t.no = i.turn
WHERE i.seq < f.len
ORDER BY s.tenant, s.session, i.field, i.seq;

CREATE VIEW turns AS
SELECT s.tenant AS tenant, s.session AS session, t.no AS turn, t.kind AS kind, t.status AS status,
       t.invocation AS invocation, t.ordinal AS ordinal, a.name AS agent, a.graph AS graph, t.key AS key,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.accepted_at / 1000.0, 'unixepoch') AS accepted,
       strftime('%Y-%m-%dT%H:%M:%fZ', t.ended_at / 1000.0, 'unixepoch') AS ended, t.outcome AS outcome
FROM turn t
JOIN session s ON s.id = t.session
JOIN agent a ON a.id = t.agent
ORDER BY s.tenant, s.session, t.no;

CREATE VIEW pending AS
SELECT s.tenant AS tenant, s.session AS session, w.no AS wait, w.signal AS signal, w.turn AS turn,
       w.invocation AS invocation, w.metadata AS metadata,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.created_at / 1000.0, 'unixepoch') AS since,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.deadline / 1000.0, 'unixepoch') AS deadline
FROM wait w
JOIN session s ON s.id = w.session
WHERE w.status = 'pending'
ORDER BY s.tenant, s.session, w.no;
