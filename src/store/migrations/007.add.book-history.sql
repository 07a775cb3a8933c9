-- The past of every book, and every trade. A segment holds a market's book from `first_sequence` until the next one
-- begins; see docs/internals.md, "The past of books". "Sequence" is the stream sequence number of a block's end.
-- Invisible, so that INSERT without a list of columns goes on to work in the program before this migration.
ALTER TABLE progress
  ADD COLUMN history_sequence BIGINT UNSIGNED NOT NULL DEFAULT 0 INVISIBLE COMMENT 'up to which the past is written, 0: never';

ALTER TABLE block ADD KEY block_sequence (stream_sequence);

CREATE TABLE book_segment (
  market_id VARBINARY(128) NOT NULL,
  first_sequence BIGINT UNSIGNED NOT NULL,
  state TINYINT UNSIGNED NOT NULL COMMENT '0 goes on from the one before, 1 begins anew, 2 stale, 3 not kept',
  height BIGINT UNSIGNED NOT NULL COMMENT 'of the block; of state 3 that of the last one that is kept',
  time_ns BIGINT NOT NULL COMMENT 'the time of that block',
  published_sequence_number BIGINT UNSIGNED NOT NULL COMMENT 'of the last published update as of first_sequence',
  price_decimals BIGINT UNSIGNED NOT NULL COMMENT 'of the market as of first_sequence',
  size_decimals BIGINT NOT NULL,
  keyframe_levels INT UNSIGNED NOT NULL,
  digest VARBINARY(32) NULL COMMENT 'of its decoded content and the digest before; NULL: the newest, which grows',
  PRIMARY KEY (market_id, first_sequence)
) ENGINE = InnoDB;

-- The deflated keyframe (parts from 0 on) and the deflated changes (from 32768 on), cut into pieces that fill pages.
CREATE TABLE book_segment_part (
  market_id VARBINARY(128) NOT NULL,
  first_sequence BIGINT UNSIGNED NOT NULL,
  part INT UNSIGNED NOT NULL,
  body BLOB NOT NULL COMMENT 'at most 1200 bytes',
  PRIMARY KEY (market_id, first_sequence, part)
) ENGINE = InnoDB;

-- The updates of each market's newest segment.
CREATE TABLE book_change (
  market_id VARBINARY(128) NOT NULL,
  stream_sequence BIGINT UNSIGNED NOT NULL,
  body MEDIUMBLOB NOT NULL,
  PRIMARY KEY (market_id, stream_sequence)
) ENGINE = InnoDB;

-- The oldest and newest segment of each market, and the digests at both ends of their chain.
CREATE TABLE book_history (
  market_id VARBINARY(128) NOT NULL PRIMARY KEY,
  oldest_sequence BIGINT UNSIGNED NOT NULL,
  oldest_digest VARBINARY(32) NOT NULL COMMENT 'of the segment before the oldest; empty: there was none',
  newest_sequence BIGINT UNSIGNED NOT NULL,
  newest_digest VARBINARY(32) NOT NULL COMMENT 'of the newest as it began'
) ENGINE = InnoDB;

-- The id is the place: block height * 2^24 + position in the block. A last trade from before the past was written
-- counts down from the end of its block.
CREATE TABLE trade (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  market_id VARBINARY(128) NOT NULL,
  trade_id VARBINARY(128) NOT NULL,
  price VARBINARY(78) NOT NULL,
  size BIGINT UNSIGNED NOT NULL,
  buyer VARBINARY(128) NOT NULL,
  seller VARBINARY(128) NOT NULL,
  aggressor INT NOT NULL,
  buy_order VARBINARY(128) NOT NULL,
  sell_order VARBINARY(128) NOT NULL,
  time_ns BIGINT NOT NULL COMMENT 'block time',
  type INT NOT NULL,
  buyer_maker_fee VARBINARY(78) NOT NULL,
  buyer_infrastructure_fee VARBINARY(78) NOT NULL,
  buyer_liquidity_fee VARBINARY(78) NOT NULL,
  seller_maker_fee VARBINARY(78) NOT NULL,
  seller_infrastructure_fee VARBINARY(78) NOT NULL,
  seller_liquidity_fee VARBINARY(78) NOT NULL,
  buyer_auction_batch BIGINT UNSIGNED NOT NULL,
  seller_auction_batch BIGINT UNSIGNED NOT NULL,
  KEY trade_market (market_id, id)
) ENGINE = InnoDB;

-- As table_digest, for the tables above and history_sequence: a table of its own, because earlier programs leave it as
-- it is, and take unknown rows of table_digest for damage.
CREATE TABLE history_digest (
  table_name VARBINARY(64) NOT NULL PRIMARY KEY,
  row_count BIGINT UNSIGNED NOT NULL,
  row_sum VARBINARY(32) NOT NULL,
  place_sum VARBINARY(32) NOT NULL
) ENGINE = InnoDB;
