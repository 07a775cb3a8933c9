/** Something that only matters if it is still there when the event loop has turned. */
export interface Begun {
  loopTurned(): void;
}

let begun: Begun[] = [];

/**
 * Tells `one` once the loop has turned. Most calls are over by then, request and answer within one read of a socket, and
 * need no timer at all.
 */
export function whenLoopTurned(one: Begun): void {
  if (begun.push(one) === 1) setImmediate(turn);
}

function turn(): void {
  const all = begun;
  begun = [];
  for (const one of all) one.loopTurned();
}
