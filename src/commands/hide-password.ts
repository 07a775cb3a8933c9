const flag = "--database-url";
const blank = "***";

/**
 * Takes a database URL with a password out of this process's line in the process list, which every user of the machine
 * can read. It was there until now, and the process still has it. Linux and macOS; without such an argument nothing
 * changes.
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

/** Text that is no URL may have one, too. */
function hasPassword(text: string): boolean {
  return !URL.canParse(text) || new URL(text).password !== "";
}
