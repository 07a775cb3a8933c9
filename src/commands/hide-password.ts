const flag = "--database-url";
const blank = "***";

/**
 * Blanks a database URL with a password in the process list, which every user of the machine can read. The process
 * keeps the URL. Linux and macOS; without such an argument nothing changes.
 */
export function hidePassword(): void {
  const words = process.argv.slice(1);
  const hidden = words.map((word, index) => {
    if (words[index - 1] === flag && hasPassword(word)) return blank;
    return word.startsWith(`${flag}=`) && hasPassword(word.slice(flag.length + 1)) ? `${flag}=${blank}` : word;
  });
  if (hidden.every((word, index) => word === words[index])) return;
  process.title = [process.argv0, ...process.execArgv, ...hidden].join(" ");
}

/** Text that is not a URL may contain one too. */
function hasPassword(text: string): boolean {
  return !URL.canParse(text) || new URL(text).password !== "";
}
