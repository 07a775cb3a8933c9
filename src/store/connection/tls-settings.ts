import { readFileSync } from "node:fs";

/** How connections with TLS verify the server. */
export interface TlsSettings {
  /** Trusted authorities in PEM; undefined: those of Node. */
  readonly authorities: string | undefined;
  readonly verifiesCertificate: boolean;
  /** Whether the certificate must name the URL's host. */
  readonly verifiesName: boolean;
}

/** Values of `ssl-mode`, with the names of the database servers' own clients. */
const modes: Readonly<Record<string, Omit<TlsSettings, "authorities"> | undefined>> = {
  disabled: undefined,
  required: { verifiesCertificate: false, verifiesName: false },
  "verify-ca": { verifiesCertificate: true, verifiesName: false },
  "verify-identity": { verifiesCertificate: true, verifiesName: true },
};

/**
 * Reads `ssl-mode` and `ssl-ca`, the path of a PEM file, from the parameters of a URL. Undefined: no TLS.
 * @param url names the URL in messages, such as "the database URL"
 * @throws Error whose message says what to change
 */
export function parseTls(given: URLSearchParams, url: string): TlsSettings | undefined {
  const mode = given.get("ssl-mode") ?? "disabled";
  const path = given.get("ssl-ca");
  if (!Object.hasOwn(modes, mode)) {
    throw new Error(`${url} has ssl-mode=${mode}; it takes ${Object.keys(modes).join(", ")}`);
  }
  const checks = modes[mode];
  if (path !== null && checks?.verifiesCertificate !== true) {
    throw new Error(`${url} has ssl-ca, which ssl-mode=${mode} does not use; take verify-ca or verify-identity`);
  }
  return checks === undefined
    ? undefined
    : { ...checks, authorities: path === null ? undefined : readAuthorities(path, url) };
}

function readAuthorities(path: string, url: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`${url} has ssl-ca=${path}, which cannot be read (${code})`, { cause: error });
  }
}
