-- The functions by which rows are written. A batch is one call: one round trip, and one transaction.
--
-- A refusal raises SQLSTATE ST002, a lease that does not hold ST001; the transaction ends with it. Each statement of a function
-- sees what was committed before it, so that everything behind the lock of the lease is current.
--
-- They are written in PL/pgSQL, also where SQL would do: PostgreSQL plans a statement of it once in a connection, and the body of
-- a function in SQL with each statement that calls it.

-- Refuses the batch.
CREATE OR REPLACE FUNCTION singletree.refuse(requirement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', requirement USING ERRCODE = 'ST002';
END $$;

-- HMAC-SHA-256 (RFC 2104).
CREATE OR REPLACE FUNCTION singletree.hmac(key text, message bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  block bytea := convert_to(key, 'UTF8');
  inner_pad bytea;
  outer_pad bytea;
BEGIN
  IF length(block) > 64 THEN
    block := sha256(block);
  END IF;
  block := block || decode(repeat('00', 64 - length(block)), 'hex');
  inner_pad := block;
  outer_pad := block;
  FOR i IN 0..63 LOOP
    inner_pad := set_byte(inner_pad, i, get_byte(block, i) # 54);
    outer_pad := set_byte(outer_pad, i, get_byte(block, i) # 92);
  END LOOP;
  RETURN sha256(outer_pad || sha256(inner_pad || message));
END $$;

-- A text with its length before it, so that no two lists of texts have the same bytes.
CREATE OR REPLACE FUNCTION singletree.framed(of_text text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT int8send(length(convert_to(of_text, 'UTF8'))) || convert_to(of_text, 'UTF8')
$$;

-- The hash of a name of a tenant, under the key of the database: what is kept of a name when its bearer is deleted. A file of
-- SQLite has the same hash under the same key.
CREATE OR REPLACE FUNCTION singletree.keyed_hash(kind text, of_tenant text, name text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT encode(singletree.hmac(m.name_key,
    singletree.framed(kind) || singletree.framed(of_tenant) || singletree.framed(name)), 'hex')
  FROM singletree.meta m);
END $$;

-- The name under which the numbers of a deleted session are kept.
CREATE OR REPLACE FUNCTION singletree.name_hash(of_tenant text, of_session text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN singletree.keyed_hash('session', of_tenant, of_session);
END $$;

-- Acquires a session for an owner: one that holds it keeps its fence. `dead` are owners that were silent for a whole lease, with
-- the beats at which they were last seen. One of them that has the session, and has not beaten since, counts as dead: it is no
-- owner from here on. Returns no row where another owner holds the session.
CREATE OR REPLACE FUNCTION singletree.acquire(of_tenant text, of_session text, by_owner bigint, dead bigint[], beats bigint[])
RETURNS TABLE (fence bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  IF NOT EXISTS (SELECT 1 FROM singletree.node n WHERE n.incarnation = by_owner) THEN
    RAISE EXCEPTION 'the node of owner % has ended', by_owner USING ERRCODE = 'ST003';
  END IF;
  DELETE FROM singletree.node n USING unnest(dead, beats) AS d (incarnation, beat), singletree.lease l
  WHERE l.tenant = of_tenant AND l.session = of_session AND n.incarnation = l.owner AND n.incarnation <> by_owner
    AND d.incarnation = n.incarnation AND d.beat = n.beat;
  RETURN QUERY INSERT INTO singletree.lease AS l (tenant, session, owner, fence)
    VALUES (of_tenant, of_session, by_owner, nextval('singletree.fence'))
    ON CONFLICT (tenant, session) DO UPDATE SET
      owner = by_owner,
      fence = CASE WHEN l.owner = by_owner THEN l.fence ELSE nextval('singletree.fence') END
    WHERE l.owner IS NULL OR l.owner = by_owner
      OR NOT EXISTS (SELECT 1 FROM singletree.node n WHERE n.incarnation = l.owner)
    RETURNING l.fence;
END $$;

-- What a process must serve to go on with a session as it stands, as the column `serves` has it in its list: the agent and the graph
-- of the first turn that is accepted or waits for a signal, or else the agent and the version of its state. None where a turn was
-- accepted before `oldest`, in milliseconds: it may be closed by any process.
CREATE OR REPLACE FUNCTION singletree.needed_graph(of_tenant text, of_session text, oldest bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  of_id bigint;
  idle jsonb;
  running jsonb;
  accepted bigint;
BEGIN
  SELECT s.id, jsonb_build_array(jsonb_build_object('agent', s.agent, 'schema_version', s.schema_version)) INTO of_id, idle
  FROM singletree.session s WHERE s.tenant = of_tenant AND s.session = of_session;
  IF of_id IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT jsonb_build_array(jsonb_build_object('agent', t.agent, 'graph', t.graph)), t.accepted_at INTO running, accepted
  FROM (
    (SELECT o.no FROM singletree.turn o WHERE o.session = of_id AND o.status = 'accepted' ORDER BY o.no LIMIT 1)
    UNION ALL
    (SELECT w.turn FROM singletree.wait w WHERE w.tenant = of_tenant AND w.session = of_id AND w.status = 'pending'
      ORDER BY w.no LIMIT 1)
  ) AS unfinished (no) JOIN singletree.turn t ON t.session = of_id AND t.no = unfinished.no
  ORDER BY t.no LIMIT 1;
  IF running IS NULL THEN
    RETURN idle;
  END IF;
  RETURN CASE WHEN accepted >= oldest THEN running END;
END $$;

-- As `acquire`. A session that nobody holds who lives is left to a process that can go on with it as it stands, if the asking one
-- cannot: then there is no fence, and the name and the address of that process.
CREATE OR REPLACE FUNCTION singletree.acquire_served(of_tenant text, of_session text, by_owner bigint, dead bigint[], beats bigint[],
  oldest bigint)
RETURNS TABLE (fence bigint, node text, address text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  own jsonb;
  needed jsonb;
BEGIN
  SELECT n.serves->'graphs' INTO own FROM singletree.node n WHERE n.incarnation = by_owner;
  IF own IS NOT NULL THEN
    needed := singletree.needed_graph(of_tenant, of_session, oldest);
  END IF;
  IF needed IS NOT NULL AND NOT own @> needed THEN
    RETURN QUERY WITH living AS MATERIALIZED (
      SELECT n.* FROM singletree.node n WHERE NOT EXISTS (
        SELECT 1 FROM unnest(dead, beats) AS d (incarnation, beat) WHERE d.incarnation = n.incarnation AND d.beat = n.beat)
    )
    SELECT NULL::bigint, n.name, n.address FROM living n
    WHERE n.incarnation <> by_owner AND n.serves->'graphs' @> needed AND coalesce(n.serves->>'tenant', of_tenant) = of_tenant
      AND NOT EXISTS (SELECT 1 FROM singletree.lease l JOIN living o ON o.incarnation = l.owner
        WHERE l.tenant = of_tenant AND l.session = of_session)
    ORDER BY n.incarnation LIMIT 1;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  RETURN QUERY SELECT a.fence, NULL::text, NULL::text
    FROM singletree.acquire(of_tenant, of_session, by_owner, dead, beats) AS a;
END $$;

-- Gives a session back. Of one that does not exist nothing stays, in particular not its name.
CREATE OR REPLACE FUNCTION singletree.release(of_tenant text, of_session text, by_owner bigint, under_fence bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM singletree.lease l
  WHERE l.tenant = of_tenant AND l.session = of_session AND l.owner = by_owner AND l.fence = under_fence
    AND NOT EXISTS (SELECT 1 FROM singletree.session s WHERE s.tenant = of_tenant AND s.session = of_session);
  IF NOT FOUND THEN
    UPDATE singletree.lease l SET owner = NULL
    WHERE l.tenant = of_tenant AND l.session = of_session AND l.owner = by_owner AND l.fence = under_fence;
  END IF;
END $$;

-- Removes the leases of sessions that do not exist, of owners that have ended.
CREATE OR REPLACE FUNCTION singletree.forget_leases() RETURNS void LANGUAGE sql AS $$
  DELETE FROM singletree.lease l
  WHERE NOT EXISTS (SELECT 1 FROM singletree.session s WHERE s.tenant = l.tenant AND s.session = l.session)
    AND NOT EXISTS (SELECT 1 FROM singletree.node n WHERE n.incarnation = l.owner)
$$;

-- Makes a session of a head, or replaces the head of one that is there; returns the id of the session. A head may bring the
-- counters of the session with it: they are raised to these.
CREATE OR REPLACE FUNCTION singletree.put_head(of_tenant text, of_session text, id bigint, head jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  made bigint := id;
BEGIN
  IF made IS NULL THEN
    INSERT INTO singletree.session (tenant, session, agent, graph, schema_version, version, prompt_policy, parent,
      parent_offset, subject, created_at, updated_at)
    VALUES (of_tenant, of_session, head->>'agent', head->>'graph', head->>'schema_version', (head->>'version')::bigint,
      head->>'prompt_policy', head->>'parent', (head->>'parent_offset')::bigint, head->>'subject',
      (head->>'created_at')::bigint, (head->>'updated_at')::bigint)
    RETURNING session.id INTO made;
    UPDATE singletree.session s SET next_turn = f.next_turn, next_item = f.next_item, next_event = f.next_event,
      next_wait = f.next_wait
    FROM singletree.former f
    WHERE s.id = made AND f.tenant = of_tenant AND f.session_hash = singletree.name_hash(of_tenant, of_session);
    IF FOUND THEN
      DELETE FROM singletree.former
      WHERE tenant = of_tenant AND session_hash = singletree.name_hash(of_tenant, of_session);
    END IF;
    IF head ? 'turns' THEN
      PERFORM singletree.raise_counters(made, head);
    END IF;
    RETURN made;
  END IF;
  UPDATE singletree.session s SET agent = head->>'agent', graph = head->>'graph',
    schema_version = head->>'schema_version', version = (head->>'version')::bigint,
    prompt_policy = head->>'prompt_policy', parent = head->>'parent',
    parent_offset = (head->>'parent_offset')::bigint, subject = head->>'subject',
    created_at = (head->>'created_at')::bigint, updated_at = (head->>'updated_at')::bigint,
    next_turn = greatest(s.next_turn, (head->>'turns')::bigint),
    next_item = greatest(s.next_item, (head->>'items')::bigint),
    next_event = greatest(s.next_event, (head->>'events')::bigint),
    next_wait = greatest(s.next_wait, (head->>'waits')::bigint)
  WHERE s.id = made;
  RETURN made;
END $$;

-- Raises the counters of a session; one that is higher stays.
CREATE OR REPLACE FUNCTION singletree.raise_counters(of_id bigint, counters jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE singletree.session s SET next_turn = greatest(s.next_turn, (counters->>'turns')::bigint),
    next_item = greatest(s.next_item, (counters->>'items')::bigint),
    next_event = greatest(s.next_event, (counters->>'events')::bigint),
    next_wait = greatest(s.next_wait, (counters->>'waits')::bigint)
  WHERE s.id = of_id;
END $$;

-- Checks the requirements of a batch on the rows before it. A refusal names the place of the requirement in the batch. The row of the session is NULL where there is none.
CREATE OR REPLACE FUNCTION singletree.check_batch(
  of_tenant text, of_session text, s singletree.session, requirements jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  id bigint := s.id;
  r jsonb;
  f singletree.former;
  holds boolean;
BEGIN
  FOR at IN 0 .. jsonb_array_length(requirements) - 1 LOOP
    r := requirements->at;
    CASE r->>'is'
      WHEN 'session_absent' THEN
        holds := id IS NULL;
      WHEN 'session_version' THEN
        holds := s.version = (r->>'version')::bigint;
      WHEN 'counters' THEN
        IF id IS NULL THEN
          SELECT * INTO f FROM singletree.former
          WHERE tenant = of_tenant AND session_hash = singletree.name_hash(of_tenant, of_session);
          holds := (coalesce(f.next_turn, 0), coalesce(f.next_item, 0), coalesce(f.next_event, 0), coalesce(f.next_wait, 0))
            = ((r->>'turns')::bigint, (r->>'items')::bigint, (r->>'events')::bigint, (r->>'waits')::bigint);
        ELSE
          holds := (s.next_turn, s.next_item, s.next_event, s.next_wait)
            = ((r->>'turns')::bigint, (r->>'items')::bigint, (r->>'events')::bigint, (r->>'waits')::bigint);
        END IF;
      WHEN 'turn' THEN
        holds := EXISTS (SELECT 1 FROM singletree.turn t
          WHERE t.session = id AND t.no = (r->>'no')::bigint AND t.status = r->>'status');
      WHEN 'newest_turn' THEN
        holds := (SELECT max(t.no) FROM singletree.turn t WHERE t.session = id) = (r->>'no')::bigint;
      WHEN 'key_free' THEN
        holds := NOT EXISTS (SELECT 1 FROM singletree.turn t WHERE t.session = id AND t.key = r->>'key');
      WHEN 'wait' THEN
        holds := EXISTS (SELECT 1 FROM singletree.wait w
          WHERE w.session = id AND w.no = (r->>'no')::bigint AND w.status = r->>'status');
      WHEN 'mail_absent' THEN
        holds := NOT EXISTS (SELECT 1 FROM singletree.mail m WHERE m.session = id AND m.signal = r->>'signal');
      WHEN 'idle' THEN
        holds := NOT EXISTS (SELECT 1 FROM singletree.turn t WHERE t.session = id AND t.status = 'accepted')
          AND NOT EXISTS (SELECT 1 FROM singletree.wait w WHERE w.session = id AND w.status = 'pending');
      WHEN 'source' THEN
        holds := EXISTS (SELECT 1 FROM singletree.session o WHERE o.tenant = of_tenant AND o.session = r->>'session'
          AND o.created_at = (r->>'created_at')::bigint AND o.version = (r->>'version')::bigint);
    END CASE;
    IF holds IS NOT TRUE THEN
      PERFORM singletree.refuse('requirement ' || at);
    END IF;
  END LOOP;
END $$;

-- Removes a turn whose invocation is over, with its waits, its records and those of its items that have no place.
CREATE OR REPLACE FUNCTION singletree.drop_turn(id bigint, turn_no bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  of_invocation text;
BEGIN
  SELECT t.invocation INTO of_invocation FROM singletree.turn t WHERE t.session = id AND t.no = turn_no;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF EXISTS (SELECT 1 FROM singletree.turn t
      WHERE t.session = id AND t.status = 'accepted' AND t.invocation = of_invocation)
    OR EXISTS (SELECT 1 FROM singletree.wait w
      WHERE w.session = id AND w.status = 'pending' AND w.invocation = of_invocation) THEN
    PERFORM singletree.refuse('the invocation of turn ' || turn_no || ' is over');
  END IF;
  DELETE FROM singletree.wait w WHERE w.session = id AND w.turn = turn_no AND w.invocation = of_invocation;
  DELETE FROM singletree.record r WHERE r.session = id AND r.turn = turn_no;
  DELETE FROM singletree.item i WHERE i.session = id AND i.turn = turn_no AND i.seq IS NULL;
  DELETE FROM singletree.turn t WHERE t.session = id AND t.no = turn_no;
END $$;

-- Removes a session, which may be absent, with everything that belongs to it; its next free numbers stay.
CREATE OR REPLACE FUNCTION singletree.delete_session(of_tenant text, of_session text, id bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  used text[];
BEGIN
  DELETE FROM singletree.document WHERE tenant = of_tenant AND session = of_session;
  WITH gone AS (
    DELETE FROM singletree.blob_use WHERE tenant = of_tenant AND session = of_session RETURNING digest)
  SELECT array_agg(digest ORDER BY digest) INTO used FROM gone;
  IF used IS NOT NULL THEN
    -- In order, so that two deletions lock the same blobs alike; whoever keeps one locks it first, too.
    PERFORM 1 FROM singletree.blob b WHERE b.tenant = of_tenant AND b.digest = ANY (used) ORDER BY b.digest FOR UPDATE;
    DELETE FROM singletree.blob b WHERE b.tenant = of_tenant AND b.digest = ANY (used)
      AND NOT EXISTS (SELECT 1 FROM singletree.blob_use u WHERE u.tenant = b.tenant AND u.digest = b.digest);
  END IF;
  DELETE FROM singletree.usage WHERE tenant = of_tenant AND session = of_session;
  IF id IS NULL THEN
    RETURN;
  END IF;
  INSERT INTO singletree.former AS f (tenant, session_hash, next_turn, next_item, next_event, next_wait)
    SELECT of_tenant, singletree.name_hash(of_tenant, of_session), next_turn, next_item, next_event, next_wait
    FROM singletree.session s WHERE s.id = delete_session.id
  ON CONFLICT (tenant, session_hash) DO UPDATE SET next_turn = greatest(f.next_turn, excluded.next_turn),
    next_item = greatest(f.next_item, excluded.next_item), next_event = greatest(f.next_event, excluded.next_event),
    next_wait = greatest(f.next_wait, excluded.next_wait);
  DELETE FROM singletree.session s WHERE s.id = delete_session.id;
END $$;

-- Writes a document, whatever stood there.
CREATE OR REPLACE FUNCTION singletree.write_document(
  of_tenant text, of_kind text, of_id text, of_session text, ends bigint, content text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO singletree.document AS d (tenant, kind, id, session, version, expires_at, body)
  VALUES (of_tenant, of_kind, of_id, of_session, 1, ends, content)
  ON CONFLICT (tenant, kind, id) DO UPDATE SET session = excluded.session, version = d.version + 1,
    expires_at = excluded.expires_at, body = excluded.body;
END $$;

-- Adds to the usage of a session and of its tenant, whose row has the empty session.
CREATE OR REPLACE FUNCTION singletree.add_usage(of_tenant text, of_session text, u jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO singletree.usage AS o (tenant, session, model, calls, prompt_tokens, completion_tokens, cached_tokens,
    cache_creation_tokens)
  SELECT of_tenant, s, u->>'model', (u->>'calls')::bigint, (u->>'prompt_tokens')::bigint,
    (u->>'completion_tokens')::bigint, (u->>'cached_tokens')::bigint, (u->>'cache_creation_tokens')::bigint
  FROM unnest(ARRAY[of_session, '']) AS s
  ON CONFLICT (tenant, session, model) DO UPDATE SET calls = o.calls + excluded.calls,
    prompt_tokens = o.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = o.completion_tokens + excluded.completion_tokens,
    cached_tokens = o.cached_tokens + excluded.cached_tokens,
    cache_creation_tokens = o.cache_creation_tokens + excluded.cache_creation_tokens;
END $$;

-- Lets a session use those blobs of another one that it names: whose digest stands in an item or a field.
CREATE OR REPLACE FUNCTION singletree.inherit_blobs(of_tenant text, of_session text, id bigint, source text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO singletree.blob_use (tenant, session, digest)
  SELECT of_tenant, of_session, u.digest FROM singletree.blob_use u
  WHERE u.tenant = of_tenant AND u.session = source AND (
    EXISTS (SELECT 1 FROM singletree.item i WHERE i.session = id AND strpos(i.body, u.digest) > 0)
    OR EXISTS (SELECT 1 FROM singletree.field f WHERE f.session = id AND strpos(f.value, u.digest) > 0))
  ON CONFLICT DO NOTHING;
END $$;

-- Writes a turn, whatever stood there.
CREATE OR REPLACE FUNCTION singletree.put_turn(of_tenant text, of_id bigint, p jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO singletree.turn (session, no, tenant, invocation, ordinal, kind, status, fence, deaths, agent, graph,
    message, wait, key, digest, accepted_at, ended_at, outcome, retries)
  VALUES (of_id, (p->>'no')::bigint, of_tenant, p->>'invocation', (p->>'ordinal')::bigint, p->>'kind', p->>'status',
    (p->>'fence')::bigint, (p->>'deaths')::bigint, p->>'agent', p->>'graph', (p->>'message')::bigint,
    (p->>'wait')::bigint, p->>'key', p->>'digest', (p->>'accepted_at')::bigint, (p->>'ended_at')::bigint,
    p->>'outcome', (p->>'retries')::bigint)
  ON CONFLICT (session, no) DO UPDATE SET invocation = excluded.invocation, ordinal = excluded.ordinal,
    kind = excluded.kind, status = excluded.status, fence = excluded.fence, deaths = excluded.deaths,
    agent = excluded.agent, graph = excluded.graph, message = excluded.message, wait = excluded.wait,
    key = excluded.key, digest = excluded.digest, accepted_at = excluded.accepted_at,
    ended_at = excluded.ended_at, outcome = excluded.outcome, retries = excluded.retries;
END $$;

-- Returns the first head of a batch from a place on, and before a deletion.
CREATE OR REPLACE FUNCTION singletree.upcoming_head(puts jsonb, place integer) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  FOR at IN place .. jsonb_array_length(puts) - 1 LOOP
    CASE puts->at->>'put'
      WHEN 'head' THEN RETURN puts->at;
      WHEN 'delete' THEN RETURN NULL;
      ELSE NULL;
    END CASE;
  END LOOP;
  RETURN NULL;
END $$;

-- Notes the changes of a batch for those that follow the tenant.
CREATE OR REPLACE FUNCTION singletree.note_change(of_tenant text, of_session text, requirements jsonb, puts jsonb)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO singletree.change (tenant, session, created, deleted_at, first_event, last_event)
  SELECT of_tenant, of_session,
    requirements @> '[{"is": "session_absent"}]' AND puts @> '[{"put": "head"}]',
    CASE WHEN puts @> '[{"put": "delete"}]' THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END,
    min((r->>'seq')::bigint), max((r->>'seq')::bigint)
  FROM jsonb_array_elements(puts) p LEFT JOIN LATERAL jsonb_array_elements(p->'rows') r ON p->>'put' = 'events'
$$;

-- Follows tenants for ten seconds more, and no others; also removes old changes. Returns the tenants that were not followed,
-- and those whose time was nearly over, since a batch may already have found it over. A batch under way may have looked before
-- this call: the caller waits until it has ended.
CREATE OR REPLACE FUNCTION singletree.follow_tenants(by_reader text, names text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  followed text;
  validity CONSTANT interval := '10 seconds';
BEGIN
  DELETE FROM singletree.follower f WHERE f.reader = by_reader AND f.tenant <> ALL (names);
  DELETE FROM singletree.follower f WHERE (f.tenant, f.reader) IN (
    SELECT o.tenant, o.reader FROM singletree.follower o WHERE o.follows_until < clock_timestamp() - validity
    AND o.reader <> by_reader FOR UPDATE SKIP LOCKED);
  FOR followed IN SELECT DISTINCT name FROM unnest(names) name ORDER BY name LOOP
    UPDATE singletree.follower f SET follows_until = clock_timestamp() + validity
    WHERE f.tenant = followed AND f.reader = by_reader AND f.follows_until > clock_timestamp() + validity / 2;
    IF NOT FOUND THEN
      INSERT INTO singletree.follower AS f (tenant, reader, follows_until)
      VALUES (followed, by_reader, clock_timestamp() + validity)
      ON CONFLICT (tenant, reader) DO UPDATE SET follows_until = excluded.follows_until;
      RETURN NEXT followed;
    END IF;
  END LOOP;
  DELETE FROM singletree.change c WHERE c.no IN (
    SELECT o.no FROM singletree.change o WHERE o.at < clock_timestamp() - interval '1 minute'
    OR NOT EXISTS (SELECT 1 FROM singletree.follower f WHERE f.follows_until > clock_timestamp())
    FOR UPDATE SKIP LOCKED);
END $$;

-- Applies a batch: checks the lease, then the requirements, then makes the puts in order. `items` and `events` are lists of rows,
-- and a `head` may have counters with it: so the writer puts together what may be written at once (encode/merge.rs). The kinds
-- that every turn has come first: they are looked through one after the other.
CREATE OR REPLACE FUNCTION singletree.apply_batch(
  of_tenant text, of_session text, by_owner bigint, under_fence bigint, new_commit text, requirements jsonb, puts jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  own singletree.session;
  sid bigint;
  p jsonb;
  head jsonb;
  others text[];
  sources text[] := '{}';
  other text;
  other_id bigint;
  touched bigint;
  is_told boolean := false;
BEGIN
  -- The rows of other sessions are locked first, in order.
  IF requirements @> '[{"is": "source"}]' OR puts @> '[{"put": "inherit"}]' THEN
    SELECT array_agg(DISTINCT name ORDER BY name) INTO others FROM (
      SELECT r->>'session' AS name FROM jsonb_array_elements(requirements) r WHERE r->>'is' = 'source'
      UNION ALL SELECT i->>'from' FROM jsonb_array_elements(puts) i WHERE i->>'put' = 'inherit') named;
    PERFORM 1 FROM singletree.session o WHERE o.tenant = of_tenant AND o.session = ANY (others) AND o.session <> of_session
    ORDER BY o.session FOR SHARE;
  END IF;
  UPDATE singletree.lease SET commit_id = new_commit
  WHERE tenant = of_tenant AND session = of_session AND owner = by_owner AND fence = under_fence;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the session is not held under fence %', under_fence USING ERRCODE = 'ST001';
  END IF;
  SELECT * INTO own FROM singletree.session o WHERE o.tenant = of_tenant AND o.session = of_session;
  sid := own.id;
  IF requirements <> '[]' THEN
    PERFORM singletree.check_batch(of_tenant, of_session, own, requirements);
  END IF;
  FOR place IN 0 .. jsonb_array_length(puts) - 1 LOOP
    p := puts->place;
    -- Rows need a session; its head may stand behind them.
    IF sid IS NULL AND p->>'put' IN ('counters', 'field', 'items', 'place', 'side', 'turn', 'wait', 'mail', 'position',
        'record', 'events', 'inherit', 'usage') THEN
      head := singletree.upcoming_head(puts, place);
      IF head IS NULL THEN
        PERFORM singletree.refuse('the session exists');
      END IF;
      sid := singletree.put_head(of_tenant, of_session, NULL, head);
    END IF;
    CASE p->>'put'
      WHEN 'items' THEN
        INSERT INTO singletree.item (session, no, turn, list, generation, seq, side, body)
        SELECT sid, (r->>'no')::bigint, (r->>'turn')::bigint, r->>'list', (r->>'generation')::bigint,
          (r->>'seq')::bigint, r->>'side', r->>'body'
        FROM jsonb_array_elements(p->'rows') r;
      WHEN 'events' THEN
        INSERT INTO singletree.event (session, seq, turn, kind, item, at, body)
        SELECT sid, (r->>'seq')::bigint, (r->>'turn')::bigint, r->>'kind', (r->>'item')::bigint, (r->>'at')::bigint,
          r->>'body'
        FROM jsonb_array_elements(p->'rows') r;
        is_told := true;
      WHEN 'turn' THEN
        -- One that has ended was accepted by a batch before.
        touched := 0;
        IF p->>'status' <> 'accepted' THEN
          UPDATE singletree.turn t SET invocation = p->>'invocation', ordinal = (p->>'ordinal')::bigint,
            kind = p->>'kind', status = p->>'status', fence = (p->>'fence')::bigint, deaths = (p->>'deaths')::bigint,
            agent = p->>'agent', graph = p->>'graph', message = (p->>'message')::bigint, wait = (p->>'wait')::bigint,
            key = p->>'key', digest = p->>'digest', accepted_at = (p->>'accepted_at')::bigint,
            ended_at = (p->>'ended_at')::bigint, outcome = p->>'outcome', retries = (p->>'retries')::bigint
          WHERE t.session = sid AND t.no = (p->>'no')::bigint;
          GET DIAGNOSTICS touched = ROW_COUNT;
        END IF;
        IF touched = 0 THEN
          PERFORM singletree.put_turn(of_tenant, sid, p);
        END IF;
      WHEN 'head' THEN
        sid := singletree.put_head(of_tenant, of_session, sid, p);
      WHEN 'counters' THEN
        PERFORM singletree.raise_counters(sid, p);
      WHEN 'field' THEN
        UPDATE singletree.field f SET value = p->>'value', generation = (p->>'generation')::bigint,
          len = (p->>'len')::bigint, bytes = (p->>'bytes')::bigint
        WHERE f.session = sid AND f.name = p->>'name';
        IF NOT FOUND THEN
          INSERT INTO singletree.field (session, name, value, generation, len, bytes)
          VALUES (sid, p->>'name', p->>'value', (p->>'generation')::bigint, (p->>'len')::bigint, (p->>'bytes')::bigint);
        END IF;
      WHEN 'place' THEN
        UPDATE singletree.item i SET list = p->>'list', generation = (p->>'generation')::bigint, seq = (p->>'seq')::bigint
        WHERE i.session = sid AND i.no = (p->>'item')::bigint AND i.seq IS NULL;
        IF NOT FOUND THEN
          PERFORM singletree.refuse('item ' || (p->>'item') || ' has no place yet');
        END IF;
      WHEN 'drop_field' THEN
        DELETE FROM singletree.field WHERE session = sid AND name = p->>'name';
      WHEN 'side' THEN
        UPDATE singletree.item SET side = p->>'side' WHERE session = sid AND no = (p->>'item')::bigint;
        IF NOT FOUND THEN
          PERFORM singletree.refuse('item ' || (p->>'item') || ' exists');
        END IF;
      WHEN 'free_key' THEN
        UPDATE singletree.turn SET key = NULL, digest = NULL WHERE session = sid AND no = (p->>'turn')::bigint;
      WHEN 'wait' THEN
        INSERT INTO singletree.wait (session, no, tenant, signal, invocation, turn, status, metadata, action, deadline,
          payload_schema, on_deadline, created_at, ended_by, answer, answered_by, ended_at)
        VALUES (sid, (p->>'no')::bigint, of_tenant, p->>'signal', p->>'invocation', (p->>'turn')::bigint, p->>'status',
          p->>'metadata', p->>'action', (p->>'deadline')::bigint, p->>'payload_schema', p->>'on_deadline',
          (p->>'created_at')::bigint, (p->>'ended_by')::bigint, p->>'answer', p->>'answered_by',
          (p->>'ended_at')::bigint)
        ON CONFLICT (session, no) DO UPDATE SET signal = excluded.signal, invocation = excluded.invocation,
          turn = excluded.turn, status = excluded.status, metadata = excluded.metadata, action = excluded.action,
          deadline = excluded.deadline, payload_schema = excluded.payload_schema, on_deadline = excluded.on_deadline,
          created_at = excluded.created_at, ended_by = excluded.ended_by, answer = excluded.answer,
          answered_by = excluded.answered_by, ended_at = excluded.ended_at;
      WHEN 'mail' THEN
        INSERT INTO singletree.mail (session, signal, payload, sent_by, at)
        VALUES (sid, p->>'signal', p->>'payload', p->>'from', (p->>'at')::bigint)
        ON CONFLICT (session, signal) DO UPDATE SET payload = excluded.payload, sent_by = excluded.sent_by,
          at = excluded.at;
      WHEN 'drop_mail' THEN
        DELETE FROM singletree.mail WHERE session = sid AND signal = p->>'signal';
      WHEN 'position' THEN
        INSERT INTO singletree.position (session, invocation, turn, body)
        VALUES (sid, p->>'invocation', (p->>'turn')::bigint, p->>'body')
        ON CONFLICT (session, invocation) DO UPDATE SET turn = excluded.turn, body = excluded.body;
      WHEN 'drop_position' THEN
        DELETE FROM singletree.position WHERE session = sid AND invocation = p->>'invocation';
      WHEN 'record' THEN
        INSERT INTO singletree.record (session, turn, name, body)
        VALUES (sid, (p->>'turn')::bigint, p->>'name', p->>'body')
        ON CONFLICT (session, turn, name) DO UPDATE SET body = excluded.body;
      WHEN 'drop_records' THEN
        DELETE FROM singletree.record WHERE session = sid AND turn = (p->>'turn')::bigint;
      WHEN 'inherit' THEN
        other := p->>'from';
        SELECT s.id INTO other_id FROM singletree.session s
        WHERE s.tenant = of_tenant AND s.session = other AND s.id <> sid;
        INSERT INTO singletree.item (session, no, turn, list, generation, seq, side, body)
          SELECT sid, i.no, i.turn, i.list, i.generation, i.seq, i.side, i.body FROM singletree.item i
          WHERE i.session = other_id AND i.list = p->>'field' AND i.generation = (p->>'generation')::bigint
            AND i.seq < (p->>'len')::bigint;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF other_id IS NULL OR touched <> (p->>'len')::bigint THEN
          PERFORM singletree.refuse('the list ' || (p->>'field') || ' of ' || other || ' has ' || (p->>'len') || ' items');
        END IF;
        sources := sources || other;
      WHEN 'drop_turn' THEN
        PERFORM singletree.drop_turn(sid, (p->>'turn')::bigint);
      WHEN 'drop_events' THEN
        DELETE FROM singletree.event WHERE session = sid AND seq < (p->>'before')::bigint;
      WHEN 'usage' THEN
        PERFORM singletree.add_usage(of_tenant, of_session, p);
      WHEN 'delete' THEN
        PERFORM singletree.delete_session(of_tenant, of_session, sid);
        sid := NULL;
        is_told := true;
      WHEN 'document' THEN
        PERFORM singletree.write_document(of_tenant, p->>'kind', p->>'id',
          CASE WHEN (p->>'outlives')::boolean THEN NULL ELSE of_session END, (p->>'expires_at')::bigint, p->>'body');
      WHEN 'audit' THEN
        INSERT INTO singletree.audit (at, action, tenant, session, done_by)
        VALUES ((p->>'at')::bigint, p->>'action', p->>'tenant', singletree.name_hash(p->>'tenant', p->>'session'),
          CASE WHEN p->>'by' IS NULL THEN NULL ELSE singletree.keyed_hash('name', p->>'tenant', p->>'by') END);
    END CASE;
  END LOOP;
  -- Once everything is there that may name one.
  FOREACH other IN ARRAY sources LOOP
    PERFORM singletree.inherit_blobs(of_tenant, of_session, sid, other);
  END LOOP;
  IF (is_told OR own.id IS NULL AND sid IS NOT NULL) AND EXISTS (
      SELECT 1 FROM singletree.follower f WHERE f.tenant = of_tenant AND f.follows_until > clock_timestamp()) THEN
    PERFORM singletree.note_change(of_tenant, of_session, requirements, puts);
  END IF;
END $$;

-- Changes documents: checks all expectations, then makes all changes. The documents are locked in order, present or not.
CREATE OR REPLACE FUNCTION singletree.change_documents(changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  c jsonb;
  found_version bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(name) FROM (
    SELECT DISTINCT hashtextextended(concat_ws(E'\x1f', x->>'tenant', x->>'kind', x->>'id'), 7) AS name
    FROM jsonb_array_elements(changes) x WHERE x->>'expect' <> 'any' ORDER BY 1) names;
  FOR c IN SELECT * FROM jsonb_array_elements(changes) LOOP
    IF c->>'expect' <> 'any' THEN
      SELECT version INTO found_version FROM singletree.document d
      WHERE d.tenant = c->>'tenant' AND d.kind = c->>'kind' AND d.id = c->>'id' FOR UPDATE;
      IF (c->>'expect' = 'absent') <> (found_version IS NULL)
        OR (c->>'expect' = 'version' AND found_version <> (c->>'version')::bigint) THEN
        PERFORM singletree.refuse('the document ' || (c->>'kind') || ' ' || (c->>'id') || ' is as expected');
      END IF;
    END IF;
  END LOOP;
  FOR c IN SELECT * FROM jsonb_array_elements(changes) LOOP
    IF c->>'change' = 'write' THEN
      PERFORM singletree.write_document(
        c->>'tenant', c->>'kind', c->>'id', c->>'session', (c->>'expires_at')::bigint, c->>'body');
    ELSE
      DELETE FROM singletree.document d WHERE d.tenant = c->>'tenant' AND d.kind = c->>'kind' AND d.id = c->>'id';
    END IF;
  END LOOP;
END $$;

-- Keeps a blob for a session. Its bytes are written, and count for the holder, when the tenant has none of its digest.
CREATE OR REPLACE FUNCTION singletree.keep_blob(
  of_tenant text, of_session text, of_digest text, of_type text, of_holder text, content bytea) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  LOOP
    INSERT INTO singletree.blob (tenant, digest, media_type, holder, size, bytes)
    VALUES (of_tenant, of_digest, of_type, of_holder, length(content), content) ON CONFLICT DO NOTHING;
    -- A deletion that removes it now has the lock: then it is written again.
    PERFORM 1 FROM singletree.blob b WHERE b.tenant = of_tenant AND b.digest = of_digest FOR SHARE;
    EXIT WHEN FOUND;
  END LOOP;
  INSERT INTO singletree.blob_use (tenant, session, digest) VALUES (of_tenant, of_session, of_digest)
  ON CONFLICT DO NOTHING;
END $$;

-- Settles a commit whose answer was lost: raises the session's own fence, if the owner still holds it, and returns the id of
-- the last commit. Its lock comes after the lost statement, or makes that one stale. The fence may be higher than the one
-- of the commit, where the answer to an earlier call was lost, too.
CREATE OR REPLACE FUNCTION singletree.settle_commit(of_tenant text, of_session text, by_owner bigint, under_fence bigint)
RETURNS TABLE (fence bigint, commit_id text) LANGUAGE sql AS $$
  UPDATE singletree.lease l SET fence = nextval('singletree.fence')
  WHERE l.tenant = of_tenant AND l.session = of_session AND l.owner = by_owner AND l.fence >= under_fence
  RETURNING l.fence, l.commit_id
$$;

-- A session with its fields.
CREATE OR REPLACE FUNCTION singletree.session_json(s singletree.session) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN to_jsonb(s) || jsonb_build_object('fields', coalesce(
    (SELECT jsonb_agg(to_jsonb(f) ORDER BY f.name) FROM singletree.field f WHERE f.session = s.id), '[]'));
END $$;

-- The next free numbers of a session, or those that one of its name left.
CREATE OR REPLACE FUNCTION singletree.read_counters(of_tenant text, of_session text) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce(
    (SELECT ARRAY[next_turn, next_item, next_event, next_wait] FROM singletree.session s
     WHERE s.tenant = of_tenant AND s.session = of_session),
    (SELECT ARRAY[next_turn, next_item, next_event, next_wait] FROM singletree.former f
     WHERE f.tenant = of_tenant AND f.session_hash = singletree.name_hash(of_tenant, of_session)),
    ARRAY[0, 0, 0, 0]::bigint[]);
END $$;

-- Everything that a writer needs of a session, in one snapshot: that of the statement that calls it.
CREATE OR REPLACE FUNCTION singletree.read_dossier(of_tenant text, of_session text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (WITH s AS (SELECT * FROM singletree.session x WHERE x.tenant = of_tenant AND x.session = of_session),
    pending AS (SELECT w.* FROM singletree.wait w JOIN s ON w.session = s.id WHERE w.status = 'pending'),
    first AS (SELECT * FROM pending ORDER BY no LIMIT 1)
  SELECT jsonb_build_object(
    'session', (SELECT singletree.session_json(x) FROM singletree.session x
      WHERE x.tenant = of_tenant AND x.session = of_session),
    'numbers', to_jsonb(singletree.read_counters(of_tenant, of_session)),
    'pending', coalesce((SELECT jsonb_agg(to_jsonb(p) ORDER BY p.no) FROM pending p), '[]'),
    'mail', coalesce((SELECT jsonb_agg(to_jsonb(m) ORDER BY m.signal) FROM singletree.mail m JOIN s ON m.session = s.id), '[]'),
    'open', coalesce((SELECT jsonb_agg(to_jsonb(t) ORDER BY t.no) FROM singletree.turn t JOIN s ON t.session = s.id
      WHERE t.status = 'accepted'), '[]'),
    'paused_turn', (SELECT to_jsonb(t) FROM singletree.turn t JOIN first f ON t.session = f.session AND t.no = f.turn),
    'paused_position', (SELECT to_jsonb(p) FROM singletree.position p
      JOIN first f ON p.session = f.session AND p.invocation = f.invocation),
    'paused_records', coalesce((SELECT jsonb_agg(to_jsonb(r) ORDER BY r.name) FROM singletree.record r
      JOIN first f ON r.session = f.session AND r.turn = f.turn), '[]')));
END $$;
