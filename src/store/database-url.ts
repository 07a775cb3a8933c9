/** What a database URL says, for the driver. */
export interface DatabaseAddress {
  readonly host: string;
  readonly port: number;
  /** Path of a Unix socket; goes before host and port. */
  readonly socketPath: string | undefined;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

const portDefault = 3306;

/**
 * Reads `mysql://user:password@host:port/database`, or `mysql://user@localhost/database?socket=/path/to.sock`.
 * @throws Error whose message never holds the password
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
  return {
    host: url.hostname === "" ? "localhost" : url.hostname,
    port: url.port === "" ? portDefault : Number(url.port),
    socketPath: url.searchParams.get("socket") ?? undefined,
    user: decoded(url.username) || "root",
    password: decoded(url.password),
    database,
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error("the database URL has a percent sign that is no escape; write %25 for a percent sign");
  }
}
