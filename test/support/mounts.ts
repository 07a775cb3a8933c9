import { spawnSync } from "node:child_process";

/** Whether this user may mount file systems. In many containers root may not. */
export const canMount =
  process.platform === "linux" &&
  process.getuid?.() === 0 &&
  spawnSync("unshare", ["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;
