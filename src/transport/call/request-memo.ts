import type { RequestDecoder } from "./request-reader.js";

/** Requests that are remembered per method. When full, all are dropped. */
export const rememberedRequestsMax = 1_024;

/** Larger requests are decoded each time. */
export const rememberedRequestBytesMax = 256;

/**
 * Returns the same message for the same request bytes. Clients that poll repeat few requests, and decoding a request
 * costs more than a cached response. Messages are frozen because calls share them.
 */
export function rememberingRequests(decode: RequestDecoder): RequestDecoder {
  const remembered = new Map<string, ReturnType<RequestDecoder>>();
  return (method, bytes) => {
    if (bytes.length > rememberedRequestBytesMax) return decode(method, bytes);
    const key = bytes.toString("latin1");
    const known = remembered.get(key);
    if (known !== undefined) return known;
    // Decoded from a copy: a message may refer to the bytes that it was read from, which are the socket's buffer.
    const message = Object.freeze(decode(method, Buffer.from(Uint8Array.from(bytes).buffer)));
    if (remembered.size === rememberedRequestsMax) remembered.clear();
    remembered.set(key, message);
    return message;
  };
}
