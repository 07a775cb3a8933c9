CREATE TABLE asset (
  asset_id VARBINARY(128) NOT NULL PRIMARY KEY,
  changed_sequence BIGINT UNSIGNED NOT NULL,
  body MEDIUMBLOB NOT NULL COMMENT 'vega.Asset',
  KEY asset_changed (changed_sequence)
) ENGINE = InnoDB;
