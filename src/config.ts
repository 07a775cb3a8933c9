import { isIP } from "node:net";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { nanoseconds } from "./domain/instant.js";
import { type LogLevel, logLevels } from "./telemetry/log.js";

/** The database: a URL, a file that holds one, or the private MariaDB under the data directory. */
export type DatabaseChoice =
  | { readonly kind: "url"; readonly url: string }
  | { readonly kind: "url_file"; readonly path: string }
  | { readonly kind: "embedded"; readonly dataDir: string };

/** Settings of every command that uses the database. */
export interface DatabaseConfig {
  readonly database: DatabaseChoice;
  readonly logLevel: LogLevel;
}

/** An address to listen on. */
export interface Listen {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** A network: an address and the number of leading bits that name the network. */
export interface Network {
  readonly address: string;
  readonly prefixBits: number;
}

/** Settings of a serving process, besides its database. */
export interface ServiceConfig {
  readonly listen: Listen;
  /** A separate listener for health, readiness and metrics; metrics then leave the public port. */
  readonly adminListen: Listen | undefined;
  /** Empty, or `/prefix` without a trailing slash. */
  readonly basePath: string;
  readonly tls: { readonly certificatePath: string; readonly keyPath: string } | undefined;
  readonly corsOrigins: readonly string[];
  /** Proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly Network[];
  /** 0: one per core. */
  readonly workers: number;
  /** `--tuning` is given, which this release accepts and ignores. */
  readonly namesTuning?: boolean;
  readonly pollIntervalMs: number;
  readonly heartbeatMs: number;
  readonly stalledReaderMs: number;
  readonly streamsMax: number;
  readonly streamsPerAddressMax: number;
  readonly requestTimeoutMs: number;
  readonly drainMs: number;
}

/** `serve` */
export interface ServeConfig extends DatabaseConfig, ServiceConfig {}

/** `load` */
export interface LoadConfig extends DatabaseConfig {
  /** File paths, `-` for standard input, or `kafka://` URLs. */
  readonly sources: readonly string[];
  readonly follow: boolean;
  /** Take turns with other loaders. */
  readonly standby: boolean;
  /** Where it answers for health and metrics. */
  readonly adminListen: Listen | undefined;
  /** Blocks per second; undefined: as fast as possible. */
  readonly pace: number | undefined;
}

/** `retain` */
export interface RetainConfig extends DatabaseConfig {
  /** How long ledger entries are kept, in nanoseconds of block time. */
  readonly keepNs: bigint;
}

/** `verify` */
export interface VerifyConfig extends DatabaseConfig {
  readonly renewDigests: boolean;
}

/** `simulate` */
export interface SimulateConfig {
  readonly blocks: number;
  readonly markets: number;
  readonly parties: number;
  readonly ordersPerBlock: number;
  readonly entriesPerBlock: number;
  readonly seed: number;
  /** A file path, or `-` for standard output. */
  readonly out: string;
}

/** `demo` */
export interface DemoConfig extends DatabaseConfig, ServiceConfig {
  readonly seed: number;
}

/** `watch` */
export interface WatchConfig {
  /** The server's URL with its base path, without a slash at its end. */
  readonly server: string;
  /** A market's id, code or name, or the beginning of an id. */
  readonly market: string;
  readonly once: boolean;
  /** Levels of each side; 0: as many as fit, or all. */
  readonly maxDepth: number;
}

/** `export` */
export interface ExportConfig {
  readonly server: string;
  readonly partyId: string;
  readonly assetId: string;
  readonly startNs: bigint | undefined;
  readonly endNs: bigint | undefined;
  /** A file path, or `-` for standard output; undefined: a name made of party and asset. */
  readonly out: string | undefined;
  /** Whether a file of that name may be replaced; one that `out` names always is. */
  readonly force: boolean;
  readonly giveUpMs: number;
}

/** `status` */
export interface StatusConfig {
  readonly server: string;
  readonly json: boolean;
  readonly timeoutMs: number;
}

/** What each command does with its settings. */
export interface Commands {
  serve(config: ServeConfig): Promise<void>;
  load(config: LoadConfig): Promise<void>;
  migrate(config: DatabaseConfig): Promise<void>;
  verify(config: VerifyConfig): Promise<void>;
  retain(config: RetainConfig): Promise<void>;
  simulate(config: SimulateConfig): Promise<void>;
  demo(config: DemoConfig): Promise<void>;
  watch(config: WatchConfig): Promise<void>;
  export(config: ExportConfig): Promise<void>;
  status(config: StatusConfig): Promise<void>;
}

/** A mistake in the arguments or the environment; the message says what to change. */
export class UsageError extends Error {}

/** The environment variable of a flag: MARKETD_DATABASE_URL for `--database-url`. */
function environmentName(flag: string): string {
  return `MARKETD_${flag.replace(/^--/, "").replaceAll("-", "_").toUpperCase()}`;
}

type Values = Record<string, unknown>;

/** A flag without a value. Commander would treat any text in the environment, including `false`, as set. */
function toggle(flag: string, description: string): Option {
  const name = environmentName(flag);
  const text = process.env[name] ?? "";
  if (!["", "true", "false"].includes(text)) throw new UsageError(`${name} is "${text}"; it takes true or false`);
  return new Option(flag, `${description} (env: ${name})`).default(text === "true");
}

function setting(flag: string, value: string, description: string): Option {
  return new Option(`${flag} <${value}>`, description).env(environmentName(flag));
}

function wholeNumber(flag: string, value: string, description: string, fallback: number, min: number, max: number) {
  return setting(flag, value, description)
    .default(fallback)
    .argParser((text) => {
      const number = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
      if (!(number >= min && number <= max))
        throw new InvalidArgumentError(`It takes a whole number from ${min} to ${max}.`);
      return number;
    });
}

function parseListen(text: string): Listen {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):([0-9]{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new InvalidArgumentError("It looks like 127.0.0.1:8080 or [::1]:8080; port 0 takes any free port.");
  }
  return { host: match[1] ?? (match[2] === "" ? "::" : (match[2] ?? "::")), port };
}

function parseBasePath(text: string): string {
  if (text === "" || text === "/") return "";
  if (!/^(\/[A-Za-z0-9._~-]+)+$/.test(text))
    throw new InvalidArgumentError("It looks like /prefix, without a slash at its end.");
  return text;
}

function parsePace(text: string): number {
  const pace = Number(text);
  if (text.trim() === "" || !(pace > 0 && pace <= 1_000_000)) {
    throw new InvalidArgumentError("It takes blocks per second, above 0 and at most 1000000.");
  }
  return pace;
}

const nsPerUnit = { d: 86_400_000_000_000n, h: 3_600_000_000_000n, m: 60_000_000_000n } as const;

function parseKeep(text: string): bigint {
  const [, count = "", unit] = /^([1-9][0-9]{0,5})([dhm])$/.exec(text) ?? [];
  if (unit !== "d" && unit !== "h" && unit !== "m") {
    throw new InvalidArgumentError("It takes a whole number of days, hours or minutes, such as 90d, 36h or 30m.");
  }
  return BigInt(count) * nsPerUnit[unit];
}

function parseOrigins(text: string): readonly string[] {
  const origins = text
    .split(",")
    .map((origin) => origin.trim())
    .filter((origin) => origin !== "");
  for (const origin of origins) {
    if (origin !== "*" && (!URL.canParse(origin) || new URL(origin).origin !== origin)) {
      throw new InvalidArgumentError(`"${origin}" is not an origin; one looks like https://example.org, or * for all.`);
    }
  }
  return origins;
}

function parseNetworks(text: string): readonly Network[] {
  return text.trim() === "" ? [] : text.split(",").map((entry) => parseNetwork(entry.trim()));
}

function parseNetwork(text: string): Network {
  const [, address = "", bits] = /^([^/%]+)(?:\/([0-9]{1,3}))?$/.exec(text) ?? [];
  const family = isIP(address);
  const bitsMax = family === 6 ? 128 : 32;
  const prefixBits = Number(bits ?? bitsMax);
  if (family === 0 || prefixBits > bitsMax) {
    throw new InvalidArgumentError(
      `"${text}" is not an address or network; they look like 10.0.0.0/8, 192.0.2.1 or fd00::/8.`,
    );
  }
  return { address, prefixBits };
}

function addDatabase(command: Command, dataDirDescription: string, level: LogLevel): Command {
  return command
    .addOption(
      setting(
        "--database-url",
        "url",
        "the database, as mysql://user:password@host:3306/name (TLS: ?ssl-mode=verify-identity; a socket: ?socket=/path)",
      ),
    )
    .addOption(
      setting(
        "--database-url-file",
        "file",
        "a file whose first line is that URL; unlike flags, other users cannot see it",
      ),
    )
    .addOption(toggle("--embedded", "use a private MariaDB under the data directory, started on demand"))
    .addOption(setting("--data-dir", "directory", dataDirDescription).default(".marketd"))
    .addOption(setting("--log-level", "level", "how much to log on standard error").choices(logLevels).default(level));
}

function addService(command: Command, workers: number): Command {
  const listen = setting("--listen", "host:port", "address to listen on").default(
    { host: "127.0.0.1", port: 8080 },
    "127.0.0.1:8080",
  );
  return command
    .addOption(listen.argParser(parseListen))
    .addOption(adminListenSetting("a separate listener for health and metrics"))
    .addOption(
      setting("--base-path", "path", "a prefix of the API's URLs, such as /prefix")
        .default("", "none")
        .argParser(parseBasePath),
    )
    .addOption(setting("--tls-certificate", "file", "certificate chain in PEM; enables TLS, needs --tls-key"))
    .addOption(setting("--tls-key", "file", "private key in PEM"))
    .addOption(
      setting("--cors-origins", "origins", "origins whose pages may read responses, separated by commas; *: all")
        .default(["*"], "*")
        .argParser(parseOrigins),
    )
    .addOption(
      setting(
        "--trusted-proxies",
        "networks",
        "proxies whose X-Forwarded-For is trusted, separated by commas, such as 10.0.0.0/8",
      )
        .default([], "none")
        .argParser(parseNetworks),
    )
    .addOption(wholeNumber("--workers", "n", "serving processes; 0: one per core", workers, 0, 256))
    .addOption(setting("--tuning", "any", "ignored; the next release refuses it").hideHelp())
    .addOption(wholeNumber("--poll-interval-ms", "ms", "interval between polls for new blocks", 25, 1, 60_000))
    .addOption(wholeNumber("--heartbeat-ms", "ms", "longest silence on a stream", 15_000, 10, 3_600_000))
    .addOption(
      wholeNumber(
        "--stalled-reader-ms",
        "ms",
        "disconnect a reader that takes nothing for this long",
        300_000,
        100,
        86_400_000,
      ),
    )
    .addOption(wholeNumber("--streams-max", "n", "open streams of a process", 20_000, 1, 1_000_000))
    .addOption(wholeNumber("--streams-per-address-max", "n", "open streams of one client address", 1_000, 1, 1_000_000))
    .addOption(wholeNumber("--request-timeout-ms", "ms", "longest time for a unary request", 30_000, 10, 3_600_000))
    .addOption(wholeNumber("--drain-ms", "ms", "longest wait for clients after SIGTERM", 10_000, 0, 3_600_000));
}

/** The ways to name the database; only one may be given. */
const databaseFlags = {
  databaseUrl: "--database-url",
  databaseUrlFile: "--database-url-file",
  embedded: "--embedded",
} as const;

/** The flag that is given, or otherwise the environment variable. */
function databaseFlag(command: Command): keyof typeof databaseFlags | undefined {
  const values: Values = command.opts();
  const names = Object.keys(databaseFlags) as (keyof typeof databaseFlags)[];
  const given = names.filter((name) => values[name] !== undefined && values[name] !== false);
  const flags = given.filter((name) => command.getOptionValueSource(name) === "cli");
  const [first, second] = flags.length > 0 ? flags : given;
  if (first !== undefined && second !== undefined) {
    throw new UsageError(`both ${databaseFlags[first]} and ${databaseFlags[second]} are given; give one of them`);
  }
  return first;
}

function databaseConfig(command: Command, embeddedByDefault: boolean): DatabaseConfig {
  const values: Values = command.opts();
  const logLevel = values["logLevel"] as LogLevel;
  switch (databaseFlag(command) ?? (embeddedByDefault ? "embedded" : undefined)) {
    case "databaseUrl":
      return { database: { kind: "url", url: values["databaseUrl"] as string }, logLevel };
    case "databaseUrlFile":
      return { database: { kind: "url_file", path: values["databaseUrlFile"] as string }, logLevel };
    case "embedded":
      return { database: { kind: "embedded", dataDir: values["dataDir"] as string }, logLevel };
    default:
      throw new UsageError(
        "no database: name one with --database-url (MARKETD_DATABASE_URL), or use a private one with --embedded (MARKETD_EMBEDDED=true)",
      );
  }
}

function serviceConfig(values: Values): ServiceConfig {
  const certificatePath = values["tlsCertificate"] as string | undefined;
  const keyPath = values["tlsKey"] as string | undefined;
  if ((certificatePath === undefined) !== (keyPath === undefined)) {
    throw new UsageError("TLS takes both --tls-certificate and --tls-key");
  }
  return {
    listen: values["listen"] as Listen,
    adminListen: values["adminListen"] as Listen | undefined,
    basePath: values["basePath"] as string,
    tls: certificatePath === undefined || keyPath === undefined ? undefined : { certificatePath, keyPath },
    corsOrigins: values["corsOrigins"] as readonly string[],
    trustedProxies: values["trustedProxies"] as readonly Network[],
    workers: values["workers"] as number,
    namesTuning: values["tuning"] !== undefined,
    pollIntervalMs: values["pollIntervalMs"] as number,
    heartbeatMs: values["heartbeatMs"] as number,
    stalledReaderMs: values["stalledReaderMs"] as number,
    streamsMax: values["streamsMax"] as number,
    streamsPerAddressMax: values["streamsPerAddressMax"] as number,
    requestTimeoutMs: values["requestTimeoutMs"] as number,
    drainMs: values["drainMs"] as number,
  };
}

function serveCommand(commands: Commands): Command {
  const command = new Command("serve")
    .summary("serve clients")
    .description(
      "Serves the database over gRPC, gRPC-Web, Connect, HTTP with JSON, server-sent events and WebSockets on one port.",
    );
  addService(addDatabase(command, "the directory of the private MariaDB", "info"), 0);
  return command.action(async () => {
    await commands.serve(Object.freeze({ ...databaseConfig(command, false), ...serviceConfig(command.opts()) }));
  });
}

function adminListenSetting(description: string): Option {
  return setting("--admin-listen", "host:port", description).default(undefined, "none").argParser(parseListen);
}

const loadExamples = `
For example: marketd simulate --blocks 1000 | marketd load --embedded -
             marketd load --follow --standby kafka://broker:9092,other:9092/events
             marketd load --follow 'kafka://broker:9093/events?ssl-mode=verify-identity&sasl=scram-sha-512&user=marketd&password-file=/etc/marketd/kafka-password'
Parameters of kafka:// are partition, ssl-mode and ssl-ca (as in --database-url), sasl (plain, scram-sha-256,
scram-sha-512), user, and password-file, the path of a file whose first line is the password.`;

function loadCommand(commands: Commands): Command {
  const command = new Command("load")
    .summary("fill the database from recordings")
    .description(
      "Loads a network's event stream, in the order given: recordings (plain or gzipped files, or - for standard input), " +
        "and topics of Kafka (kafka://host:9092,host:9092/topic). " +
        "A stopped load continues where it stopped. Loading a recording again changes nothing.",
    );
  addDatabase(command, "the directory of the private MariaDB", "info")
    .addOption(toggle("--follow", "wait for more at the end of the last source"))
    .addOption(
      setting("--pace", "blocks-per-second", "replay at this pace instead of as fast as possible").argParser(parsePace),
    )
    .addOption(toggle("--standby", "wait while another loader runs, and take over when it is gone"))
    .addOption(adminListenSetting("a listener for health and metrics"))
    .argument("<source...>", "recordings and topics, in order")
    .addHelpText("after", loadExamples);
  return command.action(async (sources: string[]) => {
    const values: Values = command.opts();
    const standby = values["standby"] === true;
    if (standby && sources.includes("-")) {
      throw new UsageError("--standby reads its sources again at each turn, which standard input (-) cannot be");
    }
    await commands.load(
      Object.freeze({
        ...databaseConfig(command, false),
        sources,
        follow: values["follow"] === true,
        standby,
        adminListen: values["adminListen"] as Listen | undefined,
        pace: values["pace"] as number | undefined,
      }),
    );
  });
}

function migrateCommand(commands: Commands): Command {
  const command = new Command("migrate")
    .summary("bring the database's tables up to date")
    .description(
      "Creates the database if it does not exist, and applies missing migrations. `load` and `demo` do the same first.",
    );
  addDatabase(command, "the directory of the private MariaDB", "warn");
  return command.action(async () => {
    await commands.migrate(Object.freeze(databaseConfig(command, false)));
  });
}

function verifyCommand(commands: Commands): Command {
  const command = new Command("verify")
    .summary("check that the database equals what was loaded")
    .description(
      "Compares every row with the digests that `load` wrote, and checks balances, books and blocks. It only reads, and " +
        "may run beside `load` and `serve`. It finds damage and accidents, not changes that rewrite the digests too.",
    )
    .addHelpText(
      "after",
      "\nExits with 0 if everything is right, with 1 for findings, with 4 if it could not check everything.",
    );
  addDatabase(command, "the directory of the private MariaDB", "warn").addOption(
    toggle(
      "--renew-digests",
      "first make all digests anew of the rows that there are; while nobody loads, and with the rights of load",
    ),
  );
  return command.action(async () => {
    const renewDigests = command.opts()["renewDigests"] === true;
    await commands.verify(Object.freeze({ ...databaseConfig(command, false), renewDigests }));
  });
}

function retainCommand(commands: Commands): Command {
  const command = new Command("retain")
    .summary("drop old ledger entries")
    .description(
      "Drops the ledger entries of blocks that are older than the newest block by more than --keep. `serve` and `load` " +
        "keep running. The next run finishes one that was stopped. Run it as often as entries should be dropped.",
    );
  addDatabase(command, "the directory of the private MariaDB", "warn").addOption(
    setting("--keep", "time", "how long entries are kept: 90d, 36h or 30m before the newest block")
      .argParser(parseKeep)
      .makeOptionMandatory(),
  );
  return command.action(async () => {
    const keepNs = command.opts()["keep"] as bigint;
    await commands.retain(Object.freeze({ ...databaseConfig(command, false), keepNs }));
  });
}

function seedOption(): Option {
  return wholeNumber(
    "--seed",
    "n",
    "seed of the random numbers; the same seed gives the same network",
    1,
    0,
    4_294_967_295,
  );
}

function simulateCommand(commands: Commands): Command {
  const command = new Command("simulate")
    .summary("write the recording of a simulated network")
    .description("Writes a recording of a small trading network. The same settings give the same bytes.")
    .addOption(wholeNumber("--blocks", "n", "blocks to write", 1_000, 1, 1_000_000_000))
    .addOption(wholeNumber("--markets", "n", "markets", 12, 1, 100_000))
    .addOption(wholeNumber("--parties", "n", "trading parties", 50, 2, 10_000_000))
    .addOption(wholeNumber("--orders-per-block", "n", "order events in a block, on average", 20, 0, 1_000_000))
    .addOption(wholeNumber("--entries-per-block", "n", "additional ledger entries in a block", 10, 0, 10_000_000))
    .addOption(seedOption())
    .addOption(setting("--out", "file", "where to write, - for standard output; .gz is gzipped").default("-"));
  return command.action(async () => {
    await commands.simulate(Object.freeze(command.opts<SimulateConfig>()));
  });
}

function demoCommand(commands: Commands): Command {
  const command = new Command("demo")
    .summary("run a live demo on a private database")
    .description(
      "Starts a private MariaDB, a simulated network with a block per second, and the service. Prints calls to paste.",
    );
  addService(addDatabase(command, "the directory of the private MariaDB", "warn"), 1).addOption(seedOption());
  return command.action(async () => {
    const values: Values = command.opts();
    const config = { ...databaseConfig(command, true), ...serviceConfig(values), seed: values["seed"] as number };
    await commands.demo(Object.freeze(config));
  });
}

/** The largest time that the API takes. */
const timeMaxNs = 2n ** 63n - 1n;

function parseTime(text: string): bigint {
  const time = BigInt(nanoseconds(text) ?? -1);
  if (time < 0n || time > timeMaxNs) {
    throw new InvalidArgumentError(
      "It looks like 2023-01-18, 2023-01-18T01:09:55.425088123Z (UTC) or 1674004195425088123 (Unix nanoseconds).",
    );
  }
  return time;
}

function parseServer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBase = url?.search === "" && url.hash === "" && url.username === "" && url.password === "";
  if (url === undefined || !isBase || !/^https?:$/.test(url.protocol)) {
    throw new InvalidArgumentError("It looks like http://127.0.0.1:8080 or https://example.org/prefix.");
  }
  return url.href.replace(/\/+$/, "");
}

