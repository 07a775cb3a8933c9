-- Names the store, so that readers notice when a database is dropped and another chain, or the same one, is loaded into
-- it. The loader writes a random name with the first block: a literal, because a default that each server computes would
-- give every replica of a statement-based replication another one. Empty: not named yet.
-- Invisible, so that INSERT without a list of columns goes on to work in the program before this migration.
ALTER TABLE progress ADD COLUMN store_id VARBINARY(32) NOT NULL DEFAULT '' INVISIBLE;
