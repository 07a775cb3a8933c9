import { useEffect, useRef, useState } from "preact/hooks";
import { MessageStream } from "../service/message-stream.js";

/** Whether a stream is open. */
export interface StreamConnection {
  /** How often it was opened; 0: not yet. */
  readonly count: number;
  /** Why it is not open; empty: it is, or has not been opened yet. */
  readonly lost: string;
}

const notOpened: StreamConnection = { count: 0, lost: "" };

/**
 * Follows a stream while the component is shown.
 * @param url over HTTP; undefined: there is nothing to follow
 * @param onMessage called with the number of the connection that a message came on
 */
export function useStream<T>(
  url: string | undefined,
  onMessage: (message: T, connection: number) => void,
): StreamConnection {
  const [connection, setConnection] = useState(notOpened);
  const newest = useRef(onMessage);
  newest.current = onMessage;
  useEffect(() => {
    setConnection(notOpened);
    if (url === undefined) return undefined;
    let count = 0;
    const stream = new MessageStream<T>(new URL(url), {
      opened: () => {
        count += 1;
        setConnection({ count, lost: "" });
      },
      received: (message) => newest.current(message, count),
      lost: (lost) => setConnection({ count, lost }),
    });
    return stream.start();
  }, [url]);
  return connection;
}