function serverOption(): Option {
  return setting("--server", "url", "the server to ask, with its base path if it has one")
    .default("http://127.0.0.1:8080")
    .argParser(parseServer);
}

function watchCommand(commands: Commands): Command {
  const command = new Command("watch")
    .summary("a market's order book, live in the terminal")
    .description(
      "Shows a market's order book as it changes: asks above, bids below, the spread between them. It reconnects by itself " +
        "after an outage, and shows since when the book is out of date. If the output is not a terminal, it is a " +
        "line for each change. The key q ends it.",
    )
    .argument("<market>", "the market's id, its code or name, or as much of its id's beginning as is unique")
    .addOption(serverOption())
    .addOption(toggle("--once", "print the book as it is now, and end"))
    .addOption(wholeNumber("--max-depth", "n", "levels of each side; 0: as many as fit, or all", 0, 0, 1_000_000))
    .addHelpText(
      "after",
      `
For example:
  marketd watch BTC/USD                           the market with this code or name, at 127.0.0.1:8080
  marketd watch 6d4f1c                            the market whose id begins so
  marketd watch 6d4f1c --once --max-depth 5       its best five levels, once
  marketd watch 6d4f1c | grep --line-buffered -o 'bid=[^ ]*'
  marketd watch 6d4f1c --server https://example.org

NO_COLOR=1 in the environment takes the colours away.`,
    );
  return command.action(async (market: string) => {
    const values: Values = command.opts();
    const { server, once, maxDepth } = values as { server: string; once: boolean; maxDepth: number };
    await commands.watch(Object.freeze({ server, market, once, maxDepth }));
  });
}

