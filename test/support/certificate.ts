import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { partnerProgram } from "./partners.js";

/** A certificate for `localhost` that signs itself, and its key, in PEM; undefined on a machine without openssl. */
export function selfSigned(): { readonly key: string; readonly certificate: string } | undefined {
  const openssl = partnerProgram("openssl");
  if (openssl === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "certificate-"));
  const request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
  try {
    execFileSync(openssl, [...request.split(" "), "-keyout", "key", "-out", "certificate"], {
      cwd: folder,
      stdio: "ignore",
    });
    return {
      key: readFileSync(join(folder, "key"), "utf8"),
      certificate: readFileSync(join(folder, "certificate"), "utf8"),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
