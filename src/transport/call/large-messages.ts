import { WorkPacer } from "../../domain/work-pacer.js";

/** Request messages above this size are decoded one at a time: JSON of a megabyte can take 0.2 s. */
const largeMessageBytesMin = 16_384;

const pacer = new WorkPacer();

/** Whether a request message of this many bytes must wait for its turn. */
export function isLargeMessage(bytes: number): boolean {
  return bytes > largeMessageBytesMin;
}

/** Calls `read`, which decodes a large message, in its turn. Other work of the process runs in between. */
export function whenLargeMessageMayBeRead(read: () => void): void {
  pacer.push(read);
}
