import { readFileSync, statSync } from "node:fs";
import { exitUsage, OperatorError } from "../domain/operator-error.js";
import type { Log } from "../telemetry/log.js";

const readableByOthers = 0o044;

/**
 * The first line of a file that holds a secret. A warning is logged if other users may read the file.
 * @param what names the file in messages, such as "the file of the database URL"
 * @throws OperatorError if the file cannot be read, or its first line is empty
 */
export function readSecret(path: string, what: string, log: Log): string {
  let text: string;
  let mode: number;
  try {
    text = readFileSync(path, "utf8");
    mode = statSync(path).mode;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "is not there" : `cannot be read (${code})`;
    throw new OperatorError(`${what}, ${path}, ${why}`, exitUsage, error);
  }
  const [line = ""] = text.split(/\r?\n/);
  if (line.trim() === "") throw new OperatorError(`${what}, ${path}, has an empty first line`, exitUsage);
  if ((mode & readableByOthers) !== 0) log.warn({ path }, `other users may read ${what}`);
  return line;
}
