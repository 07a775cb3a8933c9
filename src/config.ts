import { isIP } from "node:net";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import type { Network } from "./domain/client-address.js";
import { isoInstant, nanoseconds } from "./domain/instant.js";
import type { ListenAddress } from "./domain/listen-address.js";
import { type LogLevel, logLevels } from "./telemetry/log.js";

/** The database: a URL, a file that holds one, or the private MariaDB under the data directory. */
export type DatabaseChoice =
  | { readonly kind: "url"; readonly url: string }
  | { readonly kind: "url_file"; readonly path: string }
  | { readonly kind: "embedded"; readonly dataDir: string };

/** A mistake in the arguments or the environment; the message says what to change. */
export class UsageError extends Error {}

/** What a flag takes; `T` is the type of its value. */
interface Setting<T> {
  option(flag: string): Option;
  readonly type?: T;
}

/** By the flags' names in camel case, `pollIntervalMs` for `--poll-interval-ms`. */
type Settings = Readonly<Record<string, Setting<unknown>>>;

type ValuesOf<S extends Settings> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** The environment variable of a flag: MARKETD_DATABASE_URL for `--database-url`. */
function environmentName(flag: string): string {
  return `MARKETD_${flag.replace(/^--/, "").replaceAll("-", "_").toUpperCase()}`;
}

/** A flag without a value. Commander would treat any text in the environment, including `false`, as set. */
function toggle(description: string): Setting<boolean> {
  const option = (flag: string): Option => {
    const name = environmentName(flag);
    const text = process.env[name] ?? "false";
    if (!["true", "false"].includes(text)) throw new UsageError(`${name} is "${text}"; it takes true or false`);
    return new Option(flag, `${description} (env: ${name})`).default(text === "true");
  };
  return { option };
}

/** Without a fallback, the value may be undefined. */
function setting<T, F extends T | undefined = undefined>(
  valueName: string,
  description: string,
  parse: (text: string) => T,
  fallback?: F,
  fallbackText?: string,
): Setting<T | F> {
  const option = (flag: string): Option =>
    new Option(`${flag} <${valueName}>`, description)
      .env(environmentName(flag))
      .default(fallback, fallbackText)
      .argParser(parse);
  return { option };
}

/** A setting that is accepted and ignored for one release, so that units and rolling restarts go on. */
const ignored: Setting<string | undefined> = {
  option: (flag) => setting("any", "ignored; the next release refuses it", String).option(flag).hideHelp(),
};

function mandatory<T>(optional: Setting<T | undefined>): Setting<T> {
  return { option: (flag) => optional.option(flag).makeOptionMandatory() };
}

function choice<T extends string>(
  valueName: string,
  description: string,
  choices: readonly T[],
  fallback: NoInfer<T>,
): Setting<T> {
  return { option: (flag) => setting(valueName, description, String, fallback).option(flag).choices(choices) };
}

function wholeNumber(
  valueName: string,
  description: string,
  fallback: number,
  min: number,
  max: number,
): Setting<number> {
  const parse = (text: string): number => {
    const number = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (!(number >= min && number <= max)) {
      throw new InvalidArgumentError(`It takes a whole number from ${min} to ${max}.`);
    }
    return number;
  };
  return setting(valueName, description, parse, fallback);
}

function parseListen(text: string): ListenAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):([0-9]{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new InvalidArgumentError("It looks like 127.0.0.1:8080 or [::1]:8080; port 0 takes any free port.");
  }
  return { host: match[1] ?? (match[2] === "" ? "::" : (match[2] ?? "::")), port };
}

