-- The key begins with what a page is of, and goes on in its order.
CREATE TABLE candle (
  market_id VARBINARY(128) NOT NULL,
  period_seconds INT UNSIGNED NOT NULL COMMENT '0: a block',
  start_ns BIGINT NOT NULL COMMENT 'of the period',
  first_trade BIGINT UNSIGNED NOT NULL COMMENT 'the id of its first trade',
  last_ns BIGINT NOT NULL COMMENT 'the time of its last trade',
  open VARBINARY(78) NOT NULL,
  high VARBINARY(78) NOT NULL,
  low VARBINARY(78) NOT NULL,
  close VARBINARY(78) NOT NULL,
  volume BIGINT UNSIGNED NOT NULL,
  price_decimals BIGINT UNSIGNED NOT NULL COMMENT 'of the market then: a candle has one scale',
  size_decimals BIGINT NOT NULL,
  PRIMARY KEY (market_id, period_seconds, start_ns, first_trade)
) ENGINE = InnoDB;
