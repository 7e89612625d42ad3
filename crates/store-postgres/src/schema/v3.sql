-- Schema version 3. Statements of a batch write all rows of a kind at once (the functions), and the tables that every turn
-- writes check no values any more: PostgreSQL reads and plans the expressions of its checks again with each statement. Their
-- rows are written by `apply_batch` alone.

ALTER TABLE singletree.session DROP CONSTRAINT session_check;
ALTER TABLE singletree.field DROP CONSTRAINT field_check, DROP CONSTRAINT field_check1, DROP CONSTRAINT field_check2;
ALTER TABLE singletree.item DROP CONSTRAINT item_check, DROP CONSTRAINT item_check1;
ALTER TABLE singletree.turn DROP CONSTRAINT turn_kind_check, DROP CONSTRAINT turn_status_check;