function parseBasePath(text: string): string {
  if (text === "" || text === "/") return "";
  const isPath = /^(\/[A-Za-z0-9._~-]+)+$/.test(text);
  // Browsers resolve these before they ask.
  if (!isPath || text.split("/").some((part) => part === "." || part === ".."))
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

function parseSpeed(text: string): number {
  const speed = /^[0-9]{1,4}(\.[0-9]{1,2})?x?$/.test(text) ? Number(text.replace("x", "")) : Number.NaN;
  if (!(speed >= 0.01 && speed <= 1_000)) throw new InvalidArgumentError("It takes 0.01x to 1000x, such as 10x.");
  return speed;
}

const nsPerUnit = { d: 86_400_000_000_000n, h: 3_600_000_000_000n, m: 60_000_000_000n } as const;

/** Parses a duration in nanoseconds, or one of these words. */
function durationOr<W extends string = never>(...words: readonly W[]) {
  return (text: string): bigint | W => {
    const word = words.find((each) => each === text);
    if (word !== undefined) return word;
    const [, count = "", unit] = /^([1-9][0-9]{0,5})([dhm])$/.exec(text) ?? [];
    if (unit === "d" || unit === "h" || unit === "m") return BigInt(count) * nsPerUnit[unit];
    const others = words.map((each) => `${each}, `).join("");
    const list = others === "" ? "" : `${others}or `;
    throw new InvalidArgumentError(
      `It takes ${list}a whole number of days, hours or minutes, such as 90d, 36h or 30m.`,
    );
  };
}

/** @throws UsageError if past books would lack their last trades */
function checkKept(keepBooks: bigint | "all" | "off", keepTrades: bigint | "all"): void {
  if (keepTrades === "all" || keepBooks === "off" || (keepBooks !== "all" && keepBooks <= keepTrades)) return;
  throw new UsageError(
    "--keep-trades is shorter than --keep-books, and a past book has its last trade; give --keep-books a time that is not longer, or off",
  );
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

function parseOut(text: string): string {
  if (text === "") throw new InvalidArgumentError("It takes the name of a file, or - for standard output.");
  return text;
}

/** The largest time that the API takes. */
const timeMaxNs = 2n ** 63n - 1n;

function parseTime(text: string): bigint {
  const time = nanoseconds(text);
  if (time === undefined) {
    throw new InvalidArgumentError(
      "It looks like 2023-01-18, 2023-01-18T01:09:55.425088123Z (or +01:00) or 1674004195425088123 (Unix nanoseconds).",
    );
  }
  if (BigInt(time) < 0n || BigInt(time) > timeMaxNs) {
    throw new InvalidArgumentError(`It is from 1970-01-01 up to ${isoInstant(timeMaxNs)}.`);
  }
  return BigInt(time);
}

/** @throws UsageError for a range that ends before it begins */
function checkOrder(first: string, start: bigint | undefined, second: string, end: bigint | undefined): void {
  if (start !== undefined && end !== undefined && start > end) throw new UsageError(`${first} is after ${second}`);
}

function parseServer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBase = url?.search === "" && url.hash === "" && url.username === "" && url.password === "";
  if (url === undefined || !isBase || !/^https?:$/.test(url.protocol)) {
    throw new InvalidArgumentError("It looks like http://127.0.0.1:8080 or https://example.org/prefix.");
  }
  return url.href.replace(/\/+$/, "");
}

const databaseSettings = (level: LogLevel) => ({
  databaseUrl: setting(
    "url",
    "the database, as mysql://user:password@host:3306/name (TLS: ?ssl-mode=verify-identity; a socket: ?socket=/path)",
    String,
  ),
  databaseUrlFile: setting(
    "file",
    "a file whose first line is that URL; unlike flags, other users cannot see it",
    String,
  ),
  embedded: toggle("use a private MariaDB under the data directory, started on demand"),
  dataDir: setting("directory", "the directory of the private MariaDB", String, ".marketd"),
  logLevel: choice("level", "how much to log on standard error", logLevels, level),
});

const serviceSettings = (workers: number) => ({
  listen: setting(
    "host:port",
    "address to listen on",
    parseListen,
    { host: "127.0.0.1", port: 8080 },
    "127.0.0.1:8080",
  ),
  adminListen: setting("host:port", "a separate listener for health and metrics", parseListen),
  basePath: setting("path", "a prefix of the API's URLs, such as /prefix", parseBasePath, "", "none"),
  tlsCertificate: setting("file", "certificate chain in PEM; enables TLS, needs --tls-key", String),
  tlsKey: setting("file", "private key in PEM", String),
  corsOrigins: setting(
    "origins",
    "origins whose pages may read responses, separated by commas; *: all",
    parseOrigins,
    ["*"],
    "*",
  ),
  trustedProxies: setting(
    "networks",
    "proxies whose X-Forwarded-For is trusted, separated by commas, such as 10.0.0.0/8",
    parseNetworks,
    [],
    "none",
  ),
  workers: wholeNumber("n", "serving processes; 0: one per core", workers, 0, 256),
  tuning: ignored,
  pollIntervalMs: wholeNumber("ms", "interval between polls while a block may come", 25, 1, 60_000),
  heartbeatMs: wholeNumber("ms", "longest silence on a stream", 15_000, 10, 3_600_000),
  stalledReaderMs: wholeNumber("ms", "disconnect a reader that takes nothing for this long", 300_000, 100, 86_400_000),
  streamsMax: wholeNumber("n", "open streams of a process", 20_000, 1, 1_000_000),
  streamsPerAddressMax: wholeNumber("n", "open streams of one client address", 1_000, 1, 1_000_000),
  requestTimeoutMs: wholeNumber("ms", "longest time for a unary request", 30_000, 10, 3_600_000),
  drainMs: wholeNumber("ms", "longest wait for clients after SIGTERM", 10_000, 0, 3_600_000),
});

/** The ways to name the database; only one may be given. */
const databaseNames = ["databaseUrl", "databaseUrlFile", "embedded"] as const;

/** The one that is given as a flag, or otherwise as an environment variable. */
function givenDatabase(command: Command): (typeof databaseNames)[number] | undefined {
  const given = databaseNames.filter((name) => ![undefined, false].includes(command.getOptionValue(name)));
  const flags = given.filter((name) => command.getOptionValueSource(name) === "cli");
  const [first, second] = flags.length > 0 ? flags : given;
  if (first !== undefined && second !== undefined) {
    throw new UsageError(`both ${flagOf(first)} and ${flagOf(second)} are given; give one of them`);
  }
  return first;
}

function databaseOf(
  { databaseUrl = "", databaseUrlFile = "", dataDir }: DatabaseValues,
  command: Command,
  embeddedByDefault: boolean,
): DatabaseChoice {
  switch (givenDatabase(command) ?? (embeddedByDefault ? "embedded" : undefined)) {
    case "databaseUrl":
      return { kind: "url", url: databaseUrl };
    case "databaseUrlFile":
      return { kind: "url_file", path: databaseUrlFile };
    case "embedded":
      return { kind: "embedded", dataDir };
    default:
      throw new UsageError(
        "no database: name one with --database-url (MARKETD_DATABASE_URL), or use a private one with --embedded (MARKETD_EMBEDDED=true)",
      );
  }
}

type DatabaseValues = ValuesOf<ReturnType<typeof databaseSettings>>;

/** Of the values, those that name the database become one. */
function withDatabase<V extends DatabaseValues>(values: V, command: Command, embeddedByDefault = false) {
  const { databaseUrl, databaseUrlFile, embedded, dataDir, ...others } = values;
  return { ...others, database: databaseOf(values, command, embeddedByDefault) };
}

/** Of the values, those that name the parts of TLS become one. */
function withTls<V extends ValuesOf<ReturnType<typeof serviceSettings>>>(values: V) {
  const { tlsCertificate: certificatePath, tlsKey: keyPath, tuning, ...others } = values;
  if ((certificatePath === undefined) !== (keyPath === undefined)) {
    throw new UsageError("TLS takes both --tls-certificate and --tls-key");
  }
  const tls = certificatePath === undefined || keyPath === undefined ? undefined : { certificatePath, keyPath };
  return { ...others, tls, ...(tuning === undefined ? {} : { namesTuning: true }) };
}

const exitCodesHelp = "Exit codes: 0 done; 1 failed; 2 wrong use; 130 interrupted.";

/** A command: its help, its settings, and what it makes of their values. */
interface Definition<S extends Settings, C> {
  readonly summary: string;
  readonly description: string;
  readonly settings: S;
  /** An argument besides the flags, as commander writes it, and its description. */
  readonly argument?: readonly [name: string, description: string];
  /** What the help says after the settings. */
  readonly notes?: string;
  readonly exitCodes?: string;
  /** @throws UsageError for values that do not go together */
  config(values: ValuesOf<S>, command: Command): C;
}

/** Infers the types of a definition. */
function define<S extends Settings, C>(definition: Definition<S, C>): Definition<S, C> {
  return definition;
}

const server = setting(
  "url",
  "the server to ask, with its base path if it has one",
  parseServer,
  "http://127.0.0.1:8080",
);

const seed = wholeNumber("n", "seed of the random numbers, by which networks differ", 1, 0, 4_294_967_295);

/** The commands, in the order of `--help`. */
const definitions = {
  serve: define({
    summary: "serve clients",
    description:
      "Serves the database over gRPC, gRPC-Web, Connect, HTTP with JSON, server-sent events and WebSockets on one port.",
    settings: { ...databaseSettings("info"), ...serviceSettings(0) },
    config: (values, command) => withTls(withDatabase(values, command)),
  }),
  load: define({
    summary: "fill the database from recordings",
    description:
      "Loads a network's event stream, in the order given: recordings (plain or gzipped files, or - for standard input), " +
      "and topics of Kafka (kafka://host:9092,host:9092/topic). " +
      "A stopped load continues where it stopped. Loading a recording again changes nothing.",
    settings: {
      ...databaseSettings("info"),
      follow: toggle("wait for more at the end of the last source"),
      pace: setting("blocks-per-second", "replay at this pace instead of as fast as possible", parsePace),
      standby: toggle("wait while another loader runs, and take over when it is gone; not with -"),
      keepBooks: setting(
        "time",
        "how much of every book's past is kept: 7d, 36h or 30m before the newest block, all or off",
        durationOr("all", "off"),
        7n * nsPerUnit.d,
        "7d",
      ),
      keepTrades: setting(
        "time",
        "how long trades are kept: 30d, 36h or 90m before the newest block, or all; not shorter than --keep-books",
        durationOr("all"),
        "all" as bigint | "all",
        "all",
      ),
      adminListen: setting("host:port", "a listener for health and metrics", parseListen),
    },
    argument: ["<source...>", "recordings and topics, in order"],
    notes: `
For example: marketd simulate --blocks 1000 | marketd load --embedded -
             marketd load --follow --standby kafka://broker:9092,other:9092/events
             marketd load --follow 'kafka://broker:9093/events?ssl-mode=verify-identity&sasl=scram-sha-512&user=marketd&password-file=/etc/marketd/kafka-password'
Parameters of kafka:// are partition, ssl-mode and ssl-ca (as in --database-url), sasl (plain, scram-sha-256,
scram-sha-512), user, and password-file, the path of a file whose first line is the password.`,
    config: (values, command) => {
      const sources: readonly string[] = command.args;
      if (values.standby && sources.includes("-")) {
        throw new UsageError("--standby reads its sources again at each turn, which standard input (-) cannot be");
      }
      checkKept(values.keepBooks, values.keepTrades);
      return { ...withDatabase(values, command), sources };
    },
  }),
  migrate: define({
    summary: "bring the database's tables up to date",
    description:
      "Creates the database if it does not exist, and applies missing migrations. `load` and `demo` do the same first.",
    settings: databaseSettings("warn"),
    config: (values, command) => withDatabase(values, command),
  }),
  verify: define({
    summary: "check that the database equals what was loaded",
    description:
      "Compares every row with the digests that `load` wrote, and checks balances, books and blocks. It only reads, and " +
      "may run beside `load` and `serve`. It finds damage and accidents, not changes that rewrite the digests too.",
    settings: {
      ...databaseSettings("warn"),
      renewDigests: toggle(
        "first make all digests anew of the rows that there are; while nobody loads, and with the rights of load",
      ),
    },
    notes: "\nExits with 0 if everything is right, with 1 for findings, with 4 if it could not check everything.",
    config: (values, command) => withDatabase(values, command),
  }),
  retain: define({
    summary: "drop old ledger entries",
    description:
      "Drops the ledger entries of blocks that are older than the newest block by more than --keep. `serve` and `load` " +
      "keep running. The next run finishes one that was stopped. Run it as often as entries should be dropped.",
    settings: {
      ...databaseSettings("warn"),
      keep: mandatory(
        setting("time", "how long entries are kept: 90d, 36h or 30m before the newest block", durationOr<never>()),
      ),
    },
    config: ({ keep: keepNs, ...values }, command) => ({ ...withDatabase(values, command), keepNs }),
  }),
  simulate: define({
    summary: "write the recording of a simulated network",
    description: "Writes a recording of a small trading network. The same settings give the same bytes.",
    settings: {
      blocks: wholeNumber("n", "blocks to write; more do not go on from fewer", 1_000, 1, 1_000_000_000),
      markets: wholeNumber("n", "markets", 12, 1, 100_000),
      parties: wholeNumber("n", "trading parties", 50, 2, 10_000_000),
      ordersPerBlock: wholeNumber("n", "order events in a block, on average", 20, 0, 1_000_000),
      entriesPerBlock: wholeNumber("n", "additional ledger entries in a block", 10, 0, 10_000_000),
      seed,
      out: setting("file", "where to write, - for standard output; .gz is gzipped", parseOut, "-"),
    },
    config: (values) => values,
  }),
  demo: define({
    summary: "run a live demo on a private database",
    description:
      "Starts a private MariaDB, a simulated network with a block per second, and the service. Prints calls to paste.",
    settings: { ...databaseSettings("warn"), ...serviceSettings(1), seed },
    config: (values, command) => withTls(withDatabase(values, command, true)),
  }),
  watch: define({
    summary: "a market's order book, live in the terminal",
    description:
      "Shows a market's order book as it changes: asks above, bids below, the spread between them. It reconnects by itself " +
      "after an outage, and shows since when the book is out of date. If the output is not a terminal, it is a " +
      "line for each change. The key q ends it.",
    argument: ["<market>", "the market's id, its code or name, or as much of its id's beginning as is unique"],
    settings: {
      server,
      once: toggle("print the book as it is now, and end"),
      at: setting("time", "print the book as it was at this time, and end", parseTime),
      replay: setting(
        "speed",
        "show the past from --at on, or the oldest that is kept, as many times as fast; then what happens now",
        parseSpeed,
      ),
      maxDepth: wholeNumber("n", "levels of each side; 0: as many as fit, or all", 0, 0, 1_000_000),
    },
    notes: `
For example:
  marketd watch BTC/USD                           the market with this code or name, at 127.0.0.1:8080
  marketd watch 6d4f1c                            the market whose id begins so
  marketd watch 6d4f1c --once --max-depth 5       its best five levels, once
  marketd watch 6d4f1c | grep --line-buffered -o 'bid=[^ ]*'
  marketd watch 6d4f1c --server https://example.org
  marketd watch 6d4f1c --at 2026-11-24T12:00:00Z --replay 10x

NO_COLOR=1 in the environment takes the colours away.`,
    exitCodes: `${exitCodesHelp}
2 also: several markets have the name; their ids are listed.
3: the server cannot be reached, at the start.`,
    config: (values, { args: [market = ""] }) => {
      if (values.once && values.replay !== undefined) throw new UsageError("--once shows one book, --replay many");
      return { ...values, market };
    },
  }),
  export: define({
    summary: "a party's ledger entries, or a market's book changes or trades, as a CSV file",
    description:
      "Writes the ledger entries of a party and an asset as CSV, oldest first, up to the newest block. It reads slices of " +
      "time, each of which counts only when rows, sum of effects and SHA-256 are those that the server states. A " +
      "connection that breaks costs one slice. FILE appears when all of it is verified; until then there are FILE.part " +
      "and FILE.part.json, from which the same command continues after an interruption.\n\n" +
      "With --market: writes how the market's order book changed, the levels of each block. The first rows are the whole " +
      "book as of --from. A level with volume 0 and 0 orders is gone. With --trades too: writes the market's trades.",
    settings: {
      server,
      party: setting("id", "entries that this party's accounts pay or receive", String),
      asset: setting("id", "of this asset", String),
      market: setting("id", "changes of this market's book: its id, code or name", String),
      trades: toggle("the trades of --market in place of its book's changes"),
      from: setting("time", "of --market: from this block time on; else from the oldest that is kept", parseTime),
      until: setting("time", "of --market: only before this block time; else up to the newest block", parseTime),
      start: setting("time", "only from this block time on", parseTime),
      end: setting("time", "only before this block time", parseTime),
      out: setting(
        "file",
        "where to write, - for standard output; else ledger-PARTY-ASSET.csv; .gz is gzipped for --market",
        parseOut,
      ),
      force: toggle("replace a file of that name; one that --out names is replaced in any case"),
      giveUpMs: wholeNumber("ms", "how long to try again while nothing arrives", 300_000, 0, 86_400_000),
    },
    notes: `
For example:
  marketd export --party 8b3a --asset usd                   into ledger-8b3a-usd.csv
  marketd export --party 8b3a --asset usd --start 2023-01-01 --end 2024-01-01 --out 2023.csv
  marketd export --party 8b3a --asset usd --out - | gzip > ledger.csv.gz
  marketd export --market BTC/USD --from 2026-11-24 --until 2026-11-25 --out changes.csv.gz
  marketd export --market BTC/USD --trades --from 2026-11-24 --out trades.csv.gz`,
    exitCodes: `Exit codes: 0 verified; 1 failed; 2 wrong use; 130 interrupted.
3: the server went away for too long, or cannot be reached; run the same command again to go on.
4: what arrived is not what the server says it sent.`,
    config: ({ party, asset, start, end, market, from, until, ...others }) => {
      checkOrder("--start", start, "--end", end);
      checkOrder("--from", from, "--until", until);
      const isOfLedger = [party, asset, start, end].some((value) => value !== undefined);
      if (market !== undefined) {
        if (isOfLedger) throw new UsageError("--market takes --from and --until, and nothing of the ledger");
        if (others.out === undefined) throw new UsageError("--market needs --out FILE");
        return { kind: "market" as const, ...others, out: others.out, market, from, until };
      }
      if (from !== undefined || until !== undefined) throw new UsageError("--from and --until go with --market");
      if (others.trades) throw new UsageError("--trades goes with --market");
      if (party === undefined) throw new UsageError("required option '--party <id>' not specified");
      if (asset === undefined) throw new UsageError("required option '--asset <id>' not specified");
      return { kind: "ledger" as const, ...others, partyId: party, assetId: asset, startNs: start, endNs: end };
    },
  }),
  status: define({
    summary: "how a server is, on one screen",
    description:
      "Tells whether a server can be reached and is ready, its newest block and how old that is, how many markets it has, " +
      "and, where it shows its metrics, open streams and whether its database answers.",
    settings: {
      server,
      json: toggle("print one JSON object"),
      timeoutMs: wholeNumber("ms", "how long to wait for each response", 5_000, 1, 3_600_000),
    },
    notes: `
For example:
  marketd status
  marketd status --json --server https://example.org | jq -r .blockHeight
  until marketd status >/dev/null 2>&1; do sleep 1; done    waits until the server is ready`,
    exitCodes: `Exit codes: 0 ready; 1 failed; 2 wrong use; 130 interrupted.
3: the server cannot be reached, or is not ready.`,
    config: (values) => values,
  }),
};

type Definitions = typeof definitions;

/** The settings of a command. */
export type Config<N extends keyof Definitions> = Readonly<ReturnType<Definitions[N]["config"]>>;

/** The settings of a serving process, besides its database. */
export type ServiceConfig = Omit<Config<"serve">, "database" | "logLevel">;

/** What each command does with its settings. */
export type Commands = { readonly [N in keyof Definitions]: (config: Config<N>) => Promise<void> };

function helpAfter(exitCodes = exitCodesHelp): string {
  return `
Every flag has an environment variable: --data-dir is MARKETD_DATA_DIR. A flag takes precedence.
${exitCodes}`;
}

function makeCommand<S extends Settings, C>(
  name: string,
  definition: Definition<S, C>,
  run: ((config: Readonly<C>) => Promise<void>) | undefined,
): Command {
  const { summary, description, settings, argument, notes, exitCodes } = definition;
  const command = new Command(name).summary(summary).description(description);
  for (const [key, { option }] of Object.entries(settings)) command.addOption(option(flagOf(key)));
  if (argument !== undefined) command.argument(...argument);
  if (notes !== undefined) command.addHelpText("after", notes);
  command.addHelpText("after", helpAfter(exitCodes));
  return command.action(async () => {
    await run?.(Object.freeze(definition.config(command.opts<ValuesOf<S>>(), command)));
  });
}

/**
 * The whole command line; commands that are not given do nothing. Usage errors are thrown as {@link UsageError} or
 * CommanderError, and also printed unless `silent`.
 */
export function createProgram(version: string, commands: Partial<Commands>, { silent = false } = {}): Command {
  // Compose and unit files hand on a variable that nobody has set as an empty one.
  for (const [name, text] of Object.entries(process.env)) {
    if (name.startsWith("MARKETD_") && text === "") delete process.env[name];
  }
  const program = new Command("marketd")
    .description("A market data and ledger query service: gRPC, gRPC-Web, Connect and plain HTTP on one port.")
    .version(version)
    .addHelpText("after", helpAfter());
  for (const [name, definition] of Object.entries(definitions) as [
    keyof Definitions,
    Definition<Settings, unknown>,
  ][]) {
    program.addCommand(makeCommand(name, definition, commands[name] as (config: unknown) => Promise<void>));
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
