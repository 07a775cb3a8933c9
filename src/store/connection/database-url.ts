import { isIP } from "node:net";
import { parseTls, type TlsSettings } from "./tls-settings.js";

/** The settings of a database URL, for the driver. */
export interface DatabaseAddress {
  readonly host: string;
  readonly port: number;
  /** Path of a Unix socket; takes precedence over host and port. */
  readonly socketPath: string | undefined;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** Undefined: no TLS. */
  readonly tls: TlsSettings | undefined;
}

const portDefault = 3306;

const parameters = ["socket", "ssl-mode", "ssl-ca"];

/**
 * Parses `mysql://user:password@host:port/database`, or `mysql://user@localhost/database?socket=/path/to.sock`.
 * `?ssl-mode=required`, `verify-ca` or `verify-identity` enable TLS; `ssl-ca` names a PEM file.
 * @throws Error whose message never contains the password
 */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new Error("the database URL is not a URL; it looks like mysql://user:password@host:3306/marketd");
  }
  if (url.protocol !== "mysql:" && url.protocol !== "mariadb:") {
    throw new Error(`the database URL begins with ${url.protocol}//; it takes mysql:// or mariadb://`);
  }
  const database = decoded(url.pathname.slice(1));
  if (database === "" || database.includes("/")) {
    throw new Error("the database URL names no database; it looks like mysql://user:password@host:3306/marketd");
  }
  for (const name of url.searchParams.keys()) {
    if (parameters.includes(name)) continue;
    throw new Error(`the database URL has the parameter "${name}"; it takes ${parameters.join(", ")}`);
  }
  const host = url.hostname === "" ? "localhost" : url.hostname;
  return {
    host,
    port: url.port === "" ? portDefault : Number(url.port),
    socketPath: url.searchParams.get("socket") ?? undefined,
    tls: tlsOf(url.searchParams, host),
    user: decoded(url.username) || "root",
    password: decoded(url.password),
    database,
  };
}

function tlsOf(given: URLSearchParams, host: string): TlsSettings | undefined {
  const tls = parseTls(given, "the database URL");
  if (tls === undefined) return undefined;
  if (given.has("socket"))
    throw new Error("the database URL has socket and ssl-mode; a socket needs no TLS, leave it out");
  if (tls.verifiesName && isIP(host.replace(/^\[|\]$/g, "")) !== 0) {
    throw new Error(
      `the database URL has ssl-mode=verify-identity, which needs the name of a host, not its address ${host}`,
    );
  }
  return tls;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error("the database URL has a malformed percent escape; write %25 for a percent sign");
  }
}
