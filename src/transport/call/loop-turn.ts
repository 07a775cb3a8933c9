/** A call that only matters if it is still open when the event loop has turned. */
export interface OpenCall {
  loopTurned(): void;
}

let opened: OpenCall[] = [];

/**
 * Tells a call once the loop has turned. Most calls are over by then, request and response within one read of a socket,
 * and need no timer at all.
 */
export function whenLoopTurned(call: OpenCall): void {
  if (opened.push(call) === 1) setImmediate(turn);
}

function turn(): void {
  const calls = opened;
  opened = [];
  for (const call of calls) call.loopTurned();
}
