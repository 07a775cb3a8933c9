import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ownRoot = fileURLToPath(new URL("../../", import.meta.url));

/** A copy of the command in a folder of its own, whose build can be replaced as `npm run build` does it. */
export class InstalledProgram {
  readonly folder = mkdtempSync(join(tmpdir(), "marketd-installed-"));
  readonly program = join(this.folder, "bin", "marketd");
  readonly #root: string;
  #builds = 0;

  /** @param root the clone that is copied, with a build */
  constructor(root = ownRoot) {
    this.#root = root;
    for (const name of ["bin", "scripts", "package.json", "web"]) {
      cpSync(join(root, name), join(this.folder, name), { recursive: true });
    }
    this.replaceBuild((text) => text);
  }

  /**
   * Puts another build in the place of this one, and removes that, unless `keep`: processes that run it must do without
   * its files. `change` makes the text of each file of the bundle.
   */
  replaceBuild(change: (text: string, file: string) => string, { keep = false } = {}): void {
    const before = `dist.${this.#builds}`;
    this.#builds += 1;
    const name = `dist.${this.#builds}`;
    const build = join(this.folder, name);
    for (const part of ["bundle", "src"]) {
      const filter = (path: string) => !path.endsWith(".map");
      cpSync(join(realpathSync(join(this.#root, "dist")), part), join(build, part), { recursive: true, filter });
    }
    for (const file of readdirSync(join(build, "bundle"))) {
      const path = join(build, "bundle", file);
      writeFileSync(path, change(readFileSync(path, "utf8"), file));
    }
    const link = join(this.folder, "link");
    symlinkSync(name, link);
    renameSync(link, join(this.folder, "dist"));
    if (!keep) rmSync(join(this.folder, before), { recursive: true, force: true });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A worker of this build says that `/healthz` is `name`. */
export function named(name: string): (text: string) => string {
  return (text) => text.replaceAll('"alive"', JSON.stringify(name));
}
