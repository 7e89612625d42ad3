-- Schema version 3. Statements of a batch write all rows of a kind at once (the functions), and the tables that every turn
-- writes check no values any more: PostgreSQL reads and plans the expressions of its checks again with each statement. Their
-- rows are written by `apply_batch` alone.

-- Batches of the version before that run end first, and others wait: they lock this table before any other.
LOCK TABLE singletree.lease IN EXCLUSIVE MODE;
ALTER TABLE singletree.session DROP CONSTRAINT IF EXISTS session_check;
ALTER TABLE singletree.field DROP CONSTRAINT IF EXISTS field_check, DROP CONSTRAINT IF EXISTS field_check1,
  DROP CONSTRAINT IF EXISTS field_check2;
ALTER TABLE singletree.item DROP CONSTRAINT IF EXISTS item_check, DROP CONSTRAINT IF EXISTS item_check1;
ALTER TABLE singletree.turn DROP CONSTRAINT IF EXISTS turn_kind_check, DROP CONSTRAINT IF EXISTS turn_status_check;

-- The function `check_requirements` of version 2 stays until the next step: a batch that began before may still call it.