function exportCommand(commands: Commands): Command {
  const command = new Command("export")
    .summary("a party's ledger entries as a verified CSV file")
    .description(
      "Writes the ledger entries of a party and an asset as CSV, oldest first, up to the newest block. It reads slices of " +
        "time, each of which counts only when rows, sum of effects and SHA-256 are those that the server states. A " +
        "connection that breaks costs one slice. FILE appears when all of it is verified; until then there are FILE.part " +
        "and FILE.part.json, from which the same command continues after an interruption.",
    )
    .addOption(serverOption())
    .addOption(setting("--party", "id", "entries that this party's accounts pay or receive").makeOptionMandatory())
    .addOption(setting("--asset", "id", "of this asset").makeOptionMandatory())
    .addOption(setting("--start", "time", "only from this block time on").argParser(parseTime))
    .addOption(setting("--end", "time", "only before this block time").argParser(parseTime))
    .addOption(setting("--out", "file", "where to write, - for standard output; else ledger-PARTY-ASSET.csv"))
    .addOption(toggle("--force", "replace a file of that name; one that --out names is replaced in any case"))
    .addOption(wholeNumber("--give-up-ms", "ms", "how long to try again while nothing arrives", 300_000, 0, 86_400_000))
    .addHelpText(
      "after",
      `
For example:
  marketd export --party 8b3a --asset usd                   into ledger-8b3a-usd.csv
  marketd export --party 8b3a --asset usd --start 2023-01-01 --end 2024-01-01 --out 2023.csv
  marketd export --party 8b3a --asset usd --out - | gzip > ledger.csv.gz`,
    );
  return command.action(async () => {
    const values: Values = command.opts();
    const [startNs, endNs] = [values["start"] as bigint | undefined, values["end"] as bigint | undefined];
    if (startNs !== undefined && endNs !== undefined && startNs > endNs) {
      throw new UsageError("--start is after --end");
    }
    await commands.export(
      Object.freeze({
        server: values["server"] as string,
        partyId: values["party"] as string,
        assetId: values["asset"] as string,
        startNs,
        endNs,
        out: values["out"] as string | undefined,
        force: values["force"] as boolean,
        giveUpMs: values["giveUpMs"] as number,
      }),
    );
  });
}

