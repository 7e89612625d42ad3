-- Format version 2. An item that stands in no list, and goes with the record of its turn, is marked as loose. The message
-- that a turn answers is not: its turn names it. So an ordinary turn never touches the index of loose items, which took a
-- page of the log twice a turn.

DROP INDEX item_loose;
ALTER TABLE item ADD COLUMN loose INTEGER CHECK (loose IS NULL OR (loose = 1 AND seq IS NULL));
UPDATE item SET loose = 1 WHERE seq IS NULL;
CREATE INDEX item_loose ON item (session, turn) WHERE loose IS NOT NULL;
