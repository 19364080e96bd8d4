import type { HostRequest } from "@berth/protocol/bridge"
import { MAX_CREDENTIAL_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { Secrets } from "../logging/secrets.ts"
import { git } from "./git.ts"

/** A helper on the host may ask a service for a token. */
export const FILL_DEADLINE_MS = 20_000

type CredentialRequest = Extract<HostRequest, { kind: "credential" }>

export interface Credential {
  readonly username: string
  readonly password: string
}

export interface CredentialOptions {
  /** The server's environment: where git's helpers find what they keep. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Collects granted credentials, which are never logged from then on. */
  readonly secrets: Secrets
  readonly signal: AbortSignal
}

/**
 * Asks the host's own git for the credential of the repo that a sandbox names, if that is one of its workspace's. The
 * sandbox's words are only compared: git is given the workspace's URL.
 */
export const fillCredential = async (
  request: CredentialRequest,
  urls: readonly string[],
  options: CredentialOptions,
): Promise<Credential> => {
  const wanted = placeOf(request)
  const url = urls.find((url) => {
    const place = placeOfUrl(url)
    return place !== undefined && place === wanted
  })
  if (url === undefined)
    throw new BerthError("credentials.refused", "that is no repo of this sandbox's workspace", {
      details: { protocol: request.protocol, host: request.host, path: request.path },
    })
  return await fill(url, options)
}

const HOST = /^([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$/
const DEFAULT_PORTS: Readonly<Record<string, string>> = { http: ":80", https: ":443" }

/**
 * A repo's address in normal form; undefined if it cannot be granted. Git's own normalization of a URL is not repeated
 * here: a path with escapes or dots in it is another path, not a way to write the same one.
 */
const placeOf = ({ protocol, host, path }: CredentialRequest): string | undefined => {
  const port = Object.hasOwn(DEFAULT_PORTS, protocol) && DEFAULT_PORTS[protocol]
  const name = host.toLowerCase()
  const repo = path?.replace(/\/+$/, "").replace(/\.git$/, "")
  if (!port || !HOST.test(name) || !repo) return undefined
  return `${protocol}://${name.endsWith(port) ? name.slice(0, -port.length) : name}/${repo}`
}

/** Takes a URL apart as git does: without the user's name, and the path decoded once. */
const placeOfUrl = (url: string): string | undefined => {
  const parts = /^(https?):\/\/(?:[^/@]*@)?([^/?#@]+)\/([^?#]+)$/i.exec(url)
  if (parts === null) return undefined
  const [, protocol = "", host = "", path = ""] = parts
  const decoded = decode(path)
  if (decoded === undefined) return undefined
  return placeOf({ kind: "credential", protocol: protocol.toLowerCase(), host, path: decoded })
}

const decode = (path: string): string | undefined => {
  try {
    return decodeURIComponent(path)
  } catch {
    return undefined
  }
}

const fill = async (
  url: string,
  { environment, secrets, signal }: CredentialOptions,
): Promise<Credential> => {
  const { status, stdout, said } = await git({
    args: ["credential", "fill"],
    cwd: "/",
    env: promptless(environment),
    input: `url=${url}\n\n`,
    deadlineMs: FILL_DEADLINE_MS,
    signal,
  })
  const found = new Map(
    stdout.split("\n").map((line) => {
      const at = line.indexOf("=")
      return [line.slice(0, at), line.slice(at + 1)] as const
    }),
  )
  const password = found.get("password")
  // The password is registered first of all, so that nothing below can put it into a log.
  if (password) secrets.add(password)
  const username = found.get("username") ?? ""
  if (
    status !== 0 ||
    !password ||
    Math.max(password.length, username.length) > MAX_CREDENTIAL_CHARS
  )
    throw new BerthError("credentials.none", "the host's git has no credentials for this repo", {
      details: { url, status, gitSaid: said },
    })
  return { username, password }
}

/** Git's environment without prompts: nobody sits at the server, so no helper may open a window or a prompt. */
const promptless = (environment: CredentialOptions["environment"]): Record<string, string> => ({
  ...(Object.fromEntries(
    Object.entries(environment).filter(
      ([name, value]) =>
        value !== undefined && !name.startsWith("GIT_") && !name.startsWith("BERTH_"),
    ),
  ) as Record<string, string>),
  GIT_TERMINAL_PROMPT: "0",
  // An empty value also keeps git from the programs that other variables and settings name.
  GIT_ASKPASS: "",
  GCM_INTERACTIVE: "never",
})
