import { shortId } from "../format/names.js";

/** A shortened identifier; the whole one is in its tooltip. With `href` it is a link. */
export function Identifier({ id, href, label }: { id: string; href?: string | undefined; label?: string }) {
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
