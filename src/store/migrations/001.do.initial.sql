-- The whole store. Plain SQL that MariaDB 10.11 and later and MySQL 8.0 and later both take.
--
-- Identifiers are VARBINARY: compared by bytes, without padding or case, alike on every server. Integers of up to 256
-- bits (prices, quantities, balances) are decimal text, for DECIMAL ends at 65 digits; they are ordered in the service.
-- `changed_sequence` is the stream sequence number of the end_block that last changed a row: it only grows, also where
-- a block height occurs twice, so `changed_sequence > P` is all that is new to a reader at place P.
-- Every table has a primary key, and nothing leans on auto-increment: the store may live on a cluster.

-- One row: how far the loader is. Written by compare-and-set, so that a second writer fails.
CREATE TABLE progress (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  chain_id VARBINARY(128) NOT NULL,
  stream_sequence BIGINT UNSIGNED NOT NULL COMMENT 'of the last end_block applied, or of the last protocol upgrade',
  height BIGINT UNSIGNED NOT NULL,
  block_time_ns BIGINT NOT NULL,
  pruned_sequence BIGINT UNSIGNED NOT NULL COMMENT 'tombstones with changed_sequence up to this may be gone'
) ENGINE = InnoDB;

CREATE TABLE block (
  height BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  time_ns BIGINT NOT NULL COMMENT 'never below that of the block before',
  stream_sequence BIGINT UNSIGNED NOT NULL COMMENT 'of its last end_block',
  ledger_entries INT UNSIGNED NOT NULL COMMENT 'positions in use',
  KEY block_time (time_ns)
) ENGINE = InnoDB;

CREATE TABLE market (
  market_id VARBINARY(128) NOT NULL PRIMARY KEY,
  changed_sequence BIGINT UNSIGNED NOT NULL,
  body MEDIUMBLOB NOT NULL COMMENT 'vega.Market',
  KEY market_changed (changed_sequence)
) ENGINE = InnoDB;

CREATE TABLE market_data (
  market_id VARBINARY(128) NOT NULL PRIMARY KEY,
  changed_sequence BIGINT UNSIGNED NOT NULL,
  body MEDIUMBLOB NOT NULL COMMENT 'vega.MarketData, timestamp replaced by the block time',
  KEY market_data_changed (changed_sequence)
) ENGINE = InnoDB;

-- One row per market that ever had an order event that counts.
CREATE TABLE market_depth (
  market_id VARBINARY(128) NOT NULL PRIMARY KEY,
  sequence_number BIGINT UNSIGNED NOT NULL,
  published_sequence_number BIGINT UNSIGNED NOT NULL COMMENT 'of the last published update, 0: none',
  changed_sequence BIGINT UNSIGNED NOT NULL,
  KEY market_depth_changed (changed_sequence)
) ENGINE = InnoDB;

-- A vanished level stays a while as a tombstone: volume 0 and no orders.
CREATE TABLE price_level (
  market_id VARBINARY(128) NOT NULL,
  side TINYINT UNSIGNED NOT NULL COMMENT 'vega.Side: 1 buy, 2 sell',
  price VARBINARY(78) NOT NULL,
  volume BIGINT UNSIGNED NOT NULL,
  number_of_orders BIGINT UNSIGNED NOT NULL,
  changed_sequence BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (market_id, side, price),
  KEY price_level_changed (changed_sequence)
) ENGINE = InnoDB;

