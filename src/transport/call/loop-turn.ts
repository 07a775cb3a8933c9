/** A callback for calls that are still open on the next turn of the event loop. */
export interface OpenCall {
  loopTurned(): void;
}

let opened: OpenCall[] = [];

/** Notifies a call when the loop has turned. Most calls end within one read of a socket, and need no timer. */
export function whenLoopTurned(call: OpenCall): void {
  if (opened.push(call) === 1) setImmediate(turn);
}

function turn(): void {
  const calls = opened;
  opened = [];
  for (const call of calls) call.loopTurned();
}
