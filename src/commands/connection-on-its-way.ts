import type { Worker } from "node:cluster";

/**
 * Closes the connection that a worker was just handed when it dies before it took it. Node's cluster forgets it then,
 * and its client would wait for an answer for ever; a client that is hung up on tries again. Node hands a worker one
 * connection at a time.
 */
export function hangUpWithWorker(worker: Worker): void {
  const { process } = worker;
  const send = process.send.bind(process) as (...values: unknown[]) => boolean;
  let onItsWay: { close(): void } | undefined;
  process.send = (...values: unknown[]): boolean => {
    const [, handle] = values;
    if (isClosable(handle)) onItsWay = handle;
    return send(...values);
  };
  // One that was taken is closed here already, and closing it again does nothing.
  worker.once("exit", () => onItsWay?.close());
}

function isClosable(handle: unknown): handle is { close(): void } {
  return typeof handle === "object" && handle !== null && "close" in handle && typeof handle.close === "function";
}