-- The orders that the book is made of. Only the loader reads them.
CREATE TABLE live_order (
  order_id VARBINARY(128) NOT NULL PRIMARY KEY,
  market_id VARBINARY(128) NOT NULL,
  side TINYINT UNSIGNED NOT NULL,
  price VARBINARY(78) NOT NULL,
  remaining BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

CREATE TABLE last_trade (
  market_id VARBINARY(128) NOT NULL PRIMARY KEY,
  changed_sequence BIGINT UNSIGNED NOT NULL,
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
  KEY last_trade_changed (changed_sequence)
) ENGINE = InnoDB;

-- Accounts are numbered by the loader in the order in which the network first names them, from 1. Readers hold them in
-- memory and fetch those with higher numbers, so a number is never used again.
CREATE TABLE account (
  account_id INT UNSIGNED NOT NULL PRIMARY KEY,
  party_id VARBINARY(128) NOT NULL COMMENT '`network` where the event names no owner',
  asset_id VARBINARY(128) NOT NULL,
  market_id VARBINARY(128) NOT NULL COMMENT 'empty: none',
  type INT NOT NULL,
  UNIQUE KEY account_identity (party_id, asset_id, market_id, type)
) ENGINE = InnoDB;

-- What a ledger entry is apart from its parties: asset, market and account type of both sides, and the transfer type.
-- There are few classes, however many entries and parties. A filter that names no party selects whole classes; one that
-- names a party selects (account, class) pairs: so every filter is a merge of exact ranges of the indexes of
-- ledger_entry (docs/architecture.md). Numbered like accounts: in the order in which the network first makes such an
-- entry, from 1.
CREATE TABLE entry_class (
  class_id INT UNSIGNED NOT NULL PRIMARY KEY,
  from_asset_id VARBINARY(128) NOT NULL,
  from_market_id VARBINARY(128) NOT NULL,
  from_type INT NOT NULL,
  to_asset_id VARBINARY(128) NOT NULL,
  to_market_id VARBINARY(128) NOT NULL,
  to_type INT NOT NULL,
  transfer_type INT NOT NULL,
  UNIQUE KEY entry_class_identity (
    from_asset_id, from_market_id, from_type, to_asset_id, to_market_id, to_type, transfer_type
  )
) ENGINE = InnoDB;

-- The id is the place: block height * 2^24 + position in the block (src/domain/block-position.ts).
-- The account indexes end with the other account, so that two parties' common entries are found without their rows.
CREATE TABLE ledger_entry (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  from_account INT UNSIGNED NOT NULL,
  to_account INT UNSIGNED NOT NULL,
  class_id INT UNSIGNED NOT NULL,
  transfer_type INT NOT NULL COMMENT 'that of the class',
  time_ns BIGINT NOT NULL COMMENT 'block time',
  quantity VARBINARY(78) NOT NULL,
  from_balance VARBINARY(78) NOT NULL,
  to_balance VARBINARY(78) NOT NULL,
  KEY ledger_entry_class (class_id, id),
  KEY ledger_entry_from (from_account, class_id, id, to_account),
  KEY ledger_entry_to (to_account, class_id, id, from_account)
) ENGINE = InnoDB;

-- An index for each way to filter: rows are few and rarely written, and every page is then one range of one index.
CREATE TABLE signer_removed_bundle (
  signature_id VARBINARY(128) NOT NULL PRIMARY KEY,
  node_id VARBINARY(128) NOT NULL,
  submitter VARBINARY(128) NOT NULL COMMENT 'lower case',
  old_signer VARBINARY(128) NOT NULL COMMENT 'lower case',
  nonce VARBINARY(128) NOT NULL,
  time_ns BIGINT NOT NULL COMMENT 'the event''s own',
  epoch_seq VARBINARY(128) NOT NULL COMMENT 'as the event gives it',
  epoch VARBINARY(128) NOT NULL COMMENT 'epoch_seq without leading zeros',
  KEY bundle_by (time_ns, signature_id),
  KEY bundle_by_node (node_id, time_ns, signature_id),
  KEY bundle_by_submitter (submitter, time_ns, signature_id),
  KEY bundle_by_epoch (epoch, time_ns, signature_id),
  KEY bundle_by_node_submitter (node_id, submitter, time_ns, signature_id),
  KEY bundle_by_node_epoch (node_id, epoch, time_ns, signature_id),
  KEY bundle_by_submitter_epoch (submitter, epoch, time_ns, signature_id),
  KEY bundle_by_node_submitter_epoch (node_id, submitter, epoch, time_ns, signature_id)
) ENGINE = InnoDB;

-- Signatures come before or after the bundle they belong to.
CREATE TABLE node_signature (
  signature_id VARBINARY(128) NOT NULL,
  signature VARBINARY(1024) NOT NULL,
  kind INT NOT NULL,
  PRIMARY KEY (signature_id, signature)
) ENGINE = InnoDB;
