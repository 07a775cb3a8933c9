import type { RequestHeaders } from "../../domain/metadata.js";
import { type ContentCoding, chooseCoding, contentCodings } from "../call/content-coding.js";
import { ProtocolError } from "../call/protocol-error.js";

/** The header fields with which a protocol names compressions. */
export interface CodingFields {
  /** The compression of the messages, in requests and responses. */
  readonly used: string;
  /** The compressions that the peer accepts. */
  readonly accepted: string;
}

/** The compressions of a call. */
export interface Codings {
  readonly request: ContentCoding | undefined;
  readonly response: ContentCoding | undefined;
  /** The request's compression is not supported. */
  readonly refusal?: ProtocolError;
}

const none: Codings = { request: undefined, response: undefined };

/** The fields of gRPC and gRPC-Web. */
export const grpcFields: CodingFields = { used: "grpc-encoding", accepted: "grpc-accept-encoding" };

/**
 * The compressions of a gRPC or gRPC-Web call. The response is compressed if the request was: clients list what they
 * can read, not what they want. https://github.com/grpc/grpc/blob/master/doc/compression.md
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

/** The compressions of a Connect call: the client's preferred one for the response, or else the request's. */
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
