-- Schema version 4. A process says which agents it can go on with, so that others leave turns of another version of an agent to it
-- (`acquire_served`). A process of version 3 says nothing, and takes over every turn.
ALTER TABLE singletree.node ADD COLUMN serves jsonb;

-- The last batch that called it was one of version 2.
DROP FUNCTION IF EXISTS singletree.check_requirements(text, text, bigint, jsonb);
