import { OperatorError } from "../domain/operator-error.js";

/** The usual ways in which a port cannot be had, as a line that says what to change. */
export function listenError(error: unknown, where: string): unknown {
  const hints: Record<string, string> = {
    EADDRINUSE: "something else listens there; stop it, or choose another with --listen",
    EACCES: "this user may not listen there; choose a port above 1023 with --listen",
    EADDRNOTAVAIL: "this machine has no such address; choose another with --listen",
    ENOTFOUND: "no such host; choose another with --listen",
  };
  const hint = hints[(error as NodeJS.ErrnoException).code ?? ""];
  return hint === undefined ? error : new OperatorError(`cannot listen on ${where}: ${hint}`, 1, error);
}
