/** Whether the server takes calls now; false while it starts and while it drains. */
export interface Readiness {
  readonly ready: boolean;
  /** Calls back at each change; returns how to stop that. */
  onChange(listener: () => void): () => void;
}
