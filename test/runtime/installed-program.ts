import { mkdtempSync } from "node:fs";
import { cp, readdir, readFile, realpath, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ownRoot = fileURLToPath(new URL("../../", import.meta.url));

/**
 * A copy of the command in a folder of its own, whose build can be replaced as `npm run build` does it. Files are copied
 * asynchronously: a process that also relays connections would be silent on them meanwhile.
 */
export class InstalledProgram {
  readonly folder = mkdtempSync(join(tmpdir(), "marketd-installed-"));
  readonly program = join(this.folder, "bin", "marketd");
  readonly #root: string;
  #builds = 0;

  private constructor(root: string) {
    this.#root = root;
  }

  /** @param root the clone that is copied, with a build */
  static async of(root = ownRoot): Promise<InstalledProgram> {
    const installed = new InstalledProgram(root);
    for (const name of ["bin", "scripts", "package.json", "web"]) {
      await cp(join(root, name), join(installed.folder, name), { recursive: true });
    }
    await installed.replaceBuild((text) => text);
    return installed;
  }

  /**
   * Puts another build in the place of this one, and removes that, unless `keep`: processes that run it must do without
   * its files. `change` makes the text of each file of the bundle.
   */
  async replaceBuild(change: (text: string, file: string) => string, { keep = false } = {}): Promise<void> {
    const before = `dist.${this.#builds}`;
    this.#builds += 1;
    const name = `dist.${this.#builds}`;
    const build = join(this.folder, name);
    for (const part of ["bundle", "src"]) {
      await cp(join(await realpath(join(this.#root, "dist")), part), join(build, part), {
        recursive: true,
        filter: isUsed,
      });
    }
    for (const file of await readdir(join(build, "bundle"))) {
      const path = join(build, "bundle", file);
      await writeFile(path, change(await readFile(path, "utf8"), file));
    }
    const link = join(this.folder, "link");
    await symlink(name, link);
    await rename(link, join(this.folder, "dist"));
    if (!keep) await rm(join(this.folder, before), { recursive: true, force: true });
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** What a packed build has: the bundle, the modules that lead to it, and what is read as a file. */
function isUsed(path: string): boolean {
  if (/\.(map|d\.ts)$/.test(path)) return false;
  return !/\/src\/.*\.js$/.test(path) || /\/src\/(main|commands\/worker|embedded\/supervisor)\.js$/.test(path);
}

/** A worker of this build says that `/healthz` is `name`. */
export function named(name: string): (text: string) => string {
  return (text) => text.replaceAll('"alive"', JSON.stringify(name));
}
