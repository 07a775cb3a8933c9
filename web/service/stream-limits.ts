/** The service sends something at least every 15 seconds; after this long the connection counts as lost. */
export const silenceMaxMs = 35_000;
export const retryMinMs = 1_000;
export const retryMaxMs = 30_000;
/**
 * A page that is hidden for this long closes its streams. Over HTTP/1.1 a browser opens six connections to a host, for
 * all tabs together, and each event source takes one. A user who is soon back sees no gap.
 */
export const hiddenMaxMs = 5_000;
/** Why a stream is not open then. */
export const pausedText = "paused while hidden";
