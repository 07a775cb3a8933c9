import { shortId } from "../format/names.js";

interface IdentifierProps {
  readonly id: string;
  readonly href?: string | undefined;
  /** Undefined: the shortened identifier. */
  readonly label?: string | undefined;
}

/** A shortened identifier; the whole one is in its tooltip. With `href` it is a link. */
export function Identifier({ id, href, label }: IdentifierProps) {
  const text = label ?? shortId(id);
  return href === undefined ? (
    <span class="identifier" title={id}>
      {text}
    </span>
  ) : (
    <a class="identifier" title={id} href={href}>
      {text}
    </a>
  );
}
