import { blockHeaderNames } from "../../domain/block-headers.js";
import type { AnyResponse } from "../handler.js";

const exposed = "access-control-expose-headers";

/** Sets headers of one response, and lets pages of other origins read them. */
export function setHeaders(response: AnyResponse, headers: ReadonlyMap<string, string>): void {
  for (const [name, value] of headers) response.setHeader(name, value);
  const known = response.getHeader(exposed);
  if (headers.size === 0 || typeof known !== "string") return;
  response.setHeader(exposed, [...new Set([...known.split(", "), ...headers.keys()])].join(", "));
}

/** The same for a response with its own metadata: it names the block of its statement, or none. */
export function setOwnHeaders(response: AnyResponse, headers: ReadonlyMap<string, string>): void {
  for (const name of blockHeaderNames) response.removeHeader(name);
  setHeaders(response, headers);
}
