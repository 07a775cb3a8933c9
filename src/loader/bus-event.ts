import { BusEventSchema, BusEventTypeSchema } from "../../gen/vega/events/v1/events_pb.js";
import { shown } from "./field-checks.js";
import { RecordingError } from "./recording-error.js";
import { WireReader } from "./wire.js";

/** Numbers of the fields of `vega.events.v1.BusEvent` that the loader reads. */
const busEventFields = { id: 1, type: 3, chainId: 5 } as const;

/** Numbers of the members of BusEvent that are stored. */
export const eventMembers = {
  ledgerMovements: 102,
  order: 104,
  trade: 107,
  marketData: 111,
  nodeSignature: 112,
  marketCreated: 116,
  asset: 117,
  marketUpdated: 125,
  signerRemoved: 144,
  beginBlock: 148,
  endBlock: 149,
  protocolUpgradeStarted: 150,
  expiredOrders: 156,
  /** `marketd.events.v1.VenueEvent`, a field that the definition of BusEvent lacks. */
  venueEvent: 10_001,
} as const;

const knownFields: ReadonlySet<number> = new Set(BusEventSchema.fields.map((field) => field.number));

/** Members that these definitions lack have numbers above this, like all members. */
const membersFrom = 100;

/**
 * The envelope of one event, with what is needed to decide whether it matters. The object is reused for each event; its
 * bytes are valid as long as the frame's.
 */
export class EventEnvelope {
  /** Of `BusEventType`. */
  type = 0;
  /** The field number of the member that is set; 0 if none is. */
  member = 0;
  /** Whether it has fields that these definitions lack. */
  hasUnknownFields = false;
  buffer: Buffer = Buffer.alloc(0);
  #idStart = 0;
  #idStop = 0;
  #chainStart = 0;
  #chainStop = 0;
  #bodyStart = 0;
  #bodyStop = 0;
  readonly #reader = new WireReader();

  /** Reads an event. @throws RecordingError if the bytes are not a BusEvent */
  read(buffer: Buffer): void {
    this.buffer = buffer;
    this.type = 0;
    this.member = 0;
    this.hasUnknownFields = false;
    this.#idStart = this.#idStop = this.#chainStart = this.#chainStop = this.#bodyStart = this.#bodyStop = 0;
    const reader = this.#reader.over(buffer, 0, buffer.length);
    while (reader.next()) {
      if (reader.field === busEventFields.id && reader.wireType === 2) {
        this.#idStart = reader.start;
        this.#idStop = reader.stop;
      } else if (reader.field === busEventFields.chainId && reader.wireType === 2) {
        this.#chainStart = reader.start;
        this.#chainStop = reader.stop;
      } else if (reader.field === busEventFields.type && reader.wireType === 0) {
        this.type = reader.value;
      } else if (reader.field > membersFrom && reader.wireType === 2) {
        this.member = reader.field;
        this.#bodyStart = reader.start;
        this.#bodyStop = reader.stop;
      } else if (!knownFields.has(reader.field)) {
        this.hasUnknownFields = true;
      }
    }
  }

  /** The member's bytes. */
  body(): Buffer {
    return this.buffer.subarray(this.#bodyStart, this.#bodyStop);
  }

  chainId(): string {
    return this.buffer.toString("latin1", this.#chainStart, this.#chainStop);
  }

  /** Whether the chain id has these bytes. */
  isOfChain(chainId: Buffer): boolean {
    const length = this.#chainStop - this.#chainStart;
    if (length !== chainId.length) return false;
    return this.buffer.compare(chainId, 0, length, this.#chainStart, this.#chainStop) === 0;
  }

  /** The id, `<height>-<n>`. */
  id(): string {
    return this.buffer.toString("latin1", this.#idStart, this.#idStop);
  }

  /** The event's number in its block, from its id. @throws RecordingError */
  number(): bigint {
    const id = this.id();
    const match = /^\d+-(\d{1,18})$/.exec(id);
    if (match === null) throw new RecordingError(`has the id ${shown(id)}; an id is <height>-<number in the block>`);
    return BigInt(match[1] ?? "0");
  }
}

/** The name of a kind of event in counts. */
export function kindName(type: number, member: number): string {
  const name = BusEventTypeSchema.values.find((value) => value.number === type)?.name;
  if (name !== undefined && type !== 0) return name.replace("BUS_EVENT_TYPE_", "").toLowerCase();
  return type === 0 ? `member ${member}` : `type ${type}`;
}
