import { fileURLToPath } from "node:url"
import { BerthError } from "@berth/protocol/errors"

/** The place of a workspace's repo: on this host, or where git inside reaches it itself. */
export type Source =
  | { readonly kind: "host"; readonly path: string }
  | { readonly kind: "remote"; readonly url: string }

/** Matches `https://…`, `ssh://…` and so on, and `git@host:path`, where a colon comes before any slash. */
const REMOTE = /^([a-z][a-z0-9+.-]*:\/\/|[^/]+:)/i

/** Reads a workspace's URL. A path without a leading slash has no meaning on a server. */
export const sourceOf = (url: string): Source => {
  if (url.startsWith("/")) return { kind: "host", path: url }
  if (/^file:\/\//i.test(url)) return { kind: "host", path: pathOf(url) }
  if (REMOTE.test(url)) return { kind: "remote", url }
  throw invalid(url)
}

const pathOf = (url: string): string => {
  try {
    return fileURLToPath(url)
  } catch (cause) {
    throw invalid(url, cause)
  }
}

const invalid = (url: string, cause?: unknown): BerthError =>
  new BerthError("input.invalid", "a repo is a URL, or a path of the host from /", {
    details: { url },
    cause,
  })
