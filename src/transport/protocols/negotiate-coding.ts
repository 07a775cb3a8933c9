import type { RequestHeaders } from "../../domain/metadata.js";
import { type ContentCoding, chooseCoding, contentCodings } from "../call/content-coding.js";
import { ProtocolError } from "../call/protocol-error.js";

/** The header fields in which a protocol names compressions. */
export interface CodingFields {
  /** That of the message or messages; responses have it, too. */
  readonly used: string;
  /** Those that the peer reads. */
  readonly accepted: string;
}

/** The compressions of a call. */
export interface Codings {
  readonly request: ContentCoding | undefined;
  readonly response: ContentCoding | undefined;
  /** The request is compressed in a way that is not known here. */
  readonly refusal?: ProtocolError;
}

const none: Codings = { request: undefined, response: undefined };

/** What gRPC and gRPC-Web call these fields. */
export const grpcFields: CodingFields = { used: "grpc-encoding", accepted: "grpc-accept-encoding" };

/**
 * The compressions of a gRPC or gRPC-Web call. The response is compressed when the request was: the list that gRPC
 * clients send says what they can read, not what they want.
 * https://github.com/grpc/grpc/blob/master/doc/compression.md
 */
export function grpcCodings(headers: RequestHeaders): Codings {
  const used = headers[grpcFields.used];
  if (used === undefined || used === "identity") return none;
  const request = String(used);
  if (!isCoding(request)) return unknownCoding(request, grpcFields);
  const accepted = headers[grpcFields.accepted];
  if (accepted === undefined || accepted === "") return { request, response: request };
  const names = String(accepted)
    .split(",")
    .map((name) => name.trim());
  return { request, response: names.find(isCoding) };
}

/** The compressions of a Connect call: the response has what the client likes best of its list, or else the request's. */
export function connectCodings(headers: RequestHeaders, fields: CodingFields, used = headers[fields.used]): Codings {
  const request = used === undefined || used === "identity" ? undefined : String(used);
  if (request !== undefined && !isCoding(request)) return unknownCoding(request, fields);
  const accepted = headers[fields.accepted];
  const response = accepted === undefined || accepted === "" ? request : chooseCoding(String(accepted));
  return request === undefined && response === undefined ? none : { request, response };
}

function unknownCoding(name: string, { accepted }: CodingFields): Codings {
  const known = contentCodings.join(",");
  const metadata = { headers: new Map([[accepted, known]]), trailers: new Map<string, string>() };
  const message = `unknown compression "${name}": supported encodings are ${known}`;
  return { ...none, refusal: new ProtocolError("unimplemented", message, metadata) };
}

function isCoding(name: string): name is ContentCoding {
  return name === "br" || name === "gzip";
}
