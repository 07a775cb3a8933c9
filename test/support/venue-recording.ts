import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  BookDeltaSchema,
  BookSnapshotSchema,
  MarketDefinitionSchema,
} from "../../gen/marketd/events/v1/venue_pb.js";
import { RecordingBuilder } from "./recording.js";

/** Blocks of a venue with market `m`, a second apart, each of one event unless told otherwise. */
export class VenueRecording extends RecordingBuilder {
  #block = 0;

  tell(...events: Parameters<RecordingBuilder["venue"]>[0][]): this {
    const height = ++this.#block;
    return this.block(height, BigInt(height) * 1_000_000_000n, () => {
      for (const event of events) this.venue(event);
    });
  }

  define(value: MessageInitShape<typeof MarketDefinitionSchema> = {}): this {
    const scale = { priceDecimals: 2, sizeDecimals: 3 };
    return this.tell({ case: "marketDefinition", value: { marketId: "m", ...scale, ...value } });
  }

  snapshot(value: MessageInitShape<typeof BookSnapshotSchema>): this {
    return this.tell({ case: "bookSnapshot", value: { marketId: "m", ...value } });
  }

  delta(value: MessageInitShape<typeof BookDeltaSchema>): this {
    return this.tell({ case: "bookDelta", value: { marketId: "m", ...value } });
  }
}

/** A level of a snapshot or delta. */
export function level(price: string, size: string, numberOfOrders = 0n) {
  return { price, size, numberOfOrders };
}