function statusCommand(commands: Commands): Command {
  const command = new Command("status")
    .summary("how a server is, on one screen")
    .description(
      "Tells whether a server can be reached and is ready, its newest block and how old that is, how many markets it has, " +
        "and, where it shows its metrics, open streams and whether its database answers.",
    )
    .addOption(serverOption())
    .addOption(toggle("--json", "print one JSON object"))
    .addOption(wholeNumber("--timeout-ms", "ms", "how long to wait for each response", 5_000, 1, 3_600_000))
    .addHelpText(
      "after",
      `
For example:
  marketd status
  marketd status --json --server https://example.org | jq -r .blockHeight
  until marketd status >/dev/null 2>&1; do sleep 1; done    waits until the server is ready`,
    );
  return command.action(async () => {
    const { server, json, timeoutMs } = command.opts<{ server: string; json: boolean; timeoutMs: number }>();
    await commands.status(Object.freeze({ server, json, timeoutMs }));
  });
}

const environmentHelp = `
Every flag has an environment variable: --data-dir is MARKETD_DATA_DIR. A flag takes precedence.
`;

const exitCodesHelp = "Exit codes: 0 done; 1 failed; 2 wrong use; 130 interrupted.";

/** Exit codes of commands that mean more by them. */
const exitCodesOf: Readonly<Record<string, string>> = {
  watch: `${exitCodesHelp}
2 also: several markets have the name; their ids are listed.
3: the server cannot be reached, at the start.`,
  export: `Exit codes: 0 verified; 1 failed; 2 wrong use; 130 interrupted.
3: the server went away for too long, or cannot be reached; run the same command again to go on.
4: what arrived is not what the server says it sent.`,
  status: `Exit codes: 0 ready; 1 failed; 2 wrong use; 130 interrupted.
3: the server cannot be reached, or is not ready.`,
};

