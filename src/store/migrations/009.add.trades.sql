-- The indexes end with what a page is filtered by, so that only the rows of the page are read.
ALTER TABLE trade
  ADD KEY trade_buyer (buyer, id, market_id),
  ADD KEY trade_seller (seller, id, market_id),
  ADD KEY trade_buy_order (buy_order, id),
  ADD KEY trade_sell_order (sell_order, id);

-- One row: which trades are there. A program before it does not move it.
CREATE TABLE trade_progress (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  stream_sequence BIGINT UNSIGNED NOT NULL COMMENT 'up to which trades are written',
  oldest_height BIGINT UNSIGNED NOT NULL COMMENT 'the first block from which on all are there, 0: of any',
  oldest_time_ns BIGINT NOT NULL
) ENGINE = InnoDB;
