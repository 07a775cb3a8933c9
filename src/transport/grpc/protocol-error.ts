import type { FailureCode } from "../../domain/failure.js";

/**
 * A call that breaks its protocol's framing, told to the client with a status and a message but without details: it is
 * no answer of the API. Texts and codes are those that Connect uses, so that both lanes say the same.
 */
export class ProtocolError extends Error {
  readonly code: FailureCode;
  readonly metadata = undefined;

  constructor(code: FailureCode, message: string) {
    super(message);
    this.name = "ProtocolError";
    this.code = code;
  }
}
