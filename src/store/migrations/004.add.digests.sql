-- Digests of what the loader wrote, so that `marketd verify` finds any later change. A program before this one writes
-- none: its blocks have NULL here, and the digests begin anew after them.
ALTER TABLE block
  ADD COLUMN account_max INT UNSIGNED NULL INVISIBLE COMMENT 'highest number of an account after the block',
  ADD COLUMN class_max INT UNSIGNED NULL INVISIBLE COMMENT 'highest number of an entry class after the block',
  ADD COLUMN entries_digest VARBINARY(32) NULL INVISIBLE COMMENT 'SHA-256 of its ledger entries as text',
  ADD COLUMN digest VARBINARY(32) NULL INVISIBLE COMMENT 'SHA-256 of this row, its accounts and classes, and the digest before';

-- One row for each table whose rows change: sums of 127-bit hashes of its rows, modulo the prime 2^127 - 1. Written with
-- each transaction of the loader.
CREATE TABLE table_digest (
  table_name VARBINARY(64) NOT NULL PRIMARY KEY,
  row_count BIGINT UNSIGNED NOT NULL,
  row_sum VARBINARY(32) NOT NULL COMMENT 'of all rows, hexadecimal',
  place_sum VARBINARY(32) NOT NULL COMMENT 'each hash times the changed_sequence of its row, hexadecimal'
) ENGINE = InnoDB;
