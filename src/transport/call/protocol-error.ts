import type { FailureCode } from "../../domain/failure.js";
import type { Metadata } from "../../domain/metadata.js";

/**
 * A call that breaks its protocol's framing, told to the client with a status and a message but without details: it is
 * no response of the API. Texts and codes are those of the Connect library.
 */
export class ProtocolError extends Error {
  readonly code: FailureCode;
  readonly metadata: Metadata | undefined;

  constructor(code: FailureCode, message: string, metadata?: Metadata) {
    super(message);
    this.name = "ProtocolError";
    this.code = code;
    this.metadata = metadata;
  }
}
