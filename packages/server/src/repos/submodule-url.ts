import { MAX_URL_CHARS } from "@berth/protocol/bridge-limits"
import { withoutCredentials } from "@berth/protocol/url-credentials"

/** Matches git's own transports over a network. `ext::`, `file://`, a path and an option do not match. */
const NETWORK = /^(?:(?:https?|ssh|git):\/\/[^-/][^/]*\/.|[^-/:][^/:]*:(?!:|\/\/).)/i

/**
 * The address of a submodule on a network, without credentials; undefined if it has none. A relative URL begins at the
 * address of the repo's own remote, and `..` takes a part off its end, as git does.
 */
export const networkUrl = (url: string, remote: string | undefined): string | undefined => {
  const absolute = /^\.{1,2}\//.test(url) ? relativeTo(remote, url) : url
  if (absolute === undefined || absolute.length > MAX_URL_CHARS) return undefined
  if (!NETWORK.test(absolute) || /[\s\p{Cc}]/u.test(absolute)) return undefined
  return withoutCredentials(absolute)
}

const relativeTo = (remote: string | undefined, url: string): string | undefined => {
  if (remote === undefined || !NETWORK.test(remote)) return undefined
  let base = remote.replace(/\/$/, "")
  let rest = url
  let joint = "/"
  while (/^\.{1,2}\//.test(rest)) {
    if (rest.startsWith("../")) {
      const end = base.includes("/") ? base.lastIndexOf("/") : base.lastIndexOf(":")
      if (end < 0) return undefined
      if (base[end] === ":") joint = ":"
      base = base.slice(0, end)
    }
    rest = rest.slice(rest.indexOf("/") + 1)
  }
  return `${base}${joint}${rest}`.replace(/\/$/, "")
}
