import { lengthBytes } from "./frames.js";

/** What a message holds for the place that a reader has reached. */
export interface InOrder {
  /** Its frames up to the first one that comes too early, those that were seen before included. */
  readonly bytes: Buffer;
  /** The number of that event; undefined: none came too early. */
  readonly ahead: bigint | undefined;
}

const nothing = Buffer.alloc(0);

/** Follows the stream sequence numbers of messages that may repeat, miss or swap events. */
export class EventOrder {
  /** The event that is due; undefined: any may be first. */
  #due: bigint | undefined;

  constructor(due: bigint | undefined) {
    this.#due = due;
  }

  get due(): bigint | undefined {
    return this.#due;
  }

  /** If any event may be first: the least of these messages, which may be in any order. */
  begin(messages: readonly Buffer[]): void {
    if (this.#due !== undefined) return;
    for (const message of messages) {
      for (let at = 0; at < message.length; at += lengthBytes + message.readUInt32BE(at)) {
        const sequence = message.readBigUInt64BE(at + lengthBytes);
        if (this.#due === undefined || sequence < this.#due) this.#due = sequence;
      }
    }
  }

  /** Goes on with a message of whole frames. With `seeks`, everything before the event that is due is left out. */
  take(message: Buffer, seeks: boolean): InOrder {
    let from = seeks ? undefined : 0;
    let to = 0;
    for (let at = 0, next = 0; at < message.length; at = next) {
      next = at + lengthBytes + message.readUInt32BE(at);
      const sequence = message.readBigUInt64BE(at + lengthBytes);
      this.#due ??= sequence;
      if (sequence === this.#due) {
        from ??= at;
        this.#due++;
      }
      if (from === undefined) continue;
      if (sequence > this.#due) return { bytes: message.subarray(from, to), ahead: sequence };
      to = next;
    }
    return { bytes: from === undefined ? nothing : message.subarray(from, to), ahead: undefined };
  }
}
