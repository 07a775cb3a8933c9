import type { DescMessage } from "@bufbuild/protobuf";
import { type BlockHead, blockMetadata } from "../domain/block-headers.js";
import type { Encodable } from "../encoding/field-values.js";
import { MessageResponse } from "../encoding/message-response.js";

/** The response of a list, in whose headers is the newest block when the page was read. */
export function pageResponse<S extends DescMessage>(
  schema: S,
  { newestBlock }: { readonly newestBlock: BlockHead | undefined },
  fields: Encodable<S>,
): MessageResponse<S> {
  return new MessageResponse(schema, fields, { metadata: blockMetadata(newestBlock) });
}
