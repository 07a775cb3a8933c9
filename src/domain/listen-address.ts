/** An address to listen on. */
export interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** The URL of an address. */
export function urlOf(scheme: "http" | "https", { host, port }: ListenAddress): string {
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
