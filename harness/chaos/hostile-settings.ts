import type { DatabaseServer } from "./database-server.js";
import { type Fault, momentary } from "./fault.js";
import type { World } from "./world.js";

type Settings = Readonly<Record<string, string | number>>;

/** What both servers can be set to, and what a service must not depend on. */
const common: Settings = {
  autocommit: 0,
  completion_type: 1,
  sql_select_limit: 2,
  group_concat_max_len: 4,
  max_sort_length: 64,
  sql_mode: "''",
  time_zone: "'+07:00'",
  sql_big_selects: 0,
  max_join_size: 1,
  sql_safe_updates: 1,
  sql_auto_is_null: 1,
  character_set_client: "latin1",
  character_set_results: "latin1",
  character_set_connection: "latin1",
  collation_connection: "latin1_general_cs",
  collation_server: "latin1_general_cs",
  default_storage_engine: "MEMORY",
  innodb_default_row_format: "COMPACT",
};

/** And what only one of them can. Times are seconds on MariaDB, and milliseconds on MySQL. */
const ofKind: Readonly<Record<DatabaseServer["kind"], Settings>> = {
  mariadb: { tx_isolation: "'READ-UNCOMMITTED'", tx_read_only: 1, max_statement_time: 0.001 },
  mysql: {
    transaction_isolation: "'READ-UNCOMMITTED'",
    transaction_read_only: 1,
    max_execution_time: 1,
    optimizer_switch: "'subquery_to_derived=on'",
    range_optimizer_max_mem_size: 1_000,
  },
};

/**
 * What the server does first in each session of a user without special rights. There, it may also set what its clients
 * say of themselves as they connect, and begin a transaction.
 */
const initConnect = [
  "SET NAMES latin1",
  "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
  "SET SESSION sql_select_limit = 2, autocommit = 0, group_concat_max_len = 4, time_zone = '-11:00'",
  "START TRANSACTION READ ONLY",
].join("; ");

/**
 * The server's settings are changed for all new sessions, and marketd's are ended: once by global settings, and once by
 * `init_connect`. Everything must be right again while the settings stay; they are put back after that.
 */
export function hostileSettings({ primary }: World): Fault[] {
  const settings: Settings = { ...common, ...ofKind[primary.kind] };
  const fault = (name: string, hostile: Settings): Fault => ({
    name,
    excuses: ["ledger"],
    holdMs: momentary,
    inject: async () => {
      // A session of before, because the new ones can do little.
      const session = await primary.connect();
      session.on("error", () => {});
      try {
        for (const [setting, value] of Object.entries(hostile)) await session.query(`SET GLOBAL ${setting} = ${value}`);
        await primary.endSessions(session);
      } finally {
        session.destroy();
      }
    },
    heal: () => {},
    restore: async () => {
      for (const setting of Object.keys(hostile)) await primary.run(`SET GLOBAL ${setting} = DEFAULT`);
    },
  });
  return [
    fault("hostile global settings", settings),
    fault("hostile init_connect", { init_connect: `"${initConnect}"` }),
  ];
}
