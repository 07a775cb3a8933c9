import type { FailureCode } from "../../domain/failure.js";
import type { Metadata } from "../../domain/metadata.js";

/**
 * A violation of the protocol's framing. The client gets a status and a message without details, because the API is not
 * involved. Texts and codes are those of the Connect library.
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
