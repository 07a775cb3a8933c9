import { useEffect, useState } from "preact/hooks";

/** The component renders again each second, because it shows how old something is. */
export function useSeconds(): void {
  const [, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((seconds) => seconds + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
}
