import { useRef } from "preact/hooks";
import { CopyButton } from "./copy-button.js";

/** An identifier with all its characters, and what copies it. */
export function WholeIdentifier({ id, name }: { readonly id: string; readonly name: string }) {
  const text = useRef<HTMLElement>(null);
  return (
    <span class="whole-identifier">
      <code ref={text}>{id}</code> <CopyButton text={id} name={name} source={text} />
    </span>
  );
}
