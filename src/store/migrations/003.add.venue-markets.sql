-- Markets whose venue publishes price levels and not orders: what the loader needs to go on with them, and whether
-- their books are right. Levels and numbers are in price_level and market_depth, as those of all markets; a row here
-- changes only with that of market_depth.
CREATE TABLE venue_market (
  market_id VARBINARY(128) NOT NULL PRIMARY KEY,
  price_decimals TINYINT UNSIGNED NOT NULL,
  size_decimals TINYINT UNSIGNED NOT NULL,
  depth_max INT UNSIGNED NOT NULL COMMENT 'levels a side, 0: all',
  checksum_algorithm INT NOT NULL COMMENT 'marketd.events.v1.ChecksumAlgorithm',
  venue_sequence BIGINT UNSIGNED NULL COMMENT 'the venue''s own number of the last update in the book; NULL: none',
  stale TINYINT UNSIGNED NOT NULL COMMENT '1: the book is not right before the next snapshot'
) ENGINE = InnoDB;
