-- The floor of w2 on PostgreSQL, for pgbench: one turn with the rows and bytes of ours, in two statements that are a commit each.
-- Each client has the session of its number (bench/postgres.py makes them).
\set n :n + 1
\set c :client_id + 1
\set i1 :n * 2
\set i2 :n * 2 + 1
\set e1 :n * 3
\set e2 :n * 3 + 1
\set e3 :n * 3 + 2
\set t 1795931711117
WITH held AS (
  UPDATE singletree.lease SET commit_id = '8c271261-7db2-45d5-90a9-6d3cc2ae2f4c'
  WHERE tenant = 'floor' AND session = :c::bigint::text AND owner = 1 AND fence = 2 RETURNING 1),
item AS (
  INSERT INTO singletree.item (session, no, turn, body)
  SELECT :c::bigint, :i1::bigint, :n::bigint, '{"role" : "user", "content" : "user message 00000004 ' || repeat('u', 178) || '"}'
  FROM held),
turn AS (
  INSERT INTO singletree.turn (session, no, tenant, invocation, ordinal, kind, status, fence, deaths, agent, graph, message, accepted_at)
  SELECT :c::bigint, :n::bigint, 'floor', lpad(:c::bigint::text, 18, '0') || lpad(:n::bigint::text, 18, '0'), 0, 'message', 'accepted', 2, 0,
    'default', '7900b099fcdd74ac', :i1::bigint, :t::bigint
  FROM held),
event AS (
  INSERT INTO singletree.event (session, seq, turn, kind, item, at)
  SELECT :c::bigint, :e1::bigint, :n::bigint, 'turn.accepted', :i1::bigint, :t::bigint FROM held)
UPDATE singletree.session SET next_turn = :n::bigint + 1, next_item = :i1::bigint + 1, next_event = :e1::bigint + 1
FROM held WHERE id = :c::bigint;
WITH held AS (
  UPDATE singletree.lease SET commit_id = '5c501a12-af7b-4b2a-84d1-c00417289517'
  WHERE tenant = 'floor' AND session = :c::bigint::text AND owner = 1 AND fence = 2 RETURNING 1),
item AS (
  INSERT INTO singletree.item (session, no, turn, list, generation, seq, body)
  SELECT :c::bigint, :i2::bigint, :n::bigint, 'messages', 0, :i2::bigint,
    '{"role" : "assistant", "content" : "constant reply ' || repeat('r', 185) || '"}'
  FROM held),
placed AS (
  UPDATE singletree.item SET list = 'messages', generation = 0, seq = :i1::bigint
  FROM held WHERE item.session = :c::bigint AND item.no = :i1::bigint),
field AS (
  UPDATE singletree.field SET len = :i2::bigint + 1, bytes = :i2::bigint * 230
  FROM held WHERE field.session = :c::bigint AND field.name = 'messages'),
turn AS (
  UPDATE singletree.turn SET status = 'completed', outcome = '{"outcome" : "completed", "from" : 9, "to" : 10, "existing" : true}',
    ended_at = :t::bigint
  FROM held WHERE turn.session = :c::bigint AND turn.no = :n::bigint),
event AS (
  INSERT INTO singletree.event (session, seq, turn, kind, item, at, body)
  SELECT :c::bigint, row.seq, :n::bigint, row.kind, row.item, :t::bigint, row.body
  FROM held, (VALUES (:e2::bigint, 'message.appended', :i2::bigint, '{"k" : 1}'),
    (:e3::bigint, 'turn.completed', NULL, '{"t" : ["model", 0]}')) AS row (seq, kind, item, body))
UPDATE singletree.session SET version = :n::bigint, updated_at = :t::bigint, next_turn = :n::bigint + 1,
  next_item = :i2::bigint + 1, next_event = :e3::bigint + 1
FROM held WHERE id = :c::bigint;
