import { WorkPacer } from "../../domain/work-pacer.js";

/** Request messages above this size are read one by one: JSON of a megabyte can take 0.2 s to read. */
const largeMessageBytesMin = 16_384;

const pacer = new WorkPacer();

/** Whether a request message of so many bytes has to wait for its turn to be read. */
export function isLargeMessage(bytes: number): boolean {
  return bytes > largeMessageBytesMin;
}

/** Calls `read`, which reads a large message, when it is its turn; other work of the process goes on between. */
export function whenLargeMessageMayBeRead(read: () => void): void {
  pacer.push(read);
}
