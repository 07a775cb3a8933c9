import type { Socket } from "node:net";
import type { EmbeddedPlaces } from "./embedded-places.js";
import type { ServerPrograms } from "./server-programs.js";

/** What a supervisor is started with, as JSON in its only argument. */
export interface SupervisorOrder {
  readonly places: EmbeddedPlaces;
  readonly programs: ServerPrograms;
  readonly bufferPoolBytes: number;
}

/**
 * What a supervisor tells each of its users, a JSON line each; `supervisor` is its process id.
 * A user tells nothing: being connected is the message.
 */
export type SupervisorMessage =
  | { readonly type: "progress"; readonly text: string }
  | { readonly type: "ready"; readonly supervisor: number }
  | { readonly type: "failed"; readonly text: string };

/** Exit code of a supervisor that found another one in charge. */
export const lockHeldExitCode = 3;

/** Sends one message; a user that has gone is not an error. */
export function sendMessage(socket: Socket, message: SupervisorMessage): void {
  if (socket.writable) socket.write(`${JSON.stringify(message)}\n`);
}

/** Calls back with each whole message; half of one, from a supervisor that was killed while it wrote, is not one. */
export function onMessage(socket: Socket, handle: (message: SupervisorMessage) => void): void {
  let rest = "";
  socket.setEncoding("utf8");
  socket.on("data", (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const message: SupervisorMessage = JSON.parse(line);
      handle(message);
    }
  });
}
