import type { Socket } from "node:net";
import type { EmbeddedPlaces } from "./embedded-places.js";
import type { ServerPrograms } from "./server-programs.js";

/** The configuration of a supervisor, as JSON in its only argument. */
export interface SupervisorOrder {
  readonly places: EmbeddedPlaces;
  readonly programs: ServerPrograms;
  readonly bufferPoolBytes: number;
}

/**
 * A message of the supervisor to its users, one JSON line each; `supervisor` is its process id. Users send nothing:
 * being connected is sufficient.
 */
export type SupervisorMessage =
  | { readonly type: "progress"; readonly text: string }
  | { readonly type: "ready"; readonly supervisor: number }
  | { readonly type: "failed"; readonly text: string };

/** Exit code of a supervisor that found another one running. */
export const lockHeldExitCode = 3;

/** Sends one message; a user that is gone is not an error. */
export function sendMessage(socket: Socket, message: SupervisorMessage): void {
  if (socket.writable) socket.write(`${JSON.stringify(message)}\n`);
}

/** Calls back with each complete message. A supervisor that was killed may leave half of one, which is dropped. */
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
