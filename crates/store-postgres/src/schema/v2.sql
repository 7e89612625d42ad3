-- Schema version 2. A process that is silent for a whole lease is removed from the owners by the one that takes a session of it,
-- and the database's clock decides nothing any more (the functions). A process of version 1 may run beside those of version 2:
-- it also ends its lease itself when its time has passed.

-- The oldest version whose processes may use the tables and functions as they are now.
ALTER TABLE singletree.meta ADD COLUMN works_with integer NOT NULL DEFAULT 1;
