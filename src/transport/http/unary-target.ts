import type { Message } from "@bufbuild/protobuf";
import type { UnaryMethod } from "../../domain/service.js";
import type { RequestCells } from "../request-metrics.js";

/** What a URL stands for: kept for the next request of the same one. */
export interface UnaryTarget {
  readonly method: UnaryMethod;
  readonly message: Message;
  readonly cells: RequestCells;
  /** The latest answer was there without waiting, and small enough to be repeated. */
  atHand: boolean;
}
