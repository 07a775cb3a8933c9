/** What a command printed besides its log. The reason why it failed is in the log, and is given as text. */
export function withoutLog(printed: string): string {
  return printed.replaceAll(/^\{.*\}\n/gm, (line) => {
    const { level, msg } = JSON.parse(line) as { level: number; msg: string };
    return level === fatal ? `marketd: ${msg}\n` : "";
  });
}

const fatal = 60;
