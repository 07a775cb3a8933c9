-- Up to where `marketd retain` has dropped ledger entries: one row, once it has run. It is written before the entries
-- go, so a statement that reads it together with entries knows of which blocks it has seen all.
CREATE TABLE ledger_retention (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  oldest_height BIGINT UNSIGNED NOT NULL COMMENT 'the oldest block whose entries are kept',
  oldest_time_ns BIGINT NOT NULL COMMENT 'its time'
) ENGINE = InnoDB;
