-- Schema version 5. Changes are logged for processes that tell readers of them, as long as there are any
-- (`follow_tenants`). None of it is needed after a crash of the server: its readers are
-- told then that something may be missing.

-- Which process follows which tenant, until when.
CREATE UNLOGGED TABLE singletree.follower (
  tenant text COLLATE "C" NOT NULL,
  reader text COLLATE "C" NOT NULL,
  follows_until timestamptz NOT NULL,
  PRIMARY KEY (tenant, reader)
) WITH (fillfactor = 50);

-- The numbers are drawn by commits that may land in another order; those of one session land in order. A sequence of its own:
-- it goes on after a crash, while one of an unlogged table would begin again.
CREATE SEQUENCE singletree.change_no;

-- A commit to a session of a tenant that is followed. Rows are removed after a minute.
CREATE UNLOGGED TABLE singletree.change (
  no bigint PRIMARY KEY DEFAULT nextval('singletree.change_no'),
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  created boolean NOT NULL,
  deleted_at bigint,
  first_event bigint,
  last_event bigint,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
