-- Lets several loaders stand by. The one that loads writes its name, and counts while it lives; one that stands by takes
-- over when the count has not moved for a while. Empty: nobody's turn.
-- Invisible, so that INSERT without a list of columns goes on to work in the program before this migration.
ALTER TABLE progress
  ADD COLUMN loader_id VARBINARY(32) NOT NULL DEFAULT '' INVISIBLE,
  ADD COLUMN loader_beat BIGINT UNSIGNED NOT NULL DEFAULT 0 INVISIBLE;