function helpAfter(name: string): string {
  return environmentHelp + (exitCodesOf[name] ?? exitCodesHelp);
}

/** In the order of `--help`. */
const makers = [
  serveCommand,
  loadCommand,
  migrateCommand,
  verifyCommand,
  retainCommand,
  simulateCommand,
  demoCommand,
  watchCommand,
  exportCommand,
  statusCommand,
];

/**
 * The whole command line. Usage errors are thrown as {@link UsageError} or CommanderError, and also printed unless
 * `silent`.
 */
export function createProgram(version: string, commands: Commands, { silent = false } = {}): Command {
  const program = new Command("marketd")
    .description("A market data and ledger query service: gRPC, gRPC-Web, Connect and plain HTTP on one port.")
    .version(version)
    .addHelpText("after", helpAfter("marketd"));
  for (const make of makers) {
    const command = make(commands);
    program.addCommand(command.addHelpText("after", helpAfter(command.name())));
  }
  for (const command of [program, ...program.commands]) {
    command
      .exitOverride()
      .showHelpAfterError("(see --help)")
      .configureOutput({
        outputError: (text, write) => {
          if (!silent) write(text.replace(/^error: /, "marketd: "));
        },
        ...(silent ? { writeErr: () => {} } : {}),
      });
  }
  return program;
}

/** Whether commander has printed everything: the help, the version, or a usage error. */
export function isPrintedByProgram(error: unknown): error is CommanderError {
  return error instanceof CommanderError;
}
